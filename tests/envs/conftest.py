"""One real engine and one base image for all tests that need them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envs import container, settings
from envs.store import Store

from . import engines

ROOT = Path(__file__).parent.parent.parent
BASE_IMAGE = "torch-upgrade-bisect/base:test"
SMALL_IMAGE = "torch-upgrade-bisect/small:test"
ROOTFS = ("--rootfs", os.environ["TEST_ROOTFS"]) if os.environ.get("TEST_ROOTFS") else ()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """The engine that this session started; None when DOCKER_HOST names one."""
    if os.environ.get("DOCKER_HOST"):
        yield None
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("mmdebstrap") is None:
        pytest.skip("no container engine: set DOCKER_HOST, or install docker.io, iptables and mmdebstrap as root")
    started = engines.docker(tmp_path_factory.mktemp("engine"))
    try:
        if not started.start():
            pytest.skip(f"no container engine: dockerd does not start here: {started.why()}")
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def environ(daemon):
    """Variables under which every command of the tool finds the engine."""
    address = daemon.address if daemon else os.environ["DOCKER_HOST"]
    return {**os.environ, "DOCKER_HOST": address, "ENVS_BASE_IMAGE": BASE_IMAGE}


@pytest.fixture(scope="session")
def base_image(environ, tool):
    """The base image, made by the command a user would type; what was built in it goes with it.

    TEST_ROOTFS names an archive to make it of, where the two minutes of mmdebstrap are too long to wait for.
    """
    made = json.loads(tool(environ, "envs", "base-image", *ROOTFS, "--json").stdout)
    assert made["image"] == BASE_IMAGE
    yield BASE_IMAGE
    store = Store(settings.from_environ(environ).store)
    for entry in store.entries():
        if entry.image == made["id"]:
            store.remove(entry.digest)


@pytest.fixture
def engine(environ, base_image):
    connection = container.connect(environ)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def small_rootfs(environ, base_image, tmp_path_factory):
    """An archive of a root file system with little more than a Python."""
    connection = container.connect(environ)
    archive = engines.small_rootfs(connection, base_image, tmp_path_factory.mktemp("small"))
    connection.close()
    return archive


@pytest.fixture(scope="session")
def small_image(environ, small_rootfs):
    """The name of an image of it."""
    connection = container.connect(environ)
    connection.import_image(small_rootfs, SMALL_IMAGE, owner="test")
    connection.close()
    return SMALL_IMAGE


@pytest.fixture(scope="session")
def tool():
    """Runs `python -m ...` of this project to its end, which must be the one given."""

    def run(environ, *argv, code=0, timeout=900):
        command = [sys.executable, "-m", *argv]
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == code, done.stderr[-3000:]
        return done

    return run
