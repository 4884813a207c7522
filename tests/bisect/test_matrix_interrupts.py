"""A matrix that is interrupted before its first run says what is kept and how to go on."""

import os
import shlex
import signal
import socket
import subprocess
import sys

import pytest

from .killing import wait_until
from .stub_index import Stub, served
from .test_search_end_to_end import ROOT

pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]


@pytest.fixture
def words(tmp_path):
    """A matrix of one build, but for where its wheels are."""
    bare, axes = tmp_path / "bare.toml", tmp_path / "axes.toml"
    bare.write_text('summary = "torch alone"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n')
    axes.write_text(f'builds = ["{bare}"]\nworkarounds = ["none"]\nprofile = "smoke"\nhazards = false\n')
    return ("matrix", "--axes", str(axes), "--store", str(tmp_path / "store"), "--out", str(tmp_path / "m"))


def begin(*words):
    argv = [sys.executable, "-m", "bisect", *words]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt(child, words):
    """Ctrl-C; the message, once its command was found to be the same again."""
    os.kill(child.pid, signal.SIGINT)
    stdout, stderr = child.communicate(timeout=120)
    message, _, command = stderr.partition("\nhint: go on with: ")
    assert (child.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert shlex.split(command)[-len(words) :] == list(words)
    return message.splitlines()[-1]


def test_while_a_lock_is_resolved(tmp_path, words):
    """`interrupted` alone leaves a user to guess whether the runs of last night are gone."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = (*words, "--index", url, "--default-index", url)
        child = begin(*words)
        asked, _ = silent.accept()
        with asked:
            told = interrupt(child, words)

    kept = f"0 earlier runs are kept in {tmp_path / 'm'}, and every finished environment in {tmp_path / 'store'}"
    assert told == f"error: interrupted before anything was run; {kept}"
    assert not (tmp_path / "m").exists()


def test_while_an_environment_is_built(tmp_path, words):
    """A build takes minutes: it is when people change their mind."""
    waits = "import time\nwhile True: time.sleep(0.05)\n"
    with served(tmp_path / "index", [Stub(version="2.11.0+cu130", commit="c", code=waits)]) as url:
        words = (*words, "--index", url, "--default-index", url)
        child = begin(*words)
        wait_until(lambda: any((tmp_path / "store" / "building").glob("*/asked")), child)
        told = interrupt(child, words)

    assert told.startswith(
        f"error: interrupted after 0 runs; every finished one is in {tmp_path / 'm'}, and every fini"
    )
    assert (tmp_path / "m" / "matrix.html").exists()
    assert not list((tmp_path / "store" / "building").iterdir())


def test_while_the_libraries_load(tmp_path):
    """A traceback through numpy looks like a bug, and 1 means one."""
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("raise KeyboardInterrupt")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-m", "bisect", "matrix", "--dry-run"]

    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
