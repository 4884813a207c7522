"""From the files that a run left to what it means for the question. Reads the run directory; decides by `classify`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from .classify import Classification, Evidence, classify, conclude
from .classify.conclusion import conclude_hazard
from .logs.text import read_lines
from .model import Conclusion, Outcome, OutcomeName
from .probe import RunKind
from .result import Answer
from .result_file import ResultError, parse_hazards, parse_train
from .signature_search import search_log

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from .probe import RunRecord
    from .result import TrainResult
    from .signature_search import Matches

PROOF_LINES = 4
GIT_SKIP, GIT_ABORT = 125, 128
INTERRUPTED = (130, -2)
"""A person's Ctrl-C, from a shell and from the system: it ends the search, whatever is looked for."""
REFUSED = 2  # the workload's exit code for a request that it will not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a search asks of every run.

    Attributes:
        kind: what is run.
        hazard: the hazard hunted (HAZARDS).
        under: the workaround that it is probed under (HAZARDS); '' for none.
        hunted: the outcome hunted (TRAIN); None means any failure.
        throughput: the speed of a run is the question, not whether it fails (TRAIN).
        signature: output that means bad (COMMAND).
        threads: drafter threads asked for; None for the profile's.
    """

    kind: RunKind
    hazard: str = ""
    under: str = ""
    hunted: Outcome | None = None
    throughput: bool = False
    signature: str = ""
    threads: int | None = None

    @property
    def words(self) -> str:
        """The question as a person would say it."""
        match self.kind:
            case RunKind.HAZARDS:
                return f"hazard {self.hazard}" + (f" under {self.under}" if self.under else "")
            case RunKind.COMMAND:
                return f"output matching {self.signature!r}" if self.signature else "the command's exit code"
            case RunKind.TRAIN:
                return "throughput" if self.throughput else str(self.hunted or "any failure")
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one run means: the conclusion, what happened in words, the lines that show it, and why."""

    conclusion: Conclusion
    outcome: str
    evidence: tuple[str, ...] = ()
    reason: str = ""


def judge(
    record: RunRecord, question: Question, *, control: str = "", stop: threading.Event | None = None
) -> Judgement:
    """Judge a finished run from its directory. `control`: `clean` or `failed`, of the same run with one thread.

    KeyboardInterrupt when `stop` was set while a signature was looked for.
    """
    match question.kind:
        case RunKind.COMMAND:
            signature = question.signature
            return judge_command(
                record.last_lines(PROOF_LINES),
                returncode=record.returncode,
                timed_out=record.timed_out,
                cut=record.cut,
                matches=search_log(record.log_path, signature, stop=stop) if signature else None,
            )
        case RunKind.HAZARDS:
            return _judge_hazard(record, question.hazard)
        case RunKind.TRAIN:
            found = classify_train(record, threads=question.threads, control=control)
            conclusion = conclude(found, question.hunted)
            return Judgement(
                conclusion=conclusion,
                outcome=str(found.outcome),
                evidence=found.evidence[:PROOF_LINES],
                reason=_why(found, conclusion, question.hunted),
            )
        case _:
            assert_never(question.kind)


def _why(found: Classification, conclusion: Conclusion, hunted: Outcome | None) -> str:
    """What a reader of the outcome alone would miss: what to do about no vote, and which failure behind it counted."""
    if conclusion in (Conclusion.SKIP, Conclusion.ABORT):
        return found.advice
    if conclusion is Conclusion.BAD and hunted is not None and not found.outcome.matches(hunted):
        return f"{hunted} was seen behind it"
    return ""


def judge_command(
    last: tuple[str, ...], *, returncode: int, timed_out: bool, matches: Matches | None, cut: str = ""
) -> Judgement:
    """Follow the protocol of `git bisect run`, or the signature; a failure other than the hunted one is no vote.

    `last`: the end of its output; `matches`: what the signature found, None without one; `cut`: see `RunRecord`.
    """
    if matches is not None and matches.fault:
        why = f"{matches.fault}: write it without a repeat inside a repeat"
        return Judgement(conclusion=Conclusion.ABORT, outcome="harness_error", reason=why)
    if matches is not None and matches.lines:
        return Judgement(conclusion=Conclusion.BAD, outcome="signature", evidence=matches.lines)
    if cut:
        reason = f"the command was ended: {cut}"
        return Judgement(conclusion=Conclusion.SKIP, outcome="harness_error", evidence=last, reason=reason)
    outcome = _how_it_ended(returncode, timed_out=timed_out)
    conclusion, reason = Conclusion.BAD, ""
    if timed_out:
        conclusion, reason = Conclusion.SKIP, "out of time"
    elif returncode == 0:
        conclusion, last = Conclusion.GOOD, ()
    elif returncode == GIT_SKIP:
        conclusion, reason = Conclusion.SKIP, "the command said skip"
    elif returncode in INTERRUPTED or (matches is None and (returncode >= GIT_ABORT or returncode < 0)):
        conclusion, reason = Conclusion.ABORT, f"the command ended with {outcome}"
    elif matches is not None:
        conclusion, reason = Conclusion.SKIP, f"failed otherwise than hunted ({outcome})"
    return Judgement(conclusion=conclusion, outcome=outcome, evidence=last, reason=reason)


def _how_it_ended(returncode: int, *, timed_out: bool) -> str:
    if timed_out:
        return "hang(deadline)"
    if returncode == 0:
        return "ok"
    return f"exit {returncode}" if returncode > 0 else f"signal {-returncode}"


def _judge_hazard(record: RunRecord, hazard: str) -> Judgement:
    try:
        result = parse_hazards(record.result_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ResultError) as error:
        found = classify(_evidence(record, None))
        reason = (
            f"no answer of the probe: {error if isinstance(error, ResultError) else _refusal(record) or found.outcome}"
        )
        outcome = str(found.outcome)
        return Judgement(
            conclusion=Conclusion.SKIP, outcome=outcome, evidence=found.evidence[:PROOF_LINES], reason=reason
        )
    entry = next((item for item in result.hazards if item.name == hazard), None)
    answer = Answer.COULD_NOT_TEST if entry is None else entry.answer
    conclusion = conclude_hazard(answer)
    evidence = entry.evidence[:PROOF_LINES] if entry else ()
    reason = "" if conclusion is not Conclusion.SKIP else f"{hazard}: {answer.value}"
    return Judgement(conclusion=conclusion, outcome=answer.value, evidence=tuple(evidence), reason=reason)


def _refusal(record: RunRecord) -> str:
    """Why the hazards could not be probed as asked for, as where a workaround has nothing to act on in this build."""
    if record.returncode != REFUSED:
        return ""
    return next((line.removeprefix("error: ") for line in record.log().splitlines() if line.startswith("error: ")), "")


def train_result(record: RunRecord) -> TrainResult | None:
    """The result of a training run; None when the child wrote none that can be used."""
    try:
        return parse_train(record.result_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ResultError):
        return None


def control_verdict(record: RunRecord) -> str:
    """`clean` when the run with one thread got through, whatever else it showed on its way; else `failed`."""
    return "clean" if record.returncode == 0 and not record.timed_out and not record.cut else "failed"


def classify_train(record: RunRecord, *, threads: int | None, control: str = "") -> Classification:
    """What happened in a training run; a result that is there and cannot be read is an error of ours."""
    try:
        result = parse_train(record.result_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        result = None
    except ResultError as error:
        found = classify(_evidence(record, None, threads=threads, control=control))
        if found.outcome.name in (OutcomeName.OK, OutcomeName.UNKNOWN):
            return Classification(
                outcome=Outcome(name=OutcomeName.HARNESS_ERROR), evidence=(f"the result file: {error}",)
            )
        return found
    return classify(_evidence(record, result, threads=threads, control=control))


def _evidence(
    record: RunRecord, result: TrainResult | None, *, threads: int | None = None, control: str = ""
) -> Evidence:
    return Evidence(
        lines=read_lines(record.chunks()),
        result=result,
        returncode=record.returncode,
        timed_out=record.timed_out,
        cut=record.cut,
        variables=_variables(record.directory),
        threads=threads,
        control=control,
    )


def _variables(directory: Path) -> dict[str, str]:
    recorded = json.loads((directory / "record.json").read_text(encoding="utf-8"))["variables"]
    return {str(name): str(value) for name, value in recorded.items()}
