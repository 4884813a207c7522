"""A fixed number of runs, several at a time: what `train` asks for. Nothing of it goes on after a kill."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .launch import JobLostError
from .pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .launch import Launcher, Stop, Task
    from .probe import RunRecord

TRIES = 3
"""Jobs that are lost before a run is given up."""


def run_all(
    tasks: Sequence[Task], launcher: Launcher, *, workers: int, check: Callable[[RunRecord], None]
) -> dict[str, RunRecord]:
    """The record of each task, by the name of its directory and in order, at most `workers` at a time.

    `check` sees every record as it comes, and may raise; whatever is under way then is ended for good.
    """
    pool: Pool[tuple[str, RunRecord]] = Pool()
    found: dict[str, RunRecord] = {}
    waiting = list(tasks)
    try:
        while waiting or pool.num_runs:
            while waiting and pool.num_runs < workers:
                task = waiting.pop(0)
                pool.start(task.directory.name, lambda stop, task=task: _made(task, launcher, stop))  # type: ignore[misc]
            name, record = pool.take()
            check(record)
            found[name] = record
    finally:
        pool.close(for_good=True)
    return {task.directory.name: found[task.directory.name] for task in tasks}


def _made(task: Task, launcher: Launcher, stop: Stop) -> tuple[str, RunRecord]:
    """One run, made again in another directory when it was lost."""
    name = task.directory.name
    for number in range(2, TRIES + 1):
        try:
            (record,) = launcher.run((task,), stop)
        except JobLostError:
            task = replace(task, directory=task.directory.with_name(f"{name}-try-{number}"))
        else:
            return name, record
    (record,) = launcher.run((task,), stop)
    return name, record
