"""More than one change: good, bad, good again. One change point is then the wrong question, and this says so.

The positions that were run are a chain whose side switches up to three times; the two rates are on a coarse grid, and
the number of ways to place the switches in the gaps between run positions is counted. Evidence for two or three
switches against at most one is what `find_island` weighs. `good BAD BAD good` -> island at the two in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

if TYPE_CHECKING:
    from ..lineup import FloatArray, IntArray, Lineup

PRIOR_ISLAND = 0.03
MAX_SWITCHES = 3
_PRIOR = np.array([1.0 - PRIOR_ISLAND] * 2 + [PRIOR_ISLAND] * 2)
_ENOUGH_UNEXPLAINED = 4.0
_NEGLIGIBLE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """Two or three switches between the sides.

    Attributes:
        probability: of more than one switch, given the runs.
        sides: for each position that was run, in time order, whether it lies on the failing side (the likeliest).
        positions: the positions that were run.
    """

    probability: float
    positions: tuple[int, ...]
    sides: tuple[bool, ...]


def find_island(line: Lineup) -> Island | None:
    """The island the runs speak for; None where at most one change explains every position well enough."""
    run = np.flatnonzero(line.runs)
    if run.size < 3 or not _worth_it(line, run):
        return None
    evidence, best = _evidence(line, run)
    weights = np.exp(evidence - evidence.max()) * _PRIOR
    probability = weights[:, 2:].sum() / weights.sum()
    if probability < _NEGLIGIBLE:
        return None
    start, more = np.unravel_index(int(np.argmax(weights[:, 2:])), weights[:, 2:].shape)
    switches = int(more) + 2
    low, high = (float(rates[best[start, switches]]) for rates in _pairs())
    sides = _likeliest_sides(line, run, start=int(start), switches=switches, rates=(low, high))
    return Island(probability=float(probability), positions=tuple(int(p) for p in run), sides=sides)


def tell(line: Lineup, island: Island) -> str:
    """`good at a 0/4, then bad at c 4/4 .. d 3/4, then good at f 0/4`."""
    stretches: list[tuple[bool, list[int]]] = []
    for position, failing in zip(island.positions, island.sides, strict=True):
        if not stretches or stretches[-1][0] is not failing:
            stretches.append((failing, []))
        stretches[-1][1].append(position)
    parts = []
    for failing, positions in stretches:
        ends = dict.fromkeys((positions[0], positions[-1]))
        parts.append(("bad at " if failing else "good at ") + " .. ".join(line.counts(end) for end in ends))
    return ", then ".join(parts)


def _worth_it(line: Lineup, run: IntArray) -> bool:
    """Whether one change, fitted freely, leaves enough unexplained for two or three to matter."""
    failures, passes = line.failures[run], line.passes[run]
    apart = _fit(failures, passes).sum()
    old = _fit(np.cumsum(failures), np.cumsum(passes))
    new = _fit(failures.sum() - np.cumsum(failures), passes.sum() - np.cumsum(passes))
    return bool(apart - (old + new).max() > _ENOUGH_UNEXPLAINED)


def _fit(failures: IntArray, passes: IntArray) -> FloatArray:
    """Log-likelihood of counts at their own best rate."""
    total = np.maximum(failures + passes, 1)
    return np.asarray(xlogy(failures, failures / total) + xlogy(passes, passes / total))


@cache
def _pairs() -> tuple[FloatArray, FloatArray]:
    """All (low rate, high rate) pairs of a coarse grid."""
    grid = np.array([0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
    low, high = np.triu_indices(grid.size, k=1)
    apart = grid[low] * 2 <= grid[high]
    return grid[low[apart]], grid[high[apart]]


def _log_likelihood(line: Lineup, run: IntArray, rates: FloatArray) -> FloatArray:
    return np.asarray(np.outer(line.failures[run], np.log(rates)) + np.outer(line.passes[run], np.log1p(-rates)))


def _evidence(line: Lineup, run: IntArray) -> tuple[FloatArray, IntArray]:
    """Log evidence of 0 to 3 switches (columns) from each side (rows), and the pair of rates that fits each best."""
    low, high = _pairs()
    log_sides = np.stack([_log_likelihood(line, run, low), _log_likelihood(line, run, high)])
    scale = log_sides.max(axis=0)
    sides = np.exp(log_sides - scale)
    total = np.tile(scale.sum(axis=0), (2, 1))
    side = np.add.outer((0, 1), np.arange(MAX_SWITCHES + 1)) % 2
    chain = np.zeros((2, MAX_SWITCHES + 1, low.size))
    chain[:, 0] = sides[:, 0]
    for place in range(1, run.size):
        chain = (_switch_ways(int(run[place] - run[place - 1])) @ chain) * sides[side, place]
        shrink = np.maximum(chain.max(axis=1), 1e-290)
        chain /= shrink[:, None]
        total += np.log(shrink)
    placed = [comb(int(run[-1] - run[0]), switches) * low.size for switches in range(MAX_SWITCHES + 1)]
    top = total.max(axis=1, keepdims=True)
    weight = chain * np.exp(total - top)[:, None]
    with np.errstate(divide="ignore"):
        evidence = np.log(weight.sum(axis=2) / np.maximum(placed, 1)) + top
    return evidence, weight.argmax(axis=2)


@cache
def _switch_ways(gap: int) -> FloatArray:
    """Row s', column s: in how many ways s becomes s' switches inside a gap of so many slots."""
    count = range(MAX_SWITCHES + 1)
    return np.array(
        [[comb(gap, to - since) if to >= since else 0 for since in count] for to in count], dtype=np.float64
    )


def _likeliest_sides(
    line: Lineup, run: IntArray, *, start: int, switches: int, rates: tuple[float, float]
) -> tuple[bool, ...]:
    """The likeliest side of every run position (Viterbi), true for the failing one."""
    sides = _log_likelihood(line, run, np.array(rates))
    score = np.full(switches + 1, -np.inf)
    score[0] = sides[0, start]
    back: list[IntArray] = []
    for place in range(1, run.size):
        with np.errstate(divide="ignore"):
            ways = np.log(_switch_ways(int(run[place] - run[place - 1])))[: switches + 1, : switches + 1]
        step = ways + score[None]
        back.append(np.argmax(step, axis=1))
        score = step.max(axis=1) + sides[place, (start + np.arange(switches + 1)) % 2]
    state = switches
    path = [state]
    for origin in reversed(back):
        state = int(origin[state])
        path.append(state)
    return tuple(bool((start + state) % 2) for state in reversed(path))
