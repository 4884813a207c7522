"""Which positions to run next: the most information per cost, for one worker or for several at once.

Several workers: the first gets the best position; then every outcome of the runs already chosen (or under way) is
imagined, weighted by its probability, and the next worker gets the position that is best on average over those
futures. A run that would only repeat what another is about to tell loses its value there by itself. Builds go on
side by side, so each counts for less of the wall time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .information import BATCHES, gains

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..lineup import FloatArray, Lineup
    from ..model import Problem
    from .posterior import Belief, Direction

BUILD_SHARE = 0.4
"""Part of the build cost that a choice counts: the environment also serves every later run of that candidate."""
NEARLY_CERTAIN = 0.9
"""Failure rate from which one run settles a candidate."""
CERTAIN_POWER = 1.5
"""How fast the price of a build falls as that becomes likely."""
BLOCK_LENGTH = 3.0
"""Unusable candidates come in blocks of about this length: their neighbours are worth less."""
FUTURES = 8
"""Imagined futures kept for several workers, the most probable ones."""


def choose(line: Lineup, belief: Belief, problem: Problem, *, workers: int, pending: Iterable[int]) -> tuple[int, ...]:
    """Positions to run now, best first, one run each; empty when no usable position is left."""
    under_way = tuple(pending)
    build_cost = _build_price(belief, problem) / (workers + len(under_way)) ** 2
    built = line.cached.copy()
    futures = [(1.0, belief)]
    for position in under_way:
        built[position] = True
        futures = _imagine(futures, position)
    chosen: list[int] = []
    for _ in range(workers):
        best = _best(line, futures, build=np.where(built, 0.0, build_cost), run_cost=problem.run_cost)
        if best is None:
            break
        chosen.append(best)
        built[best] = True
        if len(chosen) < workers:
            futures = _imagine(futures, best)
    return tuple(chosen)


def _build_price(belief: Belief, problem: Problem) -> float:
    """What a choice counts for a build. Less where one run settles a candidate: no later run will share it."""
    side = belief.rise if belief.rise.mass.max() >= belief.fall.mass.max() else belief.fall
    failing = (side.new if side is belief.rise else side.old)[belief.row[int(np.argmax(side.mass))]]
    certain = float(failing[belief.rates > NEARLY_CERTAIN].sum())
    return float(BUILD_SHARE * problem.build_cost * (1.0 - certain) ** CERTAIN_POWER)


def _best(line: Lineup, futures: list[tuple[float, Belief]], *, build: FloatArray, run_cost: float) -> int | None:
    usable = ~line.unusable
    if not usable.any():
        return None
    gain = sum((weight * gains(belief) for weight, belief in futures), start=np.zeros(1))
    cost = build[:, None] + run_cost * np.array(BATCHES)
    value = gain / cost * _usable_chance(line)[:, None]
    return int(np.argmax(np.where(usable, value.max(axis=1), -np.inf)))


def _usable_chance(line: Lineup) -> FloatArray:
    """Guess that a position can be run: 1 where it was, less the nearer an untried one is to unusable ones."""
    broken = np.flatnonzero(line.unusable)
    if broken.size == 0:
        return np.ones(line.size)
    distance = np.abs(np.arange(line.size)[:, None] - broken).min(axis=1)
    return np.where(line.runs > 0, 1.0, 1.0 - 0.7 * np.exp(-(distance - 1) / BLOCK_LENGTH))


def _imagine(futures: list[tuple[float, Belief]], position: int) -> list[tuple[float, Belief]]:
    """Split every future by the outcome of one more run at `position`; keep the most probable ones."""
    split = [
        (weight * chance, after)
        for weight, belief in futures
        for chance, after in (_after(belief, position, failed=True), _after(belief, position, failed=False))
        if chance > 0.0
    ]
    kept = sorted(split, key=lambda pair: -pair[0])[:FUTURES]
    total = sum(weight for weight, _ in kept)
    return [(weight / total, belief) for weight, belief in kept]


def _after(belief: Belief, position: int, *, failed: bool) -> tuple[float, Belief]:
    """Chance of the outcome, and the belief about the change after it (rates given a change point left alone)."""
    likelihood = belief.rates if failed else 1.0 - belief.rates
    rise = _reweighted(belief, belief.rise, position, likelihood)
    fall = _reweighted(belief, belief.fall, position, likelihood)
    none = belief.none * float(belief.same @ likelihood)
    chance = float(rise.sum() + fall.sum()) + none
    if chance <= 0.0:
        return 0.0, belief
    return chance, replace(
        belief,
        rise=replace(belief.rise, mass=rise / chance),
        fall=replace(belief.fall, mass=fall / chance),
        none=none / chance,
    )


def _reweighted(belief: Belief, direction: Direction, position: int, likelihood: FloatArray) -> FloatArray:
    change_points = np.arange(1, belief.row.size + 1)
    newer = (direction.new @ likelihood)[belief.row]
    older = (direction.old @ likelihood)[belief.row]
    return np.asarray(direction.mass * np.where(position < change_points, older, newer))
