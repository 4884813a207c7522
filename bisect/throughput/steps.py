"""Whether throughput changes in one step or in two, and where a step lies whichever it is.

The search knows one step. Where a build in between has a level of its own (+3 %, then +4 %), that model grows sure of
one neighbour after the other, not always of one where anything changed. A claim is therefore asked of both models:

    one step    0 ... 0 | b ... b               b and c any shift, independent of each other
    two steps   0 ... 0 | c ... c | b ... b     the places equally likely, first before second

Given the noise the levels are independent, so each is integrated out on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .posterior import before, per_place, shift_grid

if TYPE_CHECKING:
    from ..lineup import FloatArray, IntArray, Lineup
    from .posterior import Pairs

PRIOR_TWO = 0.5
"""Of all changes, the part that comes in two steps: releases of months apart differ in more than one thing."""
ANOTHER_STEP = 0.8
"""Probability from which a second step is told beside the one that is claimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Where steps lie, given that there is one or two.

    Attributes:
        run: the positions that were run, ascending.
        held: probability of a step before the first of them, between two neighbours, and after the last.
    """

    run: IntArray
    held: FloatArray

    def inside(self, older: int, newer: int) -> float:
        """Probability of a step in (older, newer], two positions that were run."""
        return min(1.0, float(self.held[self._stretches(older, newer)].sum()))

    def elsewhere(self, older: int, newer: int) -> tuple[int, int, float]:
        """The likeliest two neighbours outside (older, newer] with a step between them, and its probability."""
        other = self.held.copy()
        other[self._stretches(older, newer)] = other[0] = other[-1] = 0.0
        best = int(np.argmax(other))
        return (0, 0, 0.0) if best == 0 else (int(self.run[best - 1]), int(self.run[best]), float(other[best]))

    def _stretches(self, older: int, newer: int) -> slice:
        first, last = np.searchsorted(self.run, (older, newer))
        return slice(int(first) + 1, int(last) + 1)


def find_steps(line: Lineup, pairs: Pairs, *, min_effect: float) -> Steps:
    """Where steps lie. `min_effect` is a shift in log units; both ends must have been run."""
    shift, prior = shift_grid(pairs.at(line.bad_end), min_effect)
    run, place = np.unique(pairs.positions, return_inverse=True)
    still = per_place(pairs.values, place, run.size, np.zeros(1))[:, 0]
    moved = per_place(pairs.values, place, run.size, shift)
    points = np.bincount(np.searchsorted(run, np.arange(1, line.size)), minlength=run.size + 1)
    if not line.rising:
        still, moved, points = still[::-1], moved[::-1], points[::-1]
    held = _held(before(still), before(moved), prior, points.astype(np.float64))
    return Steps(run=run, held=held if line.rising else held[::-1])


def _held(still: FloatArray, moved: FloatArray, prior: FloatArray, points: FloatArray) -> FloatArray:
    """Probability of a step in each stretch.

    Args:
        still: log-likelihood of the first 0, 1, ... run positions at level 0, by noise.
        moved: the same by level and noise.
        prior: of the levels.
        points: change points in each stretch; one stretch more than positions.
    """
    size, every = points.size, float(points.sum())
    level = [_log_mean(moved[start:] - moved[start], prior) for start in range(size)]  # of stretches start to start + i
    after = np.stack([each[-1] for each in level])
    one, two = still + after, np.full((size, size, still.shape[1]), -np.inf)
    for first in range(size):
        two[first, first:] = still[first] + level[first] + after[first:]
    top = max(float(one.max()), float(two.max()))
    ways = np.triu(np.outer(points, points), 1) + np.diag(points * (points - 1) / 2)
    single = (1 - PRIOR_TWO) * points / every * np.exp(one - top).sum(axis=1)
    double = PRIOR_TWO * ways / max(ways.sum(), 1.0) * np.exp(two - top).sum(axis=2)
    held = single + double.sum(axis=0) + double.sum(axis=1) - np.diagonal(double)
    return np.asarray(held / (single.sum() + double.sum()))


def _log_mean(logs: FloatArray, weight: FloatArray) -> FloatArray:
    """Log of the weighted mean of exp over the levels. (stretch, level, noise) -> (stretch, noise)."""
    top = logs.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.einsum("slk,l->sk", np.exp(logs - top), weight)) + top[:, 0])
