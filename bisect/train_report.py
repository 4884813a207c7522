"""What a training run in one environment showed, as text for a terminal and as JSON.

Pure: takes judged runs, returns lines. The first line is the verdict in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from statistics import median
from typing import TYPE_CHECKING

from tabulate import tabulate

from .explain import explain
from .intervals import allowed_rate, clopper_pearson
from .model import OutcomeName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .classify import Classification
    from .result import Failure, ProcessRecord, RecompileReason, ThreadRecord, ThroughputRecord, TrainResult

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
    """

    environment: str
    runs: tuple[JudgedRun, ...]
    control: JudgedRun | None
    directory: str
    reproduce: str
    token_budget: float

    @property
    def worst(self) -> JudgedRun:
        """The run the verdict is about: the first that was not ok, else the last."""
        return next((run for run in self.runs if not _is_ok(run)), self.runs[-1])


def verdict(answer: TrainAnswer) -> str:
    """One sentence: what happened, in which thread, at which step, and whether the control passed."""
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
        parts += ["", _thread_table(run.result), "", *_speed(run.result.throughput, answer.token_budget)]
        parts += (
            []
            if run.completed
            else ["            of the threads that went on; a run that fails says little about speed"]
        )
        parts += [
            *_gpu(run.result),
            *_compilation(run.result.process),
            *_cache(run.result.process),
            *_why_slow(run.result),
        ]
    parts += ["", f"run directory: {answer.directory}", f"repeat with:   {answer.reproduce}"]
    return "\n".join(parts)


def as_json(answer: TrainAnswer) -> dict[str, object]:
    """The same as data."""
    run = answer.worst
    failed = sum(not _is_ok(item) for item in answer.runs)
    low, high = clopper_pearson(failed, len(answer.runs))
    return {
        "schema": SCHEMA,
        "kind": "train",
        "verdict": str(run.classification.outcome),
        "sentence": verdict(answer),
        "environment": answer.environment,
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
    return f"thread {thread.name} failed {_at(error)}{flag}{others}"


def _at(error: Failure) -> str:
    step = "before its first step" if error.step is None else f"at step {error.step}"
    return f"{step} in its {error.phase}" if error.phase else step


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


def _thread_table(result: TrainResult) -> str:
    warmup = result.throughput.warmup_steps if result.throughput else 0
    rows = [_thread_row(thread, warmup) for thread in result.threads]
    headers = ["thread", "device", "steps", "loss first", "last", "step (median)", "tokens", "waited", "ended"]
    return tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", "left", *["right"] * 6, "left"))


def _thread_row(thread: ThreadRecord, warmup: int) -> list[str]:
    steady = thread.step_times_s[warmup:] or thread.step_times_s
    first, last = (f"{thread.losses[0]:.3f}", f"{thread.losses[-1]:.3f}") if thread.losses else ("", "")
    return [
        thread.name,
        thread.device,
        str(thread.steps),
        first,
        last,
        f"{median(steady) * 1000:.0f} ms" if steady else "",
        str(thread.tokens),
        f"{thread.queue_wait_s + thread.lock_wait_s:.1f} s",
        _ended(thread),
    ]


def _ended(thread: ThreadRecord) -> str:
    if thread.exceptions:
        return f"{thread.exceptions[0].type} {_at(thread.exceptions[0])}"
    return "completed" if thread.completed else "did not finish"


def _speed(speed: ThroughputRecord | None, token_budget: float) -> list[str]:
    if speed is None:
        return ["throughput: not measured"]
    warm = f"warm-up {speed.warmup_s:.1f} s ({speed.warmup_steps} steps, compiling {speed.compile_s:.1f} s) excluded"
    if not speed.steady_tokens or not speed.ktok_s > 0:
        return [f"throughput: not measured, no step after the warm-up ({warm})"]
    eta = token_budget / (speed.ktok_s * 1000)
    return [
        f"throughput: {speed.ktok_s:.3g} Ktok/s, {speed.steps_s:.3g} steps/s over {speed.steady_s:.1f} s; {warm}",
        f"            {speed.anchors_per_token:.3g} anchors per token, mean context {speed.mean_context:.0f} tokens",
        f"ETA:        {duration(eta)} for {token_budget:.3g} tokens at this rate",
    ]


def duration(seconds: float) -> str:
    """A length of time in the unit a person would use. 90000 -> `25.0 hours`."""
    for unit, size in (("days", 86400.0 * 2), ("hours", 5400.0), ("min", 100.0)):
        if seconds >= size:
            return f"{seconds / {'days': 86400.0, 'hours': 3600.0, 'min': 60.0}[unit]:.1f} {unit}"
    return f"{seconds:.0f} s"


def _gpu(result: TrainResult) -> list[str]:
    if result.environment is None or result.process is None or not result.environment.gpus:
        return []
    busy = ", ".join(f"{share:.0f} %" for share in result.process.gpu_utilization) or "not measured"
    peak = ", ".join(f"{size / 2**30:.1f} GiB" for size in result.process.peak_gpu_bytes) or "not measured"
    names = "; ".join(_gpu_name(gpu) for gpu in result.environment.gpus)
    return [f"GPU:        {names}; busy {busy}; peak memory {peak}"]


def _gpu_name(gpu: object) -> str:
    """`NVIDIA H200 (9.0, 140 GiB)` from what the benchmark says of a GPU."""
    if not isinstance(gpu, Mapping):
        return str(gpu)
    return f"{gpu.get('name', 'GPU')} ({gpu.get('capability', '?')}, {int(gpu.get('memory_bytes', 0)) / 2**30:.0f} GiB)"


def _compilation(process: ProcessRecord | None) -> list[str]:
    if process is None:
        return []
    graphs = "?" if process.compiles is None else process.compiles
    hits, peak = len(process.recompile_limit_hits), process.peak_rss_bytes / 2**30
    counted = f"{graphs} graphs, {process.recompiles} recompiles, {hits} at the limit"
    lines = [f"compiled:   {counted}, {process.dense_calls} dense flex calls; peak memory {peak:.1f} GiB"]
    lines += [
        f"            recompiled {reason.count}x: {reason.reason} ({reason.thread})"
        for reason in _most_frequent(process.recompile_reasons)
    ]
    return lines


def _cache(process: ProcessRecord | None) -> list[str]:
    """What the compile cache on disk was worth: how warm it was, what was reused, what was compiled again."""
    if process is None or process.cache is None:
        return []
    cache = process.cache
    reused, again = cache.hits + cache.autograd_hits, cache.misses + cache.autograd_misses
    new = max(0, cache.entries_after - cache.entries_before)
    used = f"{reused} reused, {again} compiled again" if reused or again else "nothing of this run is cached on disk"
    return [f"cache:      {cache.mode}, {cache.entries_before} files before and {new} new; {used}"]


def _why_slow(result: TrainResult) -> list[str]:
    """What cost time, the costliest first; nothing where nothing stands out."""
    return [f"slow:       {reason.sentence}" for reason in explain(result)]


def _most_frequent(reasons: Sequence[RecompileReason]) -> list[RecompileReason]:
    return sorted(reasons, key=lambda reason: -reason.count)[:3]
