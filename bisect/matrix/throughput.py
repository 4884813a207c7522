"""Throughput of a cell relative to the baseline cell, from runs interleaved in one session.

A run is paired with the baseline as it was *then*: the baseline's log rate interpolated between the runs of it
before and after. A slow drift of the machine cancels; what is left is run-to-run noise, measured as A/A noise on the
baseline's own successive runs (separate processes of one build) and on the spread within each cell.

    order      0   1   2   3   4   5   6          b: baseline, x, y: other cells
    run        b   x   y   b   x   y   b          x at 1 is compared with 2/3 b(0) + 1/3 b(3)

Where two runs are made at the same time, a run is compared only with the baseline run beside it, and two runs of the
baseline side by side are the A/A noise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from scipy.stats import t as student

from ..pace import drift_of, stalls_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..pace import Stalls
    from . import Cell, CellRun, Trace

INTERPOLATED, BESIDE = 1.5, 2.0
"""Variance of one log ratio in variances of one run: an interpolated baseline adds about half, one run a whole one."""
MAX_DISTANCE = 8
"""Runs between a measurement and the nearest baseline run beyond which they are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What two runs of the same cell differ by. `sd` is of one log rate; `band` the 95 % range of such a difference."""

    sd: float
    degrees: float
    baseline_runs: int

    @property
    def band(self) -> float:
        """Relative difference of two runs of one cell that 95 of 100 stay under."""
        return math.expm1(float(student.ppf(0.975, self.degrees)) * self.sd * math.sqrt(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput as a fraction of the baseline's, with its interval.

    `drift`: the rate changed within the runs by more than the effect, so the effect is not to be believed.
    """

    value: float
    low: float
    high: float
    runs: int
    drift: bool = False

    def is_slower(self, min_effect: float) -> bool:
        """Whether noise does not explain the loss and the loss is worth naming."""
        return not self.drift and self.high < 1 and self.value <= 1 - min_effect


def log_ratios(cell: Cell, baseline: Cell) -> tuple[float, ...]:
    """log(cell / baseline) of every run of the cell with a baseline run beside it, or near it in its session."""
    if _is_paired(baseline):
        return tuple(math.log(_rate(run) / _rate(other)) for run, other in _beside(cell, baseline))
    by_session: dict[str, list[CellRun]] = defaultdict(list)
    for run in _measured(baseline.runs):
        by_session[run.session].append(run)
    pairs = ((run, _baseline_at(run.order, by_session[run.session])) for run in _measured(cell.runs))
    return tuple(math.log(run.ktok_s) - base for run, base in pairs if base is not None and run.ktok_s is not None)


def noise_of(cells: Iterable[Cell], baseline: Cell) -> Noise | None:
    """A/A noise pooled over the baseline's successive differences and the spread within the other cells.

    None until something was measured twice: one run a side is no measurement of noise.
    """
    squares, degrees = 0.0, 0.0
    paired = _is_paired(baseline)
    runs = [run for run in _measured(baseline.runs) if run.beside or not paired]
    for run, other in _beside(baseline, baseline):
        squares += math.log(_rate(run) / _rate(other)) ** 2 / BESIDE
        degrees += 1
    for first, second in pairwise(() if paired else runs):
        if first.session == second.session:
            squares += math.log(_rate(second) / _rate(first)) ** 2 / 2 * (2 / 3)
            degrees += 2 / 3  # von Neumann's successive differences carry about 2/3 of the information
    for cell in cells:
        values = log_ratios(cell, baseline) if cell.key != baseline.key else ()
        if len(values) > 1:
            mean = fmean(values)
            squares += sum((value - mean) ** 2 for value in values) / _variances(baseline)
            degrees += len(values) - 1
    if degrees == 0:
        return None
    return Noise(sd=math.sqrt(squares / degrees), degrees=max(degrees, 1.0), baseline_runs=len(runs))


def ratio_of(cell: Cell, baseline: Cell, noise: Noise | None, *, comparisons: int = 1) -> Ratio | None:
    """The cell's throughput relative to the baseline, 95 % for `comparisons` cells together (Bonferroni).

    None with fewer than two runs on either side: a single run per side decides nothing.
    """
    values = log_ratios(cell, baseline)
    if noise is None or len(values) < 2 or noise.baseline_runs < 2:
        return None
    mean = fmean(values)
    own = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    deviation = max(noise.sd, own / math.sqrt(_variances(baseline)))
    quantile = float(student.ppf(1 - 0.025 / max(1, comparisons), noise.degrees))
    runs = BESIDE / len(values) if _is_paired(baseline) else 1 / len(values) + 1 / noise.baseline_runs
    half = quantile * deviation * math.sqrt(runs)
    drifts = _relative_drifts(cell, baseline)
    drift = bool(drifts) and abs(math.log1p(median(drifts))) > max(abs(mean), noise.sd * 2)
    return Ratio(
        value=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        runs=len(values),
        drift=drift,
    )


def within_run_drift(trace: Trace, *, warmup: int) -> float | None:
    """Relative change of the median step rate from the first to the second half of the steps after warm-up."""
    return drift_of(trace.step_times_s[warmup:])


def stalls_of(run: CellRun) -> Stalls | None:
    """The stalls of the steady phase over all threads; None when there are none or too few steps to tell."""
    return stalls_in([seconds for trace in run.traces for seconds in trace.step_times_s[run.warmup_steps :]])


def steady_steps(run: CellRun) -> int:
    """Fewest steps after warm-up of any thread: below `MIN_STEADY_STEPS` a rate would be a rate of the warm-up."""
    return min((len(trace.step_times_s) - run.warmup_steps for trace in run.traces), default=0)


def _is_paired(baseline: Cell) -> bool:
    """Whether rates are compared within pairs of runs made at the same time, and nowhere else."""
    return any(run.beside for run in baseline.runs)


def _variances(baseline: Cell) -> float:
    """Variance of one log ratio to this baseline, in variances of one run."""
    return BESIDE if _is_paired(baseline) else INTERPOLATED


def _beside(cell: Cell, baseline: Cell) -> list[tuple[CellRun, CellRun]]:
    """Each measured run of the cell with the measured run of the baseline in the same slot; each pair once."""
    of_baseline = _measured(baseline.runs)
    pairs = (
        (run, other)
        for run in _measured(cell.runs)
        for other in of_baseline
        if run.beside and run.beside == other.beside and run.run != other.run
    )
    return [(run, other) for run, other in pairs if cell.key != baseline.key or run.order < other.order]


def _relative_drifts(cell: Cell, baseline: Cell) -> list[float]:
    """How the rate changed within the runs; of runs made side by side what the two have in common is the machine's."""
    if not _is_paired(baseline):
        return [drift for run in cell.runs for drift in _drifts(run)]
    both = ((_drifts(run), _drifts(other)) for run, other in _beside(cell, baseline))
    return [(1 + median(mine)) / (1 + median(others)) - 1 for mine, others in both if mine and others]


def _drifts(run: CellRun) -> list[float]:
    drifts = (within_run_drift(trace, warmup=run.warmup_steps) for trace in run.traces)
    return [drift for drift in drifts if drift is not None]


def _measured(runs: Sequence[CellRun]) -> list[CellRun]:
    return sorted(
        (run for run in runs if run.ktok_s and not run.is_failure and run.is_telling),
        key=lambda run: (run.session, run.order),
    )


def _rate(run: CellRun) -> float:
    assert run.ktok_s is not None
    return run.ktok_s


def _baseline_at(order: int, runs: Sequence[CellRun]) -> float | None:
    """The baseline's log rate interpolated at a position of the session; the nearest one beyond its ends."""
    near = min((abs(run.order - order) for run in runs), default=MAX_DISTANCE + 1)
    if near > MAX_DISTANCE:
        return None
    before = [run for run in runs if run.order <= order]
    after = [run for run in runs if run.order >= order]
    left, right = (before or after)[-1 if before else 0], (after or before)[0 if after else -1]
    span = right.order - left.order
    share = (order - left.order) / span if span else 0.0
    return (1 - share) * math.log(_rate(left)) + share * math.log(_rate(right))
