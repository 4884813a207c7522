"""Interleavings forced by gates: one thread stops inside the dangerous place while another one looks.

Owner of every gate: the probe that made it. Nothing here holds a lock of torch while it waits, except where the
probe stops inside a compilation, which is the point of that probe.
"""

from __future__ import annotations

import threading
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GATE_TIMEOUT_S = 60.0  # a first compilation takes about 1 s on 2 idle cores, 20 s on 2 cores with 20 waiting processes


class Answer(StrEnum):
    """What a probe found. `leaks` means that the hazard exists in this build."""

    LEAKS = "leaks"
    SAFE = "safe"
    NOT_APPLICABLE = "not-applicable"
    COULD_NOT_TEST = "could-not-test"


@dataclass(frozen=True)
class Finding:
    """The answer of one probe with the lines that show it."""

    answer: Answer
    evidence: tuple[str, ...]


class CouldNotForceError(Exception):
    """The interleaving was not reached, so the probe says nothing about the hazard."""


@dataclass
class Gate:
    """A place where one thread stops until another has looked."""

    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def stop_here(self) -> None:
        """Stop the first time; a second pass through an opened gate does not stop."""
        self.entered.set()
        if not self.opened.wait(GATE_TIMEOUT_S):
            raise CouldNotForceError("nobody opened the gate")


class Worker:
    """A thread that does one piece of work and keeps what became of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 - the probe decides what the error means
            self.error = error

    def join(self) -> Worker:
        """Wait for the end; CouldNotForceError when it does not come."""
        self._thread.join(GATE_TIMEOUT_S)
        if self._thread.is_alive():
            raise CouldNotForceError("the worker thread did not end")
        return self

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()


def start_parked(work: Callable[[], object], gate: Gate) -> Worker:
    """Start `work` in a thread and return once it stands at the gate."""
    worker = Worker(work)
    while not gate.entered.wait(0.01):
        if not worker.alive:
            raise CouldNotForceError(f"the work ended before the gate: {describe(worker.error)}")
    return worker


@contextmanager
def parked(work: Callable[[], object], gate: Gate) -> Iterator[Worker]:
    """Run the body while another thread stands at `gate` inside `work`; afterwards open the gate and join."""
    worker = start_parked(work, gate)
    try:
        yield worker
    finally:
        gate.opened.set()
        worker.join()


def error_of(call: Callable[..., object], *args: object) -> BaseException | None:
    """The exception the call ends with, or None."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - every kind of failure is evidence here
        return error
    return None


def describe(error: BaseException | None, *, about: str = "") -> str:
    """One line: the type, and of the message the line with `about`, else the first, else where it was raised."""
    if error is None:
        return "no error"
    lines = str(error).strip().splitlines() or [_raised_at(error)]
    line = next((line for line in lines if about in line), lines[0])
    return f"{type(error).__name__}: {line.strip()}"


def _raised_at(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
