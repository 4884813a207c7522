"""Ctrl-C and SIGTERM while a run directory is worked in: they end the work, and how to go on is always told."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envs.errors import InterruptedRunError

from .again import resume_command
from .journal import FILE_NAME, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

NUMBERS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10.0
"""How long after a first signal another one is taken for the same wish: `uv run` sends on what its child has too."""


@contextmanager
def interruptible(told: Callable[[], InterruptedRunError]) -> Iterator[None]:
    """Raise what `told` says where a signal ends the work inside; a second signal does not break off that ending.

    The process is then about to end, and hears no more of these signals.
    """
    previous: dict[signal.Signals, _Handler] = {number: signal.getsignal(number) for number in NUMBERS}
    patient = _Patient()
    for number in NUMBERS:
        signal.signal(number, patient)
    try:
        yield
    except KeyboardInterrupt:
        ending = told()
        previous = dict.fromkeys(NUMBERS, signal.SIG_IGN)  # a handler of Python's would be gone before the process is
        raise ending from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Patient:
    """A signal handler: one KeyboardInterrupt, and another one only after `GRACE_S`."""

    def __init__(self) -> None:
        self._last_s: float | None = None

    def __call__(self, _number: int, _frame: object) -> None:
        now_s = time.monotonic()
        if self._last_s is None or now_s - self._last_s > GRACE_S:
            self._last_s = now_s
            raise KeyboardInterrupt


def stopped_search(directory: Path) -> InterruptedRunError:
    """What is kept of an interrupted search, and how to go on with it."""
    path = directory / FILE_NAME
    if not path.exists():
        return InterruptedRunError("interrupted before anything was run", hint="give the command again")
    kept = len(read(path).of("observed"))
    return InterruptedRunError(
        f"interrupted: {kept} {'observation is' if kept == 1 else 'observations are'} kept in {path}",
        hint=f"go on with: {resume_command(directory)}",
    )
