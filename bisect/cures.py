"""Is a workaround safe, unsafe or only lucky, and what does it cost? Pure: from runs and probes to a judgement.

*Unsafe*: a run under it failed. *Safe*: no run failed and there is an argument, namely that every hazard of this
build that the benchmark can reach is closed, by a probe made under the workaround or by what the workaround excludes.
*Lucky*: no run failed and no argument. Zero crashes alone are never safe, whatever their number.

A hazard is reachable only where the run does what it needs: traces outside the compile lock come from dense calls, the
metadata race from masks built eagerly in a drafter thread, the first-compile crash from a process nobody warmed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from math import isnan, nan
from statistics import median
from typing import TYPE_CHECKING

from .intervals import clopper_pearson
from .model import OutcomeName
from .result import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .classify import Classification
    from .result import HazardsResult, TrainResult

NAMES = (
    "none",
    "lock",
    "lock-compile",
    "clear-flag",
    "patch-check",
    "force-compile",
    "thread-local-flag",
    "warmup",
    "premade-masks",
    "dynamic-true",
    "recompile-limit=128",
    "no-compile",
    "no-native-jit",
)
"""The workload's workarounds; it is another program, so a test compares the two lists."""
PROBED_UNDER = ("patch-check", "force-compile", "thread-local-flag")
"""Those that change the process, so that the hazard probes say what they close; of the others their argument does."""
FLAG_HAZARDS = ("fx_flag_trace", "fx_flag_make_fx", "fx_flag_flex", "fx_flag_compile", "fx_flag_stuck")
_QUIET = (OutcomeName.OK, OutcomeName.TOO_FEW_THREADS, OutcomeName.NOTHING_COMPILED, OutcomeName.DENSE_FALLBACK)
_SLOW_BUT_ALIVE = (OutcomeName.RECOMPILE_LIMIT,)


class Safety(StrEnum):
    """What may be said of a workaround in one build."""

    SAFE = "safe"
    LUCKY = "lucky"
    UNSAFE = "unsafe"
    NOT_APPLICABLE = "not applicable"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class CureRun:
    """One run under a workaround; `result` is None when the child left none."""

    classification: Classification
    result: TrainResult | None
    completed: bool
    directory: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run broke: a thread died, or the process did."""
        quiet = self.classification.outcome.name in (*_QUIET, *_SLOW_BUT_ALIVE)
        return not (self.completed and quiet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """All runs of one workaround in one environment; `under` holds the probes made under it."""

    name: str
    runs: tuple[CureRun, ...] = ()
    refusal: str = ""
    under: HazardsResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One row of the table. Numbers are medians over the runs that did not fail; nan where there was none."""

    name: str
    safety: Safety
    why: str
    failed: int
    runs: int
    interval: tuple[float, float]
    kinds: tuple[tuple[str, int], ...]
    first_step_s: float
    ktok_s: float
    relative: float
    dense_calls: float
    recompiles: float
    peak_bytes: float


def price_all(cures: Sequence[Cure], plain: HazardsResult | None) -> tuple[Price, ...]:
    """Judge and price every workaround; `relative` is to the fastest safe one, or to the fastest if none is safe."""
    judged = [(cure, *judge(cure, plain)) for cure in cures]
    speeds = {cure.name: _median(_speeds(cure)) for cure, _, _ in judged}
    safe = [speeds[cure.name] for cure, safety, _ in judged if safety is Safety.SAFE]
    best = max((speed for speed in safe or speeds.values() if not isnan(speed)), default=nan)
    return tuple(_price(cure, safety, why, speeds[cure.name], best) for cure, safety, why in judged)


def judge(cure: Cure, plain: HazardsResult | None) -> tuple[Safety, str]:
    """Safe, lucky or unsafe, and why in one phrase."""
    if cure.refusal:
        return Safety.NOT_APPLICABLE, cure.refusal
    if not cure.runs:
        return Safety.NOT_TESTED, "no run was made"
    failures = Counter(str(run.classification.outcome) for run in cure.runs if run.failed)
    if failures:
        worst, count = failures.most_common(1)[0]
        return Safety.UNSAFE, f"{worst} in {count} of {len(cure.runs)} runs"
    if plain is None:
        return Safety.LUCKY, "no failure, and no probe to argue from"
    open_hazards = open_for(cure, plain)
    if open_hazards:
        return Safety.LUCKY, f"no failure, but nothing closes {', '.join(open_hazards)}"
    return Safety.SAFE, _argument(cure, plain)


def open_for(cure: Cure, plain: HazardsResult) -> tuple[str, ...]:
    """Hazards that the runs can reach, that this build has (or that could not be tested), and that nothing closes."""
    results = [run.result for run in cure.runs if run.result is not None]
    reachable = dict.fromkeys(name for result in results for name in reachable_hazards(result))
    return tuple(name for name in reachable if _has(plain, name) and not _closed(cure, results, name))


def reachable_hazards(result: TrainResult) -> tuple[str, ...]:
    """The hazards whose circumstances occurred in a run with several drafters that compiled."""
    process = result.process
    if process is None:
        return ()
    names = ["fx_flag_compile", "metrics_context"] if process.compiles else []
    if process.dense_calls and process.compiles:
        names += ["fx_flag_flex", "fx_flag_stuck", "fx_patcher"]
    if not result.config.get("compile_masks") and process.compiles:
        names.append("mask_metadata")
    if not process.warmed_in_main and process.compiles:
        names.append("first_concurrent_compile")
    return tuple(names)


def _has(plain: HazardsResult, name: str) -> bool:
    return plain.answer(name) not in (Answer.SAFE, Answer.NOT_APPLICABLE)


def _closed(cure: Cure, results: Sequence[TrainResult], name: str) -> bool:
    if cure.under is not None and name in FLAG_HAZARDS:
        return cure.under.answer(name) is Answer.SAFE
    return bool(results) and all(name in result.workaround.closes for result in results)


def _argument(cure: Cure, plain: HazardsResult) -> str:
    results = [run.result for run in cure.runs if run.result is not None]
    reached = dict.fromkeys(name for result in results for name in reachable_hazards(result))
    closed = [name for name in reached if _has(plain, name)]
    if not closed:
        return "the probes find no hazard of this build that these runs could reach"
    if cure.under is not None and all(name in FLAG_HAZARDS for name in closed):
        return f"the probes made under it find {', '.join(closed)} closed"
    return results[0].workaround.safe_argument


def _speeds(cure: Cure) -> list[float]:
    found = [run.result.throughput for run in cure.runs if run.result is not None and not run.failed]
    return [speed.ktok_s for speed in found if speed is not None and speed.steady_tokens]


def _price(cure: Cure, safety: Safety, why: str, ktok_s: float, best: float) -> Price:
    healthy = [run.result for run in cure.runs if run.result is not None and not run.failed]
    processes = [result.process for result in healthy if result.process is not None]
    failed = [str(run.classification.outcome) for run in cure.runs if run.failed]
    return Price(
        name=cure.name,
        safety=safety,
        why=why,
        failed=len(failed),
        runs=len(cure.runs),
        interval=clopper_pearson(len(failed), len(cure.runs)),
        kinds=tuple(Counter(failed).most_common()),
        first_step_s=_median([max(_first_steps(result), default=nan) for result in healthy]),
        ktok_s=ktok_s,
        relative=ktok_s / best if best > 0 else nan,
        dense_calls=_median([process.dense_calls for process in processes]),
        recompiles=_median([process.recompiles for process in processes]),
        peak_bytes=_median([max((process.peak_rss_bytes, *process.peak_gpu_bytes)) for process in processes]),
    )


def _first_steps(result: TrainResult) -> list[float]:
    return [thread.step_times_s[0] for thread in result.drafters if thread.step_times_s]


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return float(median(known)) if known else nan
