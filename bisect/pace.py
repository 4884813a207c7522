"""How fast one training run was once it was warm, whether it held that pace, and how long it stood still. Pure.

The steady rate leaves out the warm-up and every step during which something was compiled. What it leaves out is
told beside it: a build that recompiles in the middle of training has the same steady rate and loses time all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .result import ThreadRecord, TrainResult

MIN_STEADY_STEPS = 3
"""Steps after warm-up of every thread below which a rate would be the warm-up's."""
STALL_FACTOR = 5.0
"""A step this many times the median is a stall (a recompilation, usually)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The steady part of one run.

    Attributes:
        ktok_s: thousands of context tokens a second.
        drift: relative change of the step rate from the first to the second half, the median of the threads; None
            with too few steps to say.
        stalled: part of the time after warm-up spent in stalls.
    """

    ktok_s: float
    drift: float | None
    stalled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Steady steps far longer than the median, and the share of the steady time they took."""

    count: int
    steps: int
    median_s: float
    longest_s: float
    share: float


def pace_of(result: TrainResult | None) -> Pace | None:
    """The pace of a run; None when it measured none, or had too few steps after its warm-up."""
    if result is None or result.throughput is None or not result.drafters:
        return None
    rate, warmup = result.throughput.ktok_s, result.throughput.warmup_steps
    if not rate > 0 or min(thread.steps for thread in result.drafters) - warmup < MIN_STEADY_STEPS:
        return None
    drifts = [drift_of(_steady(thread, warmup)) for thread in result.drafters]
    known = [drift for drift in drifts if drift is not None]
    return Pace(ktok_s=rate, drift=median(known) if known else None, stalled=_stalled(result.drafters, warmup))


def drift_of(step_times_s: Sequence[float]) -> float | None:
    """Relative change of the median step rate from the first to the second half of the steady steps.

    A GPU that throttles shows -0.13 here; None with too few steps to say.
    """
    if len(step_times_s) < 4 * MIN_STEADY_STEPS:
        return None
    half = len(step_times_s) // 2
    return median(step_times_s[:half]) / median(step_times_s[half:]) - 1


def stall_limit(step_times_s: Sequence[float]) -> float:
    """Seconds beyond which a step is a stall; infinite with too few steps to tell."""
    return STALL_FACTOR * median(step_times_s) if len(step_times_s) >= MIN_STEADY_STEPS else math.inf


def stalls_in(step_times_s: Sequence[float]) -> Stalls | None:
    """The stalls among the steps after warm-up of all threads; None when there are none or too few steps to tell."""
    limit = stall_limit(step_times_s)
    stalls = [seconds for seconds in step_times_s if seconds > limit]
    if not stalls:
        return None
    return Stalls(
        count=len(stalls),
        steps=len(step_times_s),
        median_s=median(step_times_s),
        longest_s=max(stalls),
        share=sum(stalls) / sum(step_times_s),
    )


def percent(shift: float) -> str:
    """A log ratio as a signed percentage: -0.0513 -> `-5.0 %`."""
    return f"{100 * math.expm1(shift):+.1f} %"


def log_ratio(candidate: Pace, baseline: Pace) -> float:
    """log(candidate / baseline) of the steady rates."""
    return math.log(candidate.ktok_s / baseline.ktok_s)


def _steady(thread: ThreadRecord, warmup: int) -> list[float]:
    compiles = thread.step_compiles or (0,) * len(thread.step_times_s)
    both = zip(thread.step_times_s, compiles, strict=False)
    return [seconds for number, (seconds, compiled) in enumerate(both) if number >= warmup and not compiled]


def _stalled(threads: Sequence[ThreadRecord], warmup: int) -> float:
    stalls = stalls_in([seconds for thread in threads for seconds in thread.step_times_s[warmup:]])
    return stalls.share if stalls else 0.0
