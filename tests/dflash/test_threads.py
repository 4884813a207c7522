"""Threads that start together, report every exception, and cannot hang unseen."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch.fx import symbolic_trace

from dflash import compat
from dflash.threads import Crew, Worker

pytestmark = pytest.mark.torch


def _crew(*bodies, deadline_s=20.0, on_end=lambda _worker: None):
    crew = Crew(deadline_s=deadline_s, on_tick=lambda: None, on_end=on_end)
    for index, body in enumerate(bodies):
        crew.add(Worker(name=f"drafter-{index}", role="drafter", device="cpu", body=body))
    return crew


def test_no_thread_starts_its_work_before_all_are_there():
    """The first thread would compile alone, and the race would hide."""
    present, seen = [], []

    def body(worker):
        present.append(worker.name)
        time.sleep(0.05)
        seen.append(len(present))

    crew = _crew(body, body, body)

    assert crew.run() is None
    assert seen == [3, 3, 3]
    assert all(worker.completed for worker in crew.workers)


def test_an_exception_is_kept_with_step_phase_flag_and_neighbours_and_stops_only_its_thread(capfd):
    """The report could say that something failed, not where and under which circumstances."""
    inside, leave = threading.Event(), threading.Event()

    def trace(worker):
        def parked(x):
            inside.set()
            leave.wait(10)
            return x + 1

        with worker.doing("forward"):
            symbolic_trace(parked)

    def fail(worker):
        worker.step = 7
        with worker.doing("backward"):
            inside.wait(10)
            raise RuntimeError("no such luck")

    def ended(worker):
        if worker.failures:
            leave.set()

    crew = _crew(trace, fail, on_end=ended)
    assert crew.run() is None
    tracing, failed = crew.workers
    (failure,) = failed.failures

    log = capfd.readouterr().err
    assert log.startswith("Exception in thread drafter-1 at step 7, backward:\nTraceback")
    assert "RuntimeError: no such luck" in log
    assert tracing.completed
    assert not failed.completed
    assert (failure.type, failure.message, failure.step, failure.phase) == (
        "RuntimeError",
        "no such luck",
        7,
        "backward",
    )
    assert "no such luck" in failure.traceback
    assert failure.fx_flag is compat.fx_flag_is_global()  # another thread's trace, where the flag is process-wide
    assert [(n.thread, n.phase, n.tracing) for n in failure.neighbours] == [("drafter-0", "forward", True)]


def test_a_hang_is_ended_by_the_deadline_with_every_stack(capfd):
    """The run would last until the cluster kills it, without a word."""
    leave = threading.Event()

    def body(worker):
        worker.step = 3
        worker.enter("average")
        leave.wait(30)

    crew = _crew(body, body, deadline_s=0.5)
    hang = crew.run()
    leave.set()

    assert hang is not None
    assert hang.silent_s > hang.deadline_s == 0.5
    assert [(n.thread, n.phase, n.step) for n in hang.waiting] == [
        ("drafter-0", "average", 3),
        ("drafter-1", "average", 3),
    ]
    assert "test_threads.py" in hang.stacks
    assert "test_threads.py" in capfd.readouterr().err


def test_a_thread_that_cannot_prepare_lets_nobody_start():
    """The others would wait at the barrier for ever."""
    crew = _crew(lambda _worker: None, lambda _worker: None)
    crew.workers[0].prepare = lambda: 1 / 0
    crew.run()

    assert [w.failures[0].type for w in crew.workers] == ["ZeroDivisionError", "BrokenBarrierError"]


def test_the_flag_can_be_read_and_written_on_this_torch():
    """The one piece of evidence that names the race would be missing."""
    assert compat.fx_flag() is False
    compat.set_fx_flag(tracing=True)
    try:
        assert compat.fx_flag() is True
    finally:
        compat.set_fx_flag(tracing=False)
    assert compat.fx_flag() is False
    assert callable(getattr(torch.fx._symbolic_trace, compat.predicate_name()))
