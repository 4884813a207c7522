"""What a run is worth that shows no failure: `ok` only where something shows that it could have failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import OutcomeName
from ..result import HazardsResult, TrainResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.facts import LogFacts
    from ..logs.text import Line
    from . import Evidence

MIN_STEPS = 2
"""Different steps that show that training went on: a first one is announced before anything is done."""
_NO_STEP = (
    "Give the log of the training, with its steps (at least two) or its last word that training was finished, or the "
    "result file."
)
_CUT = (
    "Give the whole log, if this one was cut, or the result file; if it is whole, training ended early in spite of its "
    "exit code: see why."
)
_NOT_ITS_CODE = "Give that process's own log. Without `set -o pipefail` a pipe (`| tee`) ends as its last command does."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a run without a failure, what shows it, and what to do (empty: the outcome's own advice)."""

    name: OutcomeName
    proof: str
    advice: str = ""


def verdict_without_failure(
    evidence: Evidence, lines: Sequence[Line], facts: LogFacts, *, threads: int | None, returncode: int | None
) -> Verdict:
    """What a run without a failure is worth."""
    if isinstance(evidence.result, HazardsResult):
        return _hazards_verdict(evidence.result)
    missing = _missing(evidence, lines, facts, returncode=returncode)
    if missing is not None:
        return missing
    count = facts.different_steps
    shown = f"{count} step{'s' if count > 1 else ''} reported" if count else "it came to its end"
    if threads == 1:
        told = f"{shown} with 1 worker thread, and no failure; a race cannot show with one"
        return Verdict(OutcomeName.TOO_FEW_THREADS, told)
    return Verdict(OutcomeName.OK, f"{shown}, and no line that the table of signatures knows as a failure")


def _missing(evidence: Evidence, lines: Sequence[Line], facts: LogFacts, *, returncode: int | None) -> Verdict | None:
    """What is missing before the run counts as a healthy one; None where nothing is."""
    result = evidence.result
    if evidence.damage:
        return Verdict(OutcomeName.UNKNOWN, f"the result file cannot be used: {evidence.damage}")
    if returncode and evidence.returncode == 0:
        told = f"exit code 0 was given, but a launcher tells of a process that ended with exit code {returncode}"
        return Verdict(OutcomeName.UNKNOWN, told, _NOT_ITS_CODE)
    if returncode not in (None, 0):
        return Verdict(OutcomeName.UNKNOWN, f"exit code {returncode}, and no line that the table of signatures knows")
    if isinstance(result, TrainResult):
        if result.finished and all(thread.completed for thread in result.drafters):
            return None
        told = f"the result file was not finished (phase {result.phase!r}) and names no failure"
        return Verdict(OutcomeName.UNKNOWN, told)
    return _missing_in_log(evidence, lines, facts, returncode=returncode)


def _missing_in_log(
    evidence: Evidence, lines: Sequence[Line], facts: LogFacts, *, returncode: int | None
) -> Verdict | None:
    if not any(line.text.strip() for line in lines):
        return Verdict(OutcomeName.UNKNOWN, "the file is empty")
    if not facts.readable:
        return Verdict(OutcomeName.UNKNOWN, "the file is not text")
    if returncode is None and not facts.finished:
        told = f"{facts.different_steps} steps and no failure, but neither an exit code nor a last word"
        return Verdict(OutcomeName.UNKNOWN, told)
    if facts.short_of_end is not None:
        told = f"step {facts.short_of_end.done} of {facts.short_of_end.total}, and no word that training ended"
        return Verdict(OutcomeName.UNKNOWN, told, _CUT)
    if _has_trained(facts) or is_installation(evidence, facts):
        return None
    if facts.steps:
        told = f"line {facts.last_step}: one step, and neither a second one nor an end: nothing shows that it was made"
    else:
        told = "no failure, but no step of training either: nothing shows that it could have failed"
    return Verdict(OutcomeName.UNKNOWN, told, _NO_STEP)


def _has_trained(facts: LogFacts) -> bool:
    return facts.different_steps >= MIN_STEPS or facts.worked


def is_installation(evidence: Evidence, facts: LogFacts) -> bool:
    """Whether all that the log shows is an installation: it could have failed, but in no way that training does."""
    return facts.installed and not _has_trained(facts) and evidence.result is None and evidence.threads is None


def _hazards_verdict(result: HazardsResult) -> Verdict:
    answers = [hazard.answer.value for hazard in result.hazards]
    counted = ", ".join(f"{answers.count(answer)} {answer}" for answer in dict.fromkeys(answers))
    if not result.finished or "could-not-test" in answers or not answers:
        return Verdict(OutcomeName.UNKNOWN, f"hazard probes: {counted or 'none ran'}")
    return Verdict(OutcomeName.OK, f"hazard probes: {counted}")
