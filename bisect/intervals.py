"""Exact binomial intervals: what `failures` in `runs` says about the failure rate, and what no failure still allows.

Knows numbers only. Every interval of a rate is Clopper and Pearson's (Biometrika 26, 1934): it covers at least as often
as it says, for any rate and any number of runs, at the price of being wide. Those of means are Student's.
"""

from __future__ import annotations

from math import comb, log, log1p, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from scipy.special import betaincinv, stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence


def clopper_pearson(failures: int, runs: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided interval of the rate; (0, 1) without a run. 2 of 10 at 95 % -> (0.025, 0.556)."""
    _check(failures, runs)
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if failures == 0 else float(betaincinv(failures, runs - failures + 1, tail))
    high = 1.0 if failures == runs else float(betaincinv(failures + 1, runs - failures, 1.0 - tail))
    return low, high


def allowed_rate(failures: int, runs: int, *, confidence: float = 0.95) -> float:
    """One-sided upper limit: the highest rate the runs still allow. 0 of 59 at 95 % -> 0.05 (rule of three)."""
    _check(failures, runs)
    if failures == runs:
        return 1.0
    return float(betaincinv(failures + 1, runs - failures, confidence))


def clean_runs_needed(rate: float, *, confidence: float = 0.95) -> int:
    """How many runs without a failure exclude `rate` or more at `confidence`. 0.05 at 95 % -> 59."""
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"a rate lies in (0, 1], not {rate}")
    if rate == 1.0:
        return 1
    needed = log(1.0 - confidence) / log1p(-rate)
    return max(1, int(needed) + (needed > int(needed)))


def means_with_intervals(
    groups: Sequence[Sequence[float]], *, confidence: float = 0.95
) -> list[tuple[float, float, float] | None]:
    """Low, mean and high of each group, by the scatter within all groups together.

    None for an empty group, and for every group while none has two values. (0, 2) and (5,) -> 1 +- 12.7, 5 +- 18.0.
    """
    means = [fmean(group) if group else 0.0 for group in groups]
    degrees = sum(len(group) - 1 for group in groups if group)
    if degrees == 0:
        return [None] * len(groups)
    squares = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
    width = float(stdtrit(degrees, (1.0 + confidence) / 2.0)) * sqrt(squares / degrees)
    return [
        (mean - width / sqrt(len(group)), mean, mean + width / sqrt(len(group))) if group else None
        for group, mean in zip(groups, means, strict=True)
    ]


def fisher_more(failures: int, runs: int, other_failures: int, other_runs: int) -> float:
    """One-sided Fisher p: chance of this many failures or more on the first side if both rates are equal.

    Worked example: 2 of 3 against 0 of 1 -> 0.5, no evidence at all.
    """
    _check(failures, runs)
    _check(other_failures, other_runs)
    total, failed = runs + other_runs, failures + other_failures
    ways = sum(
        comb(runs, count) * comb(other_runs, failed - count)
        for count in range(failures, min(runs, failed) + 1)
        if failed - count <= other_runs
    )
    return ways / comb(total, failed)


def _check(failures: int, runs: int) -> None:
    if not 0 <= failures <= runs:
        raise ValueError(f"{failures} failures in {runs} runs")
