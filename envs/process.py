"""The one door to child processes: nothing else in the project imports subprocess.

A child gets its own process group. When it ends, or its time is up, or this process is interrupted, the whole group
is ended, so that no compile worker or data loader outlives a run; a killed parent takes the child with it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .errors import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Runs in front of a child, in its process: the kernel ends the child when the thread that started it is gone, so that
# no run outlives a killed search and slows the next one down (prctl(2), PR_SET_PDEATHSIG). Python ignores two signals
# of its own, and a program it turns into would go on ignoring them: `yes | head` would complain, or never end.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a child ended. A negative `returncode` is the signal that ended it."""

    returncode: int
    timed_out: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A finished child with what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def drop_output() -> int:
    """Nobody reads the output any more (`| head`): say nothing more, and answer what the shell calls SIGPIPE."""
    _into_nothing(1)
    _into_nothing(2)
    return 128 + signal.SIGPIPE


_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def cannot_write(error: OSError) -> CannotRunError:
    """What to say when something could not be written for want of space or leave; any other error is raised again."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, *_UNWRITABLE):
        raise error
    where = error.filename or "where the output goes"
    if error.errno in _UNWRITABLE:
        return CannotRunError(f"cannot use {where}: {error.strerror}", hint="make it writable, or work on a copy of it")
    _into_nothing(1)  # what is still in the buffer would fail once more at exit
    return CannotRunError(f"no space left: {where}", hint="make room, then give the same command again")


def _into_nothing(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    output: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    watch: Callable[[float], bool] | None = None,
    warn_signal: signal.Signals = signal.SIGTERM,
    grace_s: float = 5.0,
) -> Completed:
    """Run a child to its end, stdout and stderr together into the file `output` (appended) or nowhere.

    Args:
        argv: the program and its arguments.
        cwd: its working directory.
        env: its whole environment.
        timeout_s: after this time it gets `warn_signal`, and SIGKILL `grace_s` later.
        output: file that gets what it writes; written by the child itself unless `on_line` is given, so it is
            complete even when this process dies.
        on_line: called in a thread with every line it writes, without the line end.
        watch: called about five times a second with the elapsed seconds; True ends the child as timed out.
        warn_signal: SIGABRT lets a child with faulthandler dump the stacks of all threads.
        grace_s: time between the two signals.
    """
    started = time.monotonic()
    with _sink(output) as sink:
        child = _start(
            _tied(argv, env), cwd=cwd, env=env, stdout=subprocess.PIPE if on_line else sink, stderr=subprocess.STDOUT
        )
        reader = _reader(child.stdout, sink, on_line) if on_line and child.stdout else None
        try:
            timed_out = _wait(child, started, timeout_s, watch)
            if timed_out:
                _signal(child, warn_signal)
                _exited(child, grace_s)
        finally:
            _signal(child, signal.SIGKILL)
            child.wait()
            if reader is not None:
                reader.join(timeout=grace_s)
    return Completed(returncode=child.returncode, timed_out=timed_out, seconds=time.monotonic() - started)


def capture(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float = 120.0) -> Captured:
    """Run a short child and return what it wrote; a timeout ends it and counts as return code 124."""
    child = _start(argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
        returncode = child.returncode
    except subprocess.TimeoutExpired:
        _signal(child, signal.SIGKILL)
        stdout, stderr = child.communicate()
        returncode = 124
    finally:
        _signal(child, signal.SIGKILL)
    return Captured(
        returncode=returncode,
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
    )


def _sink(output: Path | None) -> IO[bytes]:
    return Path(os.devnull).open("wb") if output is None else output.open("ab")


def _tied(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The same program, ended when this process is; CannotRunError when it cannot be started."""
    if shutil.which(argv[0], path=env.get("PATH", os.defpath)) is None:
        why = "Permission denied" if Path(argv[0]).is_file() else "No such file or directory"
        raise CannotRunError(f"cannot start {argv[0]}: {why}", hint="is it installed, and executable?")
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *argv]


def _start(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdout: IO[bytes] | int, stderr: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise CannotRunError(f"cannot start {argv[0]}: {error.strerror}", hint="is it installed?") from error
    except PermissionError as error:
        raise CannotRunError(f"cannot start {argv[0]}: {error.strerror}", hint="is it executable?") from error


def _reader(stream: IO[bytes], sink: IO[bytes], on_line: Callable[[str], None]) -> threading.Thread:
    """Copy a child's lines to the sink and to `on_line`; ends when the last holder of the pipe is gone."""

    def copy() -> None:
        with stream:
            for raw in stream:
                sink.write(raw)
                sink.flush()
                on_line(raw.decode(errors="replace").rstrip("\r\n"))

    thread = threading.Thread(target=copy, name="output", daemon=True)
    thread.start()
    return thread


def _wait(
    child: subprocess.Popen[bytes],
    started: float,
    timeout_s: float | None,
    watch: Callable[[float], bool] | None,
) -> bool:
    """Wait for the child; True when its time is up or `watch` says so."""
    while True:
        elapsed = time.monotonic() - started
        if timeout_s is not None and elapsed >= timeout_s:
            return True
        if watch is not None and watch(elapsed):
            return True
        if _exited(child, 0.2 if timeout_s is None else min(0.2, max(0.001, timeout_s - elapsed))):
            return False


def _exited(child: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        child.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the whole group; it may be gone already."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return
