"""What a search concludes from a run, and the same in a paragraph for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ..model import Conclusion, Outcome, OutcomeName
from ..result import Answer
from ..signatures.advice import BUILD_FAILURES, MEANING, WITHOUT_THE_FAILURE, advice_for
from .causes import LEADS_TO

if TYPE_CHECKING:
    from . import Classification

RACES = frozenset({OutcomeName.FX_FLAG_RACE, OutcomeName.OTHER_THREAD_RACE})
VOID = frozenset({OutcomeName.WRONG_BUILD, OutcomeName.ENV_NOT_ISOLATED})
"""Whatever such a run showed, another build or somebody else's packages may have shown it."""

OF_THE_MACHINE = frozenset({OutcomeName.HARDWARE_FAULT, OutcomeName.DISK_FULL})
"""What these bring about is the machine's doing, whatever build ran there."""

INSTALLING = frozenset(
    {
        OutcomeName.DOWNLOAD_FAILED, OutcomeName.BUILD_FAILED, OutcomeName.NOT_PUBLISHED, OutcomeName.DISK_FULL,
        OutcomeName.RESOLUTION_CONFLICT, OutcomeName.TOOL_TOO_OLD, OutcomeName.INCONSISTENT_ENV,
        OutcomeName.WRONG_BUILD,
    }
)  # fmt: skip
"""Failures that the log of an installation alone can show."""

_FEW = (
    "It does not count because a race shows only with several worker threads, and nothing says that more than one ran: "
    "give how many (--threads N)."
)
_INSTALLATION = "It does not count because an installation shows nothing of training: give the log of the training."


def conclude(classification: Classification, hunted: Outcome | None = None) -> Conclusion:
    """What a search for `hunted` (any failure of the build's own doing where None) concludes from the run.

    BAD only when that failure was seen, first or behind another one; GOOD only when the run could have shown it: it was
    healthy, or it is one race that is hunted and another one that an amplified run survived.
    """
    name = classification.outcome.name
    if _was_seen(classification, hunted):
        return Conclusion.BAD
    races = hunted is None or hunted.name in RACES
    if name is OutcomeName.OK and classification.conclusion is not None and not _shows_in_installing(hunted):
        return classification.conclusion
    if name is OutcomeName.OK:
        return Conclusion.SKIP if races and (classification.num_threads or 0) < 2 else Conclusion.GOOD
    if name is OutcomeName.TOO_FEW_THREADS and not races:
        return Conclusion.GOOD
    if name in RACES and races and "went_on" in classification.flags:
        return Conclusion.GOOD
    return classification.conclusion or WITHOUT_THE_FAILURE.get(name, Conclusion.SKIP)


def _shows_in_installing(hunted: Outcome | None) -> bool:
    return hunted is not None and hunted.name in INSTALLING


def conclude_hazard(answer: Answer | None) -> Conclusion:
    """What a search for one hazard concludes from its probe's answer; None where the probe did not run."""
    match answer:
        case Answer.LEAKS:
            return Conclusion.BAD
        case Answer.SAFE:
            return Conclusion.GOOD
        case Answer.NOT_APPLICABLE | Answer.COULD_NOT_TEST | None:
            return Conclusion.SKIP
        case _:
            assert_never(answer)


def _was_seen(classification: Classification, hunted: Outcome | None) -> bool:
    name = classification.outcome.name
    presumed = "presumed" in classification.flags
    if hunted is None:
        return name in BUILD_FAILURES and not presumed
    if name is OutcomeName.OK and hunted.name is OutcomeName.HANG:
        return False  # what it waited for came
    if name in OF_THE_MACHINE and hunted.name in LEADS_TO[name]:
        return False
    root = () if presumed else (classification.outcome,)
    seen = any(outcome.matches(hunted) for outcome in (*root, *classification.secondary))
    return seen and (name not in VOID or hunted.name is name)


def advise(classification: Classification, hunted: Outcome | None = None) -> str:
    """What to do about the root cause, and about the hunted failure as well where that one stands behind it.

    Of a clean run that is no vote: why it is none, and what would make it one.
    """
    if classification.outcome.name is OutcomeName.OK and conclude(classification, hunted) is Conclusion.SKIP:
        return _INSTALLATION if classification.conclusion is Conclusion.SKIP else _FEW
    if hunted is None or classification.outcome.matches(hunted) or not _was_seen(classification, hunted):
        return classification.advice
    return f"{classification.advice} And for the {hunted} behind it: {advice_for(hunted)}"


def explain(classification: Classification, *, hunted: str, conclusion: Conclusion, advice: str) -> str:
    """One paragraph: what happened, the proof, what it means for a search, what to do next."""
    behind = (
        f" Behind it: {', '.join(str(outcome) for outcome in classification.secondary)}."
        if classification.secondary
        else ""
    )
    flags = f" ({', '.join(classification.flags)})" if classification.flags else ""
    proof = "; ".join(classification.evidence[:4])
    stop = "" if proof.endswith((".", "!", "?")) else "."
    return (
        f"{classification.outcome}{flags}. Proof: {proof}{stop}{behind} For a search for {hunted} "
        f"this is {conclusion.value.upper()}: it {MEANING[conclusion]}. Next: {advice}"
    )
