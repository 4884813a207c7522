"""A real engine, end to end: sealed runs, a real torch built and trained inside, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from envs import container, place, sandbox, settings

from . import engines
from .conftest import BASE_IMAGE, ROOT

pytestmark = pytest.mark.container


def _run(engine, directory, *argv, **limits):
    box = sandbox.Sandbox(
        image=BASE_IMAGE,
        argv=argv,
        cwd="/",
        environment={"PATH": "/usr/bin:/bin"},
        mounts=(sandbox.Mount(path=str(directory), read_only=False),),
        output=str(directory / "log.txt"),
        user=f"{os.getuid()}:{os.getgid()}",
        limits=sandbox.Limits(**limits),
        owner="test",
    )
    return engine.run(box, timeout_s=60)


@pytest.mark.parametrize(
    ("code", "returncode", "log"),
    [
        ("print('fine')", 0, "fine"),
        ("import os; os.kill(os.getpid(), 11)", 139, ""),
        ("import os; os.abort()", 134, ""),
        ("import socket; socket.create_connection(('192.0.2.1', 80), 3)", 1, "Network is unreachable"),
        ("open('/etc/new', 'w')", 1, "Read-only file system"),
    ],
)
def test_a_real_run_is_sealed_and_tells_how_it_ended(engine, tmp_path, code, returncode, log):
    """PID 1 ignores its own signals: without an init a segfault would exit 0 and count as a pass."""
    finished = _run(engine, tmp_path, "python3", "-c", code)

    assert finished.completed.returncode == returncode
    assert log in (tmp_path / "log.txt").read_text()


def test_running_out_of_memory_is_told_from_a_kill(engine, tmp_path):
    """137 alone says only that somebody sent SIGKILL."""
    finished = _run(engine, tmp_path, "python3", "-c", "x = bytearray(10**9)", memory_bytes=200 * 2**20)

    assert (finished.completed.returncode, finished.out_of_memory) == (137, True)


def test_the_deadline_holds_without_this_tool(engine, tmp_path):
    """A container whose driver was killed would run for ever."""
    finished = _run(engine, tmp_path, "sleep", "50", deadline_s=1)

    assert finished.completed.returncode == 143
    assert not finished.completed.timed_out


def test_what_a_run_writes_belongs_to_the_user(engine, tmp_path):
    """Files of root in a user's run directory cannot be removed by the user."""
    _run(engine, tmp_path, "python3", "-c", f"open({str(tmp_path / 'made')!r}, 'w')")

    assert (tmp_path / "made").stat().st_uid == os.getuid()


@pytest.mark.network
def test_the_benchmark_trains_alike_in_a_container_and_on_the_host(tool, environ, base_image, tmp_path):
    """A difference between the two is evidence about the host; here there must be none: same losses, same build."""
    answers = {}
    for backend in ("container", "venv"):
        out = tmp_path / backend
        tool(environ, "bisect", "train", "cu130", "--threads", "1", "--backend", backend, "--out", str(out))
        answers[backend] = json.loads((out / "run-0001" / "result.json").read_text())

    assert answers["container"]["finished"]
    assert _essence(answers["container"]) == _essence(answers["venv"])


def _essence(result):
    drafter = next(thread for thread in result["threads"] if thread["role"] == "drafter")
    return {
        "torch": result["environment"]["torch"],
        "git_version": result["environment"]["git_version"],
        "losses": [round(loss, 4) for loss in drafter["losses"]],
        "exceptions": drafter["exceptions"],
    }


@pytest.mark.network
def test_nothing_is_left_after_a_kill_and_a_prune(tool, environ, base_image, tmp_path):
    """A killed driver would leave a training run holding the GPUs."""
    command = [
        sys.executable,
        "-m",
        "bisect",
        "train",
        "cu130",
        "--backend",
        "container",
        "--out",
        str(tmp_path / "run"),
    ]
    driver = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    owner = place.owner_of(settings.from_environ(environ).store)
    client = container.connect(environ)._client
    running = engines.eventually(lambda: client.containers(filters={"label": f"{sandbox.LABEL}={owner}"}))
    driver.send_signal(signal.SIGKILL)
    driver.wait()

    tool(environ, "envs", "prune")

    assert running
    assert client.containers(all=True, filters={"label": sandbox.LABEL}) == []
    client.close()
