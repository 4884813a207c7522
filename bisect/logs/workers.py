"""Which worker threads a log hears of: who reports steps, until where, and who fell silent while others went on.

A worker that says nothing any more is the only trace that some deaths leave. Knows the names that `[drafter-1]`,
`worker 2` and the like give; of lines without one it says nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .steps import MAX_DIGITS, TROUBLE, epoch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .steps import Step
    from .text import Line

STEPS_BEHIND = 3
"""Different steps that others made after a worker's last word, where no total says how many there were to make."""

PROCESS = "rank"
_NAMED = re.compile(
    r"\b(drafter|thread|worker|replica)(?:[-_ #=]|['\"]\s?:\s?['\"]?)?(\d+)\b|\b(Thread)PoolExecutor-\d+_(\d+)\b",
    re.IGNORECASE,
)
_AT_REST = re.compile(
    r"\b(?:finish(?:ed)?|completed?|done|early[- ]stopp(?:ed|ing)|all \d+ steps made)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A step that a worker made: the line that says so, the epoch (0 without one), its number, how many there are or 0."""

    line: int
    epoch: int
    number: int
    total: int

    @property
    def place(self) -> tuple[int, int]:
        """How far it is: later steps are larger."""
        return (self.epoch, self.number)

    @property
    def is_last(self) -> bool:
        """Whether it is the last of as many as it says there are."""
        return self.number >= self.total > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker as a log tells of it: its name (`drafter-1`), its steps in order, and its last word.

    `last_line` is the last line that it speaks or is named in; `rested`: that line says that it came to its end.
    """

    name: str
    steps: tuple[Made, ...]
    last_line: int
    rested: bool = False

    @property
    def is_thread(self) -> bool:
        """Whether it is one of the threads of a process; else it is a process."""
        return self.kind != PROCESS

    @property
    def kind(self) -> str:
        """What it is: `drafter` of `drafter-1`."""
        return _kind(self.name)


def named_worker(line: Line) -> str:
    """The worker that a line is of: the one its prefix names, else the first in its text; empty without one."""
    if line.label:
        return line.label.lower()
    match = _NAMED.search(line.text)
    return f"{(match[1] or match[3]).lower()}-{match[2] or match[4]}" if match else line.rank


def workers_of(lines: Sequence[Line], reports: Sequence[tuple[Line, Step]]) -> tuple[Worker, ...]:
    """The workers that reported numbered steps, by name; of one kind (drafter, worker) and unit, those named most."""
    named = [(name, line, step) for line, step in reports if step.done and (name := named_worker(line))]
    kind, unit = (_commonest(values) for values in (map(_kind, (n for n, _, _ in named)), (s.unit for *_, s in named)))
    made: dict[str, list[Made]] = defaultdict(list)
    for name, line, step in named:
        if (_kind(name), step.unit) == (kind, unit) and max(len(step.done), len(step.total)) <= MAX_DIGITS:
            made[name].append(_made(line, step))
    ends = {name: line for line in lines if made and (name := named_worker(line)) in made}
    return tuple(
        Worker(
            name=name,
            steps=tuple(steps),
            last_line=ends[name].number,
            rested=bool(_AT_REST.search(ends[name].text)) and not TROUBLE.search(ends[name].text),
        )
        for name, steps in sorted(made.items())
    )


def _commonest(values: Iterable[str]) -> str:
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else ""


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _made(line: Line, step: Step) -> Made:
    epoch = epoch_of(step)[:MAX_DIGITS]
    return Made(line=line.number, epoch=int(epoch or 0), number=int(step.done), total=int(step.total or 0))


def _stride(worker: Worker, others: Sequence[Made]) -> int:
    """How far apart a worker's steps are: it may report each tenth, or share one count with the others."""
    numbers = (
        sorted({step.number for step in worker.steps}) if len(worker.steps) > 1 else sorted({o.number for o in others})
    )
    return min((later - earlier for earlier, later in pairwise(numbers)), default=1)


def fallen_silent(workers: Sequence[Worker]) -> tuple[Worker, ...]:
    """Workers that ended short of what others did after their last word."""
    return tuple(worker for worker in workers if not worker.rested and _is_left_behind(worker, workers))


def _is_left_behind(worker: Worker, workers: Sequence[Worker]) -> bool:
    steps = [step for other in workers if other is not worker for step in other.steps]
    if worker.steps[-1].number + _stride(worker, steps) <= worker.steps[-1].total and any(
        step.is_last for step in steps
    ):
        return True
    farthest = max(step.place for step in worker.steps)
    later = {step.place for step in steps if step.line > worker.last_line and step.place > farthest}
    return len(later) >= STEPS_BEHIND
