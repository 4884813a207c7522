"""A fixed number of runs, several at a time: what `train` asks for. After a kill the same ones are not made again."""

from __future__ import annotations

import shutil
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
    for number in range(1, TRIES):
        try:
            return name, _run_or_found(_attempt(task, number), launcher, stop)
        except JobLostError:
            continue
    return name, _run_or_found(_attempt(task, TRIES), launcher, stop)


def _attempt(task: Task, number: int) -> Task:
    directory = task.directory
    return task if number == 1 else replace(task, directory=directory.with_name(f"{directory.name}-try-{number}"))


def _run_or_found(task: Task, launcher: Launcher, stop: Stop) -> RunRecord:
    """The run that a killed process began, where there is one: ended, or under way elsewhere. Else a new one."""
    if launcher.began([task.directory]):
        (record,) = launcher.resume([task.directory], stop)
        return record
    if task.directory.exists():  # a run that ended with the process that made it
        shutil.rmtree(task.directory)
    (record,) = launcher.run((task,), stop)
    return record
