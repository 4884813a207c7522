"""What a training run in one environment showed, as text for a terminal and as JSON.

Pure: takes judged runs, returns lines. The first line is the verdict in one sentence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf, isnan
from typing import TYPE_CHECKING

from .changed import OUTCOME, Changed
from .intervals import allowed_rate, clopper_pearson
from .model import OutcomeName
from .train_figures import measurements, where_of

if TYPE_CHECKING:
    from .classify import Classification
    from .result import TrainResult

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """One run and what was made of it. `result` is None when the child died before it wrote any."""

    name: str
    threads: int
    classification: Classification
    result: TrainResult | None
    directory: str
    seconds: float
    completed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainAnswer:
    """Everything the report of `train` says.

    Attributes:
        environment: the name of the environment.
        runs: the runs asked for, all alike.
        control: the same with one drafter thread; None when it was not asked for.
        directory: the run directory.
        reproduce: the command line that repeats this.
        token_budget: tokens of a whole training, for the ETA.
        changed: what somebody changed in the environment after it was built; None for one as it was built.
    """

    environment: str
    runs: tuple[JudgedRun, ...]
    control: JudgedRun | None
    directory: str
    reproduce: str
    token_budget: float
    changed: Changed | None = None

    @property
    def worst(self) -> JudgedRun:
        """The run the verdict is about: the first that was not ok, else the last."""
        return next((run for run in self.runs if not _is_ok(run)), self.runs[-1])


def verdict(answer: TrainAnswer) -> str:
    """One sentence: what happened, in which thread, at which step, and whether the control passed."""
    return answer.changed.over(_seen(answer)) if answer.changed is not None else _seen(answer)


def _seen(answer: TrainAnswer) -> str:
    run = answer.worst
    where = f"in {answer.environment} ({_torch(run)})" if _torch(run) else f"in {answer.environment}"
    where += f" with workaround {_workaround(run)}" if _workaround(run) else ""
    where += ", amplified" if _amplified(answer) else ""
    if _is_ok(run):
        return f"ok: {_trained(run)} {where}; {_control(answer)}."
    return f"{run.classification.outcome}: {_what_failed(run)} {where}; {_control(answer)}."


def render(answer: TrainAnswer) -> str:
    """The whole report for a terminal."""
    run = answer.worst
    parts = [verdict(answer), *_counts(answer), *_evidence(run)]
    if run.result is not None:
        parts += measurements(run.result, token_budget=answer.token_budget, completed=run.completed)
    remedy = [] if answer.changed is None else [answer.changed.remedy]
    parts += ["", f"run directory: {answer.directory}", *remedy, f"repeat with:   {answer.reproduce}"]
    return "\n".join(parts)


def as_json(answer: TrainAnswer) -> dict[str, object]:
    """The same as data."""
    run = answer.worst
    failed = sum(not _is_ok(item) for item in answer.runs)
    low, high = clopper_pearson(failed, len(answer.runs))
    return {
        "schema": SCHEMA,
        "kind": "train",
        "verdict": OUTCOME if answer.changed is not None else str(run.classification.outcome),
        "sentence": verdict(answer),
        "environment": answer.environment,
        "changed": None if answer.changed is None else asdict(answer.changed),
        "torch": _torch(run),
        "workaround": _workaround(run) or "none",
        "amplified": _amplified(answer),
        "failed": failed,
        "interval": [round(low, 4), round(high, 4)],
        "runs": [_run_json(item) for item in answer.runs],
        "control": None if answer.control is None else _run_json(answer.control),
        "directory": answer.directory,
        "reproduce": [answer.reproduce],
    }


def _run_json(run: JudgedRun) -> dict[str, object]:
    speed = run.result.throughput if run.result else None
    return {
        "name": run.name,
        "threads": run.threads,
        "outcome": str(run.classification.outcome),
        "secondary": [str(outcome) for outcome in run.classification.secondary],
        "evidence": list(run.classification.evidence),
        "seconds": round(run.seconds, 1),
        "directory": run.directory,
        "ktok_s": _number(speed.ktok_s) if speed else None,
        "anchors_per_token": _number(speed.anchors_per_token) if speed else None,
        "mean_context": _number(speed.mean_context) if speed else None,
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: what was not measured is null."""
    return None if isnan(value) else value


def _amplified(answer: TrainAnswer) -> bool:
    """Whether the windows for collisions were widened on purpose."""
    return any(run.result is not None and run.result.amplified for run in answer.runs)


def _is_ok(run: JudgedRun) -> bool:
    return run.classification.outcome.name is OutcomeName.OK


def _torch(run: JudgedRun) -> str:
    return f"torch {run.result.environment.torch}" if run.result and run.result.environment else ""


def _workaround(run: JudgedRun) -> str:
    """The workaround that was applied; '' for none."""
    name = run.result.workaround.name if run.result else ""
    return "" if name == "none" else name


def _trained(run: JudgedRun) -> str:
    if run.result is None:
        return "the run ended well"
    steps = min((thread.steps for thread in run.result.drafters), default=0)
    return f"{_threads(len(run.result.drafters))} trained {steps} steps each"


def _threads(count: int) -> str:
    return "1 drafter thread" if count == 1 else f"{count} drafter threads"


def _what_failed(run: JudgedRun) -> str:
    """The first thread that raised and where; else what the evidence says."""
    raised = [(thread, error) for thread in (run.result.threads if run.result else ()) for error in thread.exceptions]
    if not raised:
        fallback = "the run did not end well"
        return next(iter(run.classification.evidence), fallback).strip() or fallback
    thread, error = min(raised, key=lambda pair: inf if isnan(pair[1].at_s) else pair[1].at_s)
    also = len({other.name for other, _ in raised}) - 1
    others = f" (and {also} more after it)" if also else ""
    flag = ", the FX tracing flag was set" if error.fx_flag else ""
    return f"thread {thread.name} failed {where_of(error)}{flag}{others}"


def _control(answer: TrainAnswer) -> str:
    if answer.control is None:
        return "no 1-thread control was run"
    outcome = answer.control.classification.outcome
    if not answer.control.completed:
        return f"the 1-thread control did not pass either ({outcome})"
    # One thread cannot race: that the control could not show a race is its purpose, not a finding.
    quiet = _is_ok(answer.control) or outcome.name is OutcomeName.TOO_FEW_THREADS
    return "the 1-thread control passed" + ("" if quiet else f", with {outcome}")


def _counts(answer: TrainAnswer) -> list[str]:
    """`fx_flag_race in 4/12 runs, 95 %: 10-65 %`, one line per failure; of none, the rate that the runs still allow."""
    if len(answer.runs) == 1:
        return []
    outcomes = [str(run.classification.outcome) for run in answer.runs]
    label = ", amplified: no rate of real training" if _amplified(answer) else ""
    failures = dict.fromkeys(str(run.classification.outcome) for run in answer.runs if not _is_ok(run))
    if not failures:
        allowed = allowed_rate(0, len(outcomes))
        return [f"  failed in 0/{len(outcomes)} runs: up to {allowed * 100:.0f} % of runs may still fail (95 %){label}"]
    return [f"  {name} in {count_line(outcomes.count(name), len(outcomes))}{label}" for name in failures]


def count_line(count: int, runs: int) -> str:
    """A count with its exact 95 % interval. 4 of 12 -> `4/12 runs, 95 %: 10-65 %`."""
    low, high = clopper_pearson(count, runs)
    return f"{count}/{runs} runs, 95 %: {low * 100:.0f}-{high * 100:.0f} %"


def _evidence(run: JudgedRun) -> list[str]:
    lines = [f"  | {line}" for line in run.classification.evidence[:6]]
    lines += [f"  also: {outcome}" for outcome in run.classification.secondary]
    if run.classification.advice:
        lines.append(f"  advice: {run.classification.advice}")
    return lines
