"""The tool killed at random instants on a real engine: after a prune nothing of it is left."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from envs import container, place, sandbox
from envs.store import Store

from . import stubs
from .conftest import ROOT

pytestmark = [pytest.mark.container, pytest.mark.uv]

KILLS = 3
SEED = 20261129
NAME = "torch-upgrade-bisect/killed:test"
WORK = """
import os, sys
from pathlib import Path
from envs import cli, place, settings
rootfs, definition, directory = sys.argv[1:]
assert cli.main(["base-image", "--rootfs", rootfs]) == 0
print("imported", flush=True)
assert cli.main(["build", definition]) == 0
where = place.place_of(settings.from_environ(os.environ))
for _ in range(3):
    where.run(["sleep", "0.3"], cwd=Path(directory), env={}, writable=(Path(directory),))
"""


@pytest.fixture
def work(environ, small_rootfs, tmp_path):
    """Starts a process that imports a base image, builds an environment in it, and runs in it."""
    tag = "cp311-cp311-manylinux_2_17_x86_64"
    stubs.torch(tmp_path / "wheels", "2.10.0", says="2.10.0+cu128", cuda="12.8", tag=tag)
    definition = tmp_path / "stub.toml"
    definition.write_text('summary = "s"\ntorch = "2.10.0"\ncuda = "cu128"\npython = "3.11"\n')
    own = {
        **environ,
        "ENVS_BASE_IMAGE": NAME,
        "ENVS_STORE": str(tmp_path / "store"),
        "ENVS_WHEELHOUSE": str(tmp_path / "wheels"),
        "ENVS_BACKEND": "container",
        "PYTHONPATH": str(ROOT),
    }
    argv = [sys.executable, "-c", WORK, str(small_rootfs), str(definition), str(tmp_path)]
    log = (tmp_path / "log.txt").open("ab")
    yield own, lambda: subprocess.Popen(argv, cwd=tmp_path, env=own, stdout=log, stderr=log)
    log.close()


def test_kills_at_random_instants_leave_nothing_after_a_prune(work, tool, tmp_path):
    """A run without a driver would hold the GPUs, and half an environment would be taken for a whole one."""
    own, start = work
    began = time.monotonic()
    assert start().wait(240) == 0, (tmp_path / "log.txt").read_text()[-2000:]
    whole = time.monotonic() - began
    rng = random.Random(SEED)
    store = tmp_path / "store"
    owner = place.owner_of(store)
    engine = container.connect(own)
    client = engine._client
    ours = {"label": f"{sandbox.LABEL}={owner}"}
    unnamed = {"dangling": True, "label": f"{sandbox.STORE_LABEL}={owner}"}
    for number in range(KILLS):
        for entry in Store(store).entries():
            Store(store).remove(entry.digest)
        child = start()
        time.sleep(whole * (number + rng.random()) / KILLS)
        child.send_signal(signal.SIGKILL)
        child.wait()

        tool(own, "envs", "prune")

        assert client.containers(all=True, filters=ours) == []
        assert list((store / "building").glob("*")) == []
        used = {entry.image for entry in Store(store).entries()}
        assert {image["Id"] for image in client.images(filters=unnamed)} <= used
    tool(own, "envs", "prune", "--all")
    assert client.images(filters=unnamed) == []
    client.remove_image(NAME, force=True)
    engine.close()
