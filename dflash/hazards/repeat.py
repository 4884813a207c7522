"""One attempt at a crash, made again in fresh forks: for a race that no gate can force, because it is inside C++.

A race won with probability p in one attempt is missed by n attempts with probability (1 - p)^n.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import tempfile
import traceback
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NoReturn

from .forced import CouldNotForceError

if TYPE_CHECKING:
    from collections.abc import Callable

_CRASHED_AT = re.compile(r"Current thread \S+ .*?\n\s+(File .*)")


@dataclass(frozen=True)
class Crash:
    """The attempt, counted from one, that was ended by a signal, and what faulthandler wrote of it."""

    attempt: int
    signal: signal.Signals
    log: str


def first_crash(attempt: Callable[[], None], *, times: int, deadline_s: float) -> Crash | None:
    """The first of at most `times` attempts that dies by a signal; None when all of them ended well.

    An attempt that hangs is killed and the next one made; CouldNotForceError when none crashed and not all ended well.
    """
    strange: list[str] = []
    for number in range(1, times + 1):
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            returncode = _in_a_fork(attempt, log, deadline_s)
            log.seek(0)
            text = log.read()
        if returncode is None:
            strange.append(f"attempt {number} did not end within {deadline_s:.0f} s")
        elif returncode < 0:
            return Crash(number, signal.Signals(-returncode), text)
        elif returncode > 0:
            strange.append(f"attempt {number} failed: {text.strip().splitlines()[-1]}")
    if strange:
        raise CouldNotForceError(f"{len(strange)} of {times} attempts gave no answer; {strange[0]}")
    return None


def crash_frame(log: str) -> tuple[str, ...]:
    """The Python frame that faulthandler saw the process die in, if it wrote one."""
    frame = _CRASHED_AT.search(log)
    return (frame[1],) if frame else ()


def _in_a_fork(attempt: Callable[[], None], log: IO[str], deadline_s: float) -> int | None:
    """The exit code of the attempt (negative: a signal), or None when it had to be killed."""
    pid = os.fork()
    if pid == 0:
        _be_the_fork(attempt, log)
    descriptor = os.pidfd_open(pid)
    ended, _, _ = select.select([descriptor], [], [], deadline_s)
    os.close(descriptor)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


def _be_the_fork(attempt: Callable[[], None], log: IO[str]) -> NoReturn:
    faulthandler.enable(file=log)
    try:
        attempt()
    except BaseException:  # noqa: BLE001 - the parent reports it
        traceback.print_exc(file=log)
        log.flush()
        os._exit(1)
    os._exit(0)  # no finalisers, and nothing of the parent's stack is run twice
