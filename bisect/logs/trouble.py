"""A log that ends in trouble: after its last step something went wrong, and nothing says that the work was done.

An exit code of 0 often is that of a pipe. What the trouble was is for the table of signatures; this knows only that such
an end is no clean one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..model import Outcome, OutcomeName
from ..signatures import Role
from .findings import Finding
from .tracebacks import tracebacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import LogFacts
    from .text import Line

DETAIL = "ended_in_trouble"
_TROUBLE = re.compile(
    r"^\W{0,3}(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal)\b(?!\W*(?:rate\b|0\b))|(?<!\w)(?:[A-Z]\w*|[a-z_.]+\.[A-Z]\w*)?(?:Error|Exception)(?=:|\(|$)"
    r"|Traceback \(most recent call last\)|\bpanicked at\b|\bcore dumped\b|\bnon-zero (?:exit )?(?:code|status)\b"
    r"|\b(?:unrecoverable|aborting|has been aborted)\b|^(?:\w{2,5}: )?(?:Terminated|Killed|killed|Hangup)\b(?!\W*[:=])|^\+ exit [1-9]"
    r"|\bFAILED\b(?!['\"]?\s*[:=]\s*(?:0|\[\]|None))|\bFinished: FAILURE\b|\bstatus:? (?:ERROR|FAILED|error|failed)\b"
)
_OF_A_HELPER = re.compile(
    r"\b(?:retry|wandb|tensorboard|mlflow|comet|upload|telemetry|metrics|profiler|monitor)\w*\b", re.IGNORECASE
)
_WARNING = re.compile(r"^\W{0,3}(?:[\w.]{1,40}\W{1,3})?WARN(?:ING)?\b")
_ADVICE = (
    "After the last step something went wrong, and nothing says that the work was done: give the exit code of the process "
    "itself (a pipe, `| tee`, ends with that of its last command), the whole log, or the result file."
)


def trouble_findings(lines: Sequence[Line], facts: LogFacts) -> tuple[Finding, ...]:
    """The first line of trouble after the last step, as an open question; none where the work was done."""
    if not facts.steps or facts.finished:
        return ()
    after = [line for line in lines if line.number > facts.last_step]
    ignored = {index for block in tracebacks(after) if block.ignored for index in (*block.body, block.last)}
    for index, line in enumerate(after):
        if index not in ignored and _is_trouble(line.text):
            return (
                Finding(
                    outcome=Outcome(name=OutcomeName.UNKNOWN),
                    role=Role.GENERIC,
                    position=line.number,
                    line=line.number,
                    text=line.text,
                    detail=DETAIL,
                    advice=_ADVICE,
                ),
            )
    return ()


def _is_trouble(text: str) -> bool:
    return bool(_TROUBLE.search(text)) and not _WARNING.match(text) and not _OF_A_HELPER.search(text)
