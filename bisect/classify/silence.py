"""A worker of which a log hears no more while the others go on: a dead one, though nothing says of what it died."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..logs.findings import Finding
from ..logs.workers import fallen_silent
from ..model import Outcome, OutcomeName
from ..signatures import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.workers import Worker

DETAIL = "worker_silent"
_ADVICE = "Give what became of that worker: its traceback, its own log, or the result file."
_FEWER = (
    "Give the log of every worker, or the result file: nothing shows that the others made a step. "
    "If fewer threads ran, say how many (--threads N)."
)


def silence_findings(workers: Sequence[Worker], *, num_threads: int) -> tuple[Finding, ...]:
    """The worker that fell silent first; else that fewer workers report steps than there were threads.

    One of them alone may be the only one that reports, but nothing then shows that the others made a step.
    """
    silent = min(fallen_silent(workers), key=lambda worker: worker.last_line, default=None)
    if silent is not None:
        step = silent.steps[-1]
        of = f" of {step.total}" if step.total else ""
        text = f"{silent.name} made no step after step {step.number}{of}, and the others went on"
        return (_finding(text, silent.last_line),)
    if 0 < len(workers) < num_threads and workers[0].is_thread:
        names = ", ".join(worker.name for worker in workers)
        return (_finding(f"steps are reported by {names} alone, of {num_threads} worker threads", 0, advice=_FEWER),)
    return ()


def _finding(text: str, line: int, *, advice: str = _ADVICE) -> Finding:
    return Finding(
        outcome=Outcome(name=OutcomeName.UNKNOWN),
        role=Role.GENERIC,
        position=line,
        line=line,
        text=text,
        detail=DETAIL,
        advice=advice,
    )
