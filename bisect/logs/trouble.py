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
from .steps import is_last_of_all, step_in
from .tracebacks import tracebacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import LogFacts
    from .text import Line

DETAIL = "ended_in_trouble"
_TROUBLE = re.compile(
    r"^\W{0,3}(?:(?:ERROR|FATAL|CRITICAL)\b(?!\W*(?:rate|count|0)\b)|(?:[Ee]rror|[Ff]atal)(?::| (?:error|executing|running|while|in|during)\b)(?!\s*0\b))|(?<!\w)(?:[A-Z]\w*|[a-z_.]+\.[A-Z]\w*)?(?:Error|Exception)(?=:|\(|$)"
    r"|Traceback \(most recent call last\)|\bpanicked at\b|\bcore dumped\b|\bnon-zero (?:exit )?(?:code|status)\b"
    r"|\b(?:unrecoverable|aborting|has been aborted)\b|^(?:\w{2,5}: )?(?:Terminated|Killed|killed|Hangup)\b(?!\W*[:=])|^\+ exit [1-9]"
    r"|\bFAILED\b(?!['\"]?\s*[:=]\s*(?:0|\[\]|None))|\bFinished: FAILURE\b|\bstatus:? (?:ERROR|FAILED|error|failed)\b"
)
_CUT_SHORT = re.compile(
    r"\babort(?:ed|ing)\b|\bemergency\b|\binterrupted\b|\b(?:caught|received|got|on) (?:signal )?SIG[A-Z]{3}"
    r"|\bpreempted\b|\bpreemption (?:notice|signal|requested|received)\b"
    r"|\b(?:drafter|worker|thread|rank|replica|process|node|gpu|trainer|actor)s?(?:[-_ #:]?\d+)? (?:is|are|was|were|went|has been) (?:gone|lost|missing)\b|\bdid not (?:report|finish|complete|answer|respond|join)\b"
    r"|\bwith [1-9]\d* (?:error|failure)",
    re.IGNORECASE,
)
"""Work that was broken off, whatever was saved after it."""
_SOME_OF = re.compile(
    r"\b(\d{1,6}) (?:of|/) (\d{1,6}) (?:drafter|worker|thread|rank|replica|process|trainer)\w* \w{0,8} ?(?:complete|finish|done|succe)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|no|none|never|without|if|when|0|(?:training|work|run) (?:finish|complet)ed|all done)\b", re.IGNORECASE
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
    if not facts.steps or is_last_of_all(step_in(facts.last_step_text)):
        return ()
    after = [line for line in lines if line.number > facts.last_step]
    ignored = {index for block in tracebacks(after) if block.ignored for index in (*block.body, block.last)}
    told = (line for index, line in enumerate(after) if index not in ignored)
    first = next((line for line in told if _is_trouble(line.text, finished=facts.finished)), None)
    return () if first is None else (_question(first),)


def _is_trouble(text: str, *, finished: bool) -> bool:
    if _OF_A_HELPER.search(text):
        return False
    some = _SOME_OF.search(text)
    cut = _CUT_SHORT.search(text)
    if (some and int(some[1]) < int(some[2])) or (cut and not _DENIED.search(text[: cut.start()])):
        return True
    return not finished and bool(_TROUBLE.search(text)) and not _WARNING.match(text)


def _question(line: Line) -> Finding:
    return Finding(
        outcome=Outcome(name=OutcomeName.UNKNOWN),
        role=Role.GENERIC,
        position=line.number,
        line=line.number,
        text=line.text,
        detail=DETAIL,
        advice=_ADVICE,
    )
