"""A child sees only what it should, its output is kept, and nothing of it survives."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from envs import machine, process, scrub
from envs.errors import CannotRunError

pytestmark = pytest.mark.subprocess

PYTHON = sys.executable
ROOT = Path(__file__).resolve().parents[2]


def run(code, tmp_path, **kwargs):
    return process.run([PYTHON, "-u", "-c", code], cwd=tmp_path, env={"PATH": os.defpath}, **kwargs)


def gone(pid, within_s=5.0):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if "Z" in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]:
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def test_output_and_return_code(tmp_path):
    """The log is the evidence; stdout and stderr belong in it in order."""
    log = tmp_path / "log"

    done = run("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)", tmp_path, output=log)

    assert (done.returncode, done.timed_out) == (3, False)
    assert log.read_text() == "a\nb\n"


def test_lines_are_seen_as_they_come_and_kept(tmp_path):
    """Progress needs the lines now, the evidence needs them later."""
    lines = []
    log = tmp_path / "log"

    run("print('one'); print('two')", tmp_path, output=log, on_line=lines.append)

    assert lines == ["one", "two"]
    assert log.read_text() == "one\ntwo\n"


def test_signal_is_seen(tmp_path):
    """A segfault must not look like exit 1."""
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path).returncode == -signal.SIGSEGV


def test_a_child_ignores_no_signal_that_a_shell_would_not(tmp_path):
    """`yes | head` in a user's command would print an error into the log that is judged, or exit otherwise."""
    output = tmp_path / "log"

    process.run(["cat", "/proc/self/status"], cwd=tmp_path, env=dict(os.environ), output=output)

    (ignored,) = re.findall(r"^SigIgn:\s+([0-9a-f]+)$", output.read_text(), re.MULTILINE)
    assert not [s for s in (signal.SIGPIPE, signal.SIGXFSZ) if int(ignored, 16) >> (s - 1) & 1]


def test_timeout_ends_the_whole_group(tmp_path):
    """A compile worker that outlives its run slows every later measurement down."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"

    done = run(code, tmp_path, output=log, timeout_s=1.5, grace_s=0.5)

    assert done.timed_out
    assert done.seconds < 10
    assert gone(int(log.read_text()))


def test_grandchild_does_not_keep_a_finished_run_waiting(tmp_path):
    """A daemon that holds the pipe open would hang the parent for ever."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)\n"
    )
    lines = []

    done = run(code, tmp_path, on_line=lines.append)

    assert done.seconds < 10
    assert gone(int(lines[0]))


def test_child_that_ignores_the_first_signal_is_killed(tmp_path):
    """A thread stuck in a CUDA call ignores SIGTERM."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(60)"

    done = run(code, tmp_path, timeout_s=1.0, grace_s=0.3)

    assert (done.timed_out, done.returncode) == (True, -signal.SIGKILL)


def test_stacks_of_a_hang(tmp_path):
    """With SIGABRT as the first signal faulthandler says where every thread hangs."""
    code = "import faulthandler, time; faulthandler.enable(); time.sleep(60)"
    log = tmp_path / "log"

    run(code, tmp_path, output=log, timeout_s=1.0, warn_signal=signal.SIGABRT)

    assert "Fatal Python error: Aborted" in log.read_text()


def test_watch_ends_a_run(tmp_path):
    """A heartbeat that stopped ends the run before its time is up."""
    done = run("import time; time.sleep(60)", tmp_path, watch=lambda elapsed: elapsed > 0.3, grace_s=1.0)

    assert done.timed_out
    assert done.seconds < 5


def test_missing_program(tmp_path):
    """One line, not a traceback."""
    with pytest.raises(CannotRunError, match="cannot start /nowhere/uv"):
        process.run(["/nowhere/uv"], cwd=tmp_path, env={})


def test_capture(tmp_path):
    """Short questions to an environment get stdout and stderr apart."""
    asked = process.capture([PYTHON, "-c", "import sys; print('a'); print('b', file=sys.stderr)"], cwd=tmp_path, env={})

    assert (asked.returncode, asked.stdout, asked.stderr) == (0, "a\n", "b\n")


def test_capture_timeout(tmp_path):
    """A question without an answer is not waited for."""
    asked = process.capture([PYTHON, "-c", "import time; time.sleep(60)"], cwd=tmp_path, env={}, timeout_s=0.5)

    assert asked.returncode == 124


@pytest.fixture
def child(tmp_path):
    environ = {
        "PATH": "/home/someone/.venv/bin:/usr/bin",
        "VIRTUAL_ENV": "/home/someone/.venv",
        "PYTHONPATH": "/home/someone/lib",
        "LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64",
        "LD_PRELOAD": "hook.so",
        "UV_INDEX_URL": "https://user:secret@example.org",
        "PIP_INDEX_URL": "https://user:secret@example.org",
        "TORCH_COMPILE_DISABLE": "1",
        "HOME": "/home/someone",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LC_ALL": "C.UTF-8",
    }
    return environ, scrub.child_environment(
        environ,
        python=tmp_path / "env/bin/python",
        home=tmp_path / "home",
        caches=tmp_path / "caches",
        extra=[("PROBE", "yes")],
    )


def test_child_sees_nothing_of_the_surroundings(child, tmp_path):
    """F12, D16: LD_LIBRARY_PATH, PYTHONPATH and the user site replace libraries inside the environment."""
    _, env = child

    assert not {
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "UV_INDEX_URL",
        "PIP_INDEX_URL",
        "TORCH_COMPILE_DISABLE",
    } & set(env)
    assert env["HOME"] == str(tmp_path / "home")
    assert env["PYTHONNOUSERSITE"] == env["PYTHONSAFEPATH"] == "1"
    assert env["PATH"] == f"{tmp_path}/env/bin:/usr/bin"
    assert "secret" not in str(env)


def test_child_keeps_devices_and_locale_and_has_its_own_caches(child, tmp_path):
    """The GPUs a job was given are its own; a compile cache shared with another build is contamination."""
    _, env = child

    assert (env["CUDA_VISIBLE_DEVICES"], env["LC_ALL"], env["PROBE"]) == ("0,1", "C.UTF-8", "yes")
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH"):
        assert env[name].startswith(str(tmp_path / "caches"))
    assert Path(env["TMPDIR"]).is_dir()


def test_what_was_dropped_is_told(child):
    """The evidence says what the shell had that the run did not."""
    environ, env = child

    assert {"LD_LIBRARY_PATH", "TORCH_COMPILE_DISABLE", "HOME"} <= set(scrub.dropped(environ, env))
    assert "CUDA_VISIBLE_DEVICES" not in scrub.dropped(environ, env)


def test_installer_keeps_certificates_and_drops_configuration():
    """A firewall's certificate is needed for downloads; a user's index setting changes what is installed."""
    env = scrub.installer_environment(
        {
            "SSL_CERT_FILE": "/etc/ca.pem",
            "https_proxy": "http://proxy:3128",
            "UV_INDEX_URL": "https://elsewhere.example",
            "UV_PYTHON": "3.9",
            "PIP_FIND_LINKS": "/opt/wheels",
            "UV_CACHE_DIR": "/big/uv",
        }
    )

    assert env["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert env["https_proxy"] == "http://proxy:3128"
    assert env["UV_CACHE_DIR"] == "/big/uv"
    assert env["UV_LINK_MODE"] == "copy"
    assert env["UV_NO_CONFIG"] == "1"
    assert not {"UV_INDEX_URL", "UV_PYTHON", "PIP_FIND_LINKS"} & set(env)


def test_a_killed_parent_takes_the_child_with_it(tmp_path):
    """A run that outlives its killed search slows down, and shares the memory of, the one after the resume."""
    inner = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    outer = (
        "import pathlib, sys; from envs import process; "
        f"process.run([sys.executable, '-c', {inner!r}], cwd=pathlib.Path.cwd(), env={{}})"
    )
    parent = subprocess.Popen([PYTHON, "-c", outer], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    pid = tmp_path / "pid"
    deadline = time.monotonic() + 60
    while not pid.exists() or not pid.read_text():
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.kill()
    parent.wait()

    assert gone(int(pid.read_text()), within_s=30)


@pytest.mark.parametrize("room", ["envs", "bisect"])
def test_output_onto_a_full_device_is_one_line(room):
    """A traceback about a disk that is full reads like a bug of the tool."""
    words = {"envs": ["list"], "bisect": ["next", "--problem", "problem.json"]}[room]
    with Path("/dev/full").open("w") as full, tempfile.TemporaryDirectory() as folder:
        problem = {"candidates": ["a", "b"], "good": "a", "bad": "b", "observations": []}
        Path(folder, "problem.json").write_text(json.dumps(problem))
        words = [str(Path(folder, word)) if word == "problem.json" else word for word in words]
        done = subprocess.run(
            [PYTHON, "-m", room, *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode == 6, done.stderr
    assert done.stderr.splitlines() == [
        "error: no space left: where the output goes",
        "hint: make room, then give the same command again",
    ]


def test_what_a_killed_tool_left_working_is_ended(tmp_path):
    """An installer without its driver would write on into a directory that prune has just removed."""
    left = subprocess.Popen(["sh", "-c", "sleep 100; true", "sh", str(tmp_path / "build")], start_new_session=True)
    other = subprocess.Popen(["sleep", "100"], start_new_session=True)

    machine.end_orphans(tmp_path / "build")

    assert left.wait(30) == -signal.SIGTERM
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_may_not_be_written_is_told_in_one_line(number):
    """A resume on a read-only file system would end in a traceback."""
    told = process.cannot_write(OSError(number, os.strerror(number), "/runs/7/.lock"))

    assert told.exit_code == 6
    assert "/runs/7/.lock" in told.message
    assert "\n" not in told.message


def test_another_error_of_the_system_stays_a_bug():
    """A mistake of ours would be put down to the disk."""
    with pytest.raises(FileNotFoundError):
        process.cannot_write(FileNotFoundError(errno.ENOENT, "x", "/runs/7"))
