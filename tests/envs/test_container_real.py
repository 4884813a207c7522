"""A real engine, end to end: sealed runs, a real torch built and trained inside, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envs import container, place, sandbox, settings
from envs.errors import CannotRunError
from envs.store import Store

ROOT = Path(__file__).parent.parent.parent
BASE_IMAGE = "torch-upgrade-bisect/base:test"

pytestmark = pytest.mark.container


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """Variables under which every command of the tool finds an engine that this session started, or the given one."""
    given = os.environ.get("DOCKER_HOST")
    if given:
        yield {**os.environ, "ENVS_BASE_IMAGE": BASE_IMAGE}
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("mmdebstrap") is None:
        pytest.skip("no container engine: set DOCKER_HOST, or install docker.io, iptables and mmdebstrap as root")
    home = tmp_path_factory.mktemp("engine")
    address = f"unix://{home}/sock"
    with (home / "log").open("wb") as log:
        daemon = subprocess.Popen(
            _daemon(home, address),
            stdout=log,
            stderr=log,
        )
    try:
        if not _answers(address):
            pytest.skip(f"no container engine: dockerd does not start here: {_last_line(home / 'log')}")
        yield {**os.environ, "DOCKER_HOST": address, "ENVS_BASE_IMAGE": BASE_IMAGE}
    finally:
        daemon.terminate()
        daemon.wait(timeout=60)
        _unmount_below(home)


def _unmount_below(home):
    """A stopped daemon leaves its network namespace mounted, and the directory could never be removed."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted((path for path in mounted if path.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False)


def _daemon(home, address):
    return [
        *("dockerd", "--host", address, "--pidfile", home / "pid"),
        *("--data-root", home / "data", "--exec-root", home / "exec"),
    ]


def _answers(address):
    for _ in range(100):
        try:
            container.connect({"DOCKER_HOST": address}).close()
        except CannotRunError:
            time.sleep(0.3)
        else:
            return True
    return False


def _last_line(path):
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "no output"


@pytest.fixture(scope="module")
def base_image(environ):
    """The base image, made by the command a user would type; what was built in it goes with it."""
    made = json.loads(_tool(environ, "envs", "base-image", "--json").stdout)
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


def _tool(environ, *argv, timeout=900):
    finished = subprocess.run(
        [sys.executable, "-m", *argv],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished


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
def test_the_benchmark_trains_alike_in_a_container_and_on_the_host(environ, base_image, tmp_path):
    """A difference between the two is evidence about the host; here there must be none: same losses, same build."""
    answers = {}
    for backend in ("container", "venv"):
        out = tmp_path / backend
        _tool(environ, "bisect", "train", "cu130", "--threads", "1", "--backend", backend, "--out", str(out))
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
def test_nothing_is_left_after_a_kill_and_a_prune(environ, base_image, tmp_path):
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
    running = _eventually(lambda: client.containers(filters={"label": f"{sandbox.LABEL}={owner}"}))
    driver.send_signal(signal.SIGKILL)
    driver.wait()

    _tool(environ, "envs", "prune")

    assert running
    assert client.containers(all=True, filters={"label": sandbox.LABEL}) == []
    client.close()


def _eventually(question):
    for _ in range(600):
        answer = question()
        if answer:
            return answer
        time.sleep(0.2)
    return None
