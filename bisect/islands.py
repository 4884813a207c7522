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
    from .lineup import FloatArray, IntArray, Lineup

PRIOR_ISLAND = 0.03
MAX_SWITCHES = 3


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
    evidence = {
        (start, switches): _evidence(line, run, start=start, switches=switches)
        for start in (0, 1)
        for switches in range(MAX_SWITCHES + 1)
    }
    top = max(value for value, _ in evidence.values())
    weights = {key: np.exp(value - top) * _prior(key[1]) for key, (value, _) in evidence.items()}
    probability = sum(w for (_, switches), w in weights.items() if switches > 1) / sum(weights.values())
    (start, switches) = max((key for key in weights if key[1] > 1), key=lambda key: float(weights[key]))
    low, high = evidence[start, switches][1]
    sides = _likeliest_sides(line, run, start=start, switches=switches, rates=(low, high))
    return Island(probability=float(probability), positions=tuple(int(p) for p in run), sides=sides)


def _prior(switches: int) -> float:
    """Prior of a number of switches, for one of the two sides to start on."""
    return (PRIOR_ISLAND if switches > 1 else 1.0 - PRIOR_ISLAND) / 4


def _worth_it(line: Lineup, run: IntArray) -> bool:
    """Whether one change, fitted freely, leaves enough unexplained for two or three to matter."""
    failures, passes = line.failures[run], line.passes[run]
    apart = _fit(failures, passes).sum()
    old = _fit(np.cumsum(failures), np.cumsum(passes))
    new = _fit(failures.sum() - np.cumsum(failures), passes.sum() - np.cumsum(passes))
    return bool(apart - (old + new).max() > 3.0)


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


def _evidence(line: Lineup, run: IntArray, *, start: int, switches: int) -> tuple[float, tuple[float, float]]:
    """Log evidence of exactly this many switches, and the pair of rates that fits best."""
    slots = int(run[-1] - run[0])
    if slots < switches:
        return -np.inf, (0.0, 1.0)
    low, high = _pairs()
    sides = np.stack([_log_likelihood(line, run, low), _log_likelihood(line, run, high)])
    chain = np.full((switches + 1, low.size), -np.inf)
    chain[0] = sides[start, 0]
    for place in range(1, run.size):
        step = _switch_log_ways(int(run[place] - run[place - 1]), switches)
        chain = _logsumexp(step[:, :, None] + chain[None]) + sides[(start + np.arange(switches + 1)) % 2, place]
    final = chain[switches]
    best = int(np.argmax(final))
    total = float(_logsumexp(final[None])[0])
    return total - np.log(comb(slots, switches) * low.size), (float(low[best]), float(high[best]))


def _logsumexp(terms: FloatArray) -> FloatArray:
    top = terms.max(axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(terms - top).sum(axis=1)) + top[:, 0])


def _switch_log_ways(gap: int, switches: int) -> FloatArray:
    """Row s', column s: log of the ways to go from s to s' switches inside a gap of so many slots."""
    ways = [
        [comb(gap, to - since) if to >= since else 0 for since in range(switches + 1)] for to in range(switches + 1)
    ]
    with np.errstate(divide="ignore"):
        return np.log(np.array(ways, dtype=np.float64))


def _likeliest_sides(
    line: Lineup, run: IntArray, *, start: int, switches: int, rates: tuple[float, float]
) -> tuple[bool, ...]:
    """The likeliest side of every run position (Viterbi), True for the failing one."""
    sides = _log_likelihood(line, run, np.array(rates))
    score = np.full(switches + 1, -np.inf)
    score[0] = sides[0, start]
    back: list[IntArray] = []
    for place in range(1, run.size):
        step = _switch_log_ways(int(run[place] - run[place - 1]), switches) + score[None]
        back.append(np.argmax(step, axis=1))
        score = step.max(axis=1) + sides[place, (start + np.arange(switches + 1)) % 2]
    state = switches
    path = [state]
    for origin in reversed(back):
        state = int(origin[state])
        path.append(state)
    return tuple(bool((start + state) % 2) for state in reversed(path))
