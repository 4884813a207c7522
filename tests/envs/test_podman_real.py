"""Podman's docker-compatible socket: what works through it works, and what it drops is not believed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envs import container, place, sandbox, settings
from envs.errors import CannotRunError
from envs.run_line import run_line

from . import engines, stubs

pytestmark = [pytest.mark.container, pytest.mark.uv]

UNTOLD = "saying that a kill was for memory (any 137 may be one)"
IMAGE = "torch-upgrade-bisect/small:podman"


@pytest.fixture(scope="module")
def environ_podman(environ, small_rootfs, tmp_path_factory, tool):
    """Variables under which every command of the tool finds a podman with an image of its own."""
    missing = [name for name in ("podman", "runc", "conmon") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"no podman: {', '.join(missing) or 'root'} is needed")
    if not list(Path("/usr").glob("lib*/podman/catatonit")) and shutil.which("catatonit") is None:
        pytest.skip("no podman: its init, catatonit, is not installed")
    daemon = engines.podman(tmp_path_factory.mktemp("podman"), environ)
    try:
        if not daemon.start():
            pytest.skip(f"no podman: its service does not start here: {daemon.why()}")
        own = {**environ, "DOCKER_HOST": daemon.address, "ENVS_BASE_IMAGE": IMAGE}
        tool(own, "envs", "base-image", "--rootfs", str(small_rootfs))
        yield own
    finally:
        daemon.stop()


@pytest.fixture
def small(environ_podman, tmp_path, monkeypatch):
    """A place in podman's image."""
    monkeypatch.setenv("DOCKER_HOST", environ_podman["DOCKER_HOST"])
    here = place.place_of(settings.Settings(store=tmp_path / "store", backend="container", base_image=IMAGE))
    yield here
    here.engine.close()


def _tight(where):
    return dataclasses.replace(where.limits, memory_bytes=64 << 20)


def _run(where, directory, *argv, **changes):
    boxed = dataclasses.replace(where, **changes)
    log = directory / "log.txt"
    return boxed.run(argv, cwd=directory, env={}, writable=(directory,), output=log, timeout_s=120.0)


def test_podman_says_who_it_is_and_what_it_does_not_keep(small, tmp_path):
    """A limit that is ignored takes the node down, and a kill for memory that is not told convicts a build."""
    killed = _run(small, tmp_path, "python3", "-c", "bytearray(2**30)", limits=_tight(small))
    told = "OOMKilled" in (tmp_path / "log.txt").read_text()

    assert small.engine_name.startswith("podman ")
    assert killed.returncode == 137
    assert small.shortcomings() == (() if told else (f"{small.engine_name} cannot be relied on for: {UNTOLD}",))


def test_the_line_that_repeats_a_run_is_one_that_podman_takes(small, tmp_path):
    """It is written with docker's options, and another engine would answer for the default one."""
    code = "import os, socket; print(os.getcwd()); socket.create_connection(('192.0.2.1', 80), 3)"
    sealed = small.sealed(["python3", "-c", code], cwd=tmp_path, env={}, writable=(tmp_path,), readable=())

    done = subprocess.run(
        run_line(sealed), env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (1, f"{tmp_path}\n"), done.stderr
    assert "Network is unreachable" in done.stderr


def test_a_dropped_gpu_request_is_noticed(small, tmp_path):
    """Podman takes the request and starts without a GPU: the run on the CPU would be reported as one on the GPU."""
    if list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has GPUs")
    ended = _run(small, tmp_path, "true", gpus="all")

    with pytest.raises(CannotRunError) as raised:
        dataclasses.replace(small, gpus="all").shortcomings()

    assert ended.returncode == 0
    assert (raised.value.outcome, raised.value.exit_code) == ("no_gpu", 6)


@pytest.mark.parametrize(
    ("code", "limits", "returncode", "noted"),
    [
        ("print('fine')", {}, 0, "fine"),
        ("import os; os.kill(os.getpid(), 11)", {}, 139, ""),
        ("import socket; socket.create_connection(('192.0.2.1', 80), 3)", {}, 1, "Network is unreachable"),
        ("open('/etc/new', 'w')", {}, 1, "Read-only file system"),
    ],
)
def test_a_run_is_sealed_and_tells_how_it_ended(small, tmp_path, code, limits, returncode, noted):
    """A crash that exits 0, or a memory limit that nobody reports, would count as a pass or against the build."""
    ended = _run(small, tmp_path, "python3", "-c", code, limits=dataclasses.replace(small.limits, **limits))

    assert ended.returncode == returncode
    assert noted in (tmp_path / "log.txt").read_text()


def test_an_environment_is_built_inside(environ_podman, tool, tmp_path):
    """Where a cluster has podman only, nothing could be built sealed."""
    tag = "cp311-cp311-manylinux_2_17_x86_64"
    stubs.torch(tmp_path / "wheels", "2.10.0", says="2.10.0+cu128", cuda="12.8", tag=tag)
    definition = tmp_path / "stub.toml"
    definition.write_text('summary = "s"\ntorch = "2.10.0"\ncuda = "cu128"\npython = "3.11"\n')
    own = {**environ_podman, "ENVS_STORE": str(tmp_path / "store"), "ENVS_WHEELHOUSE": str(tmp_path / "wheels")}

    built = json.loads(tool(own, "envs", "build", str(definition), "--backend", "container", "--json").stdout)
    tool(own, "envs", "prune")

    assert built["fingerprint"]["torch"] == "2.10.0+cu128"
    engine = container.connect(own)
    assert engine._client.containers(all=True, filters={"label": sandbox.LABEL}) == []
    engine.close()
