"""Threads that start together, report every exception with its circumstances, and cannot hang unseen.

Knows nothing of training: a worker has a name, a role and a body. What the body is doing is kept in the worker's
`phase` and `step`, written by its own thread only and read by the others for evidence.
"""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLL_S = 0.1
TICK_S = 2.0
MAX_TRACEBACK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another thread at the moment of an exception; `tracing` when its stack is inside an FX trace."""

    thread: str
    phase: str
    step: int
    tracing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception that ended a worker, with what was true when it was caught (`at_s` since the start)."""

    type: str
    message: str
    traceback: str
    step: int
    phase: str
    at_s: float
    fx_flag: bool | None
    is_compiling: bool
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """No worker moved for `silent_s`; `stacks` is faulthandler's dump of all threads."""

    deadline_s: float
    silent_s: float
    waiting: tuple[Neighbour, ...]
    stacks: str


@dataclass(slots=True, kw_only=True)
class Worker:
    """One thread and its record. Written by its own thread only."""

    name: str
    role: str
    device: str
    body: Callable[[Worker], None]
    prepare: Callable[[], None] = lambda: None
    steps: int = 0
    step: int = 0
    phase: str = "created"
    beat_at: float = 0.0
    completed: bool = False
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    acceptances: list[float] = field(default_factory=list)
    step_times_s: list[float] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)
    step_anchors: list[int] = field(default_factory=list)
    step_compiles: list[int] = field(default_factory=list)
    tokens: int = 0
    queue_wait_s: float = 0.0
    lock_wait_s: float = 0.0
    average_wait_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    thread: threading.Thread | None = None

    @contextlib.contextmanager
    def doing(self, phase: str) -> Iterator[None]:
        """Name what the thread does now. After an exception the phase stays, as evidence."""
        self.enter(phase)
        yield
        self.beat_at = time.monotonic()

    def enter(self, phase: str) -> None:
        """Name what the thread does from now on."""
        self.phase, self.beat_at = phase, time.monotonic()


class Crew:
    """All workers of a run. The main thread watches; it never compiles while they run."""

    def __init__(self, *, deadline_s: float, on_tick: Callable[[], None], on_end: Callable[[Worker], None]) -> None:
        self.workers: list[Worker] = []
        self.started_at = time.monotonic()
        self._deadline_s, self._on_tick, self._on_end = deadline_s, on_tick, on_end

    def add(self, worker: Worker) -> None:
        self.workers.append(worker)

    def run(self) -> Hang | None:
        """Start all at a barrier and wait for all; a Hang when none of them moved for the deadline."""
        barrier = threading.Barrier(len(self.workers))
        self.started_at = time.monotonic()
        for worker in self.workers:
            worker.beat_at = self.started_at
            # A daemon: a hung thread must not keep a process alive that has reported the hang.
            worker.thread = threading.Thread(target=self._live, args=(worker, barrier), name=worker.name, daemon=True)
            worker.thread.start()
        return self._watch()

    def here(self) -> tuple[str, int]:
        """Name and step of the calling thread; step -1 for a thread that is no worker (main, autograd)."""
        name = threading.current_thread().name
        return name, next((worker.step for worker in self.workers if worker.name == name), -1)

    def record_failure(self, error: BaseException, worker: Worker) -> None:
        """Keep an exception of the calling thread with its circumstances, and write it to the log."""
        failure = self._capture(error, worker)
        worker.failures.append(failure)
        where = f"Exception in thread {worker.name} at step {failure.step}, {failure.phase}:"
        sys.stderr.write(f"{where}\n{failure.traceback}")

    def _live(self, worker: Worker, barrier: threading.Barrier) -> None:
        try:
            worker.enter("prepare")
            try:
                worker.prepare()
            except BaseException:
                barrier.abort()
                raise
            barrier.wait()
            worker.body(worker)
            worker.completed = not worker.failures
            worker.enter("done")
        except BaseException as error:  # noqa: BLE001 - a thread's exception of any kind is a result
            self.record_failure(error, worker)
        finally:
            self._on_end(worker)

    def _capture(self, error: BaseException, worker: Worker) -> Failure:
        flag, compiling = compat.fx_flag(), compat.is_compiling()
        neighbours = self._neighbours(apart_from=worker)
        text = "".join(traceback.format_exception(error))
        return Failure(
            type=type(error).__name__,
            message=str(error),
            traceback=text[-MAX_TRACEBACK:],
            step=worker.step,
            phase=worker.phase,
            at_s=time.monotonic() - self.started_at,
            fx_flag=flag,
            is_compiling=compiling,
            neighbours=neighbours,
        )

    def _neighbours(self, *, apart_from: Worker | None = None) -> tuple[Neighbour, ...]:
        frames = sys._current_frames()  # noqa: SLF001 - documented, and the only way to see other stacks
        return tuple(
            Neighbour(
                thread=worker.name,
                phase=worker.phase,
                step=worker.step,
                tracing=_is_tracing(frames.get(worker.thread.ident or 0)),
            )
            for worker in self.workers
            if worker is not apart_from and worker.thread is not None and worker.thread.is_alive()
        )

    def _watch(self) -> Hang | None:
        ticked = time.monotonic()
        while alive := [worker for worker in self.workers if worker.thread and worker.thread.is_alive()]:
            alive[0].thread.join(POLL_S)  # type: ignore[union-attr]
            now = time.monotonic()
            silent = now - max(worker.beat_at for worker in self.workers)
            if silent > self._deadline_s:
                return Hang(
                    deadline_s=self._deadline_s,
                    silent_s=silent,
                    waiting=self._neighbours(),
                    stacks=all_stacks(),
                )
            if now - ticked > TICK_S:
                ticked = now
                self._on_tick()
        return None


def _is_tracing(frame: object) -> bool:
    """Whether a stack is inside torch.fx's Tracer.trace, the code that raises the flag."""
    while frame is not None:
        code = frame.f_code  # type: ignore[attr-defined]
        if code.co_name == "trace" and code.co_filename.endswith("_symbolic_trace.py"):
            return True
        frame = frame.f_back  # type: ignore[attr-defined]
    return False


def all_stacks() -> str:
    """Every thread's stack, also written to stderr for the log."""
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file=file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")
