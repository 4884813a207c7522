"""Workarounds by mutual exclusion: one thread at a time, always or only while something compiles.

Lock order: the shared lock of a step first, then the mutex of the mask builder. Nothing else is taken inside either.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from .base import CRASH_HAZARDS, Workaround

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextlib import AbstractContextManager

    from .base import Benchmark


class Lock(Workaround):
    """One lock for the process: no thread traces or compiles while another calls compiled code."""

    name = "lock"
    summary = "one process-wide lock around mask building, forward and backward"
    safe_argument = "every compiled call, trace and compilation is inside one lock, warm or cold"
    closes = CRASH_HAZARDS

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def prepare(self) -> None:
        self.applied.append("one RLock around mask building, forward and backward of all drafters")

    def step(self, shape: Hashable) -> AbstractContextManager[object]:  # noqa: ARG002 - all shapes alike
        return self._lock


class SharedLock:
    """Many readers or one writer; a waiting writer goes before new readers. Not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_readers = 0
        self._writing = False
        self._num_waiting_writers = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._num_waiting_writers)
            self._num_readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_readers -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Without any other."""
        with self._changed:
            self._num_waiting_writers += 1
            self._changed.wait_for(lambda: not self._writing and not self._num_readers)
            self._num_waiting_writers -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()


class LockCompile(Workaround):
    """Steps of a shape seen before run together; a step of a new shape, which compiles, runs alone.

    The prediction "this shape was compiled already" is checked: a compilation inside a shared step withdraws the
    argument, and the result says so. Past the recompile limit every call traces, so every step runs alone.
    """

    name = "lock-compile"
    summary = "steps of a new shape, which compile, run alone; steps of a known shape run together"
    safe_argument = (
        "whatever compiles or traces runs alone, if shapes predict compilations: the run counts those that happened "
        "in a shared step, and any such count withdraws the argument"
    )
    closes = CRASH_HAZARDS

    def __init__(self) -> None:
        super().__init__()
        self._lock = SharedLock()
        self._mask_mutex = threading.Lock()
        self._warm: set[Hashable] = set()
        self._benchmark: Benchmark | None = None
        self._num_unforeseen = 0

    def prepare(self) -> None:
        self.applied.append("a readers-writer lock around mask building, forward and backward of all drafters")

    def rehearse(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark

    @contextlib.contextmanager
    def step(self, shape: Hashable) -> Iterator[None]:
        benchmark = self._benchmark
        assert benchmark is not None
        if shape not in self._warm or benchmark.num_dense_calls():
            with self._lock.alone():
                yield
                self._warm.add(shape)
            return
        with self._lock.shared():
            before = benchmark.num_compiles() + benchmark.num_dense_calls()
            yield
            self._note_unforeseen(benchmark.num_compiles() + benchmark.num_dense_calls() - before)

    def masks(self, build: Callable[[], dict[str, Any]], *, drafter: int, step: int) -> dict[str, Any]:  # noqa: ARG002
        with self._mask_mutex:
            return build()

    def _note_unforeseen(self, count: int) -> None:
        if count and not self._num_unforeseen:
            self.closes = ()
            self.applied.append("a compilation or dense call happened in a shared step: the argument does not hold")
        self._num_unforeseen += count
