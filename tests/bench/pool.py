"""The wall time of several workers as the driver uses them: whatever ends is taken, pointless runs are cancelled.

Runs last as long as they like: `equal` all one unit, `uneven` between half and one and a half. Builds take no time.
"""

from __future__ import annotations

import heapq
import random
from bisect.engine import next_step, useless
from bisect.model import Probe
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .played import Played, coins, ordered_problem, tally

if TYPE_CHECKING:
    from bisect.model import Observation, Problem
    from collections.abc import Callable, Iterator

SIZE = 64
CELLS = ((0.3, 0.0), (0.3, 0.05))
WORKERS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """A finished search, the units of wall time it took, and the runs that were cancelled."""

    played: Played
    wall: float
    cancelled: int


def rows(*, searches: int, seed: int) -> Iterator[list[str]]:
    """One row a number of workers, as a multiple of one worker's wall time."""
    yield ["cell", "runs", "workers", "right/claimed", "accuracy", "runs made", "cancelled", "wall", "wall of W=1"]
    for bad, good in CELLS:
        for lengths in ("equal", "uneven"):
            alone = None
            for workers in WORKERS:
                done = [
                    search(bad, good, seed=seed * 1_000_003 + number, workers=workers, even=lengths == "equal")
                    for number in range(searches)
                ]
                counted = tally(item.played for item in done)
                wall = sum(item.wall for item in done) / searches
                alone = alone or wall
                cancelled = sum(item.cancelled for item in done) / searches
                right = f"{counted.right}/{counted.claimed}"
                figures = [right, f"{counted.accuracy:.3f}", f"{counted.runs:.1f}", f"{cancelled:.1f}", f"{wall:.1f}"]
                yield [f"N={SIZE} {bad:g}/{good:g}", lengths, str(workers), *figures, f"{wall / alone:.2f}x"]


def search(bad: float, good: float, *, seed: int, workers: int, even: bool) -> Pooled:
    """One search with the change at a random candidate."""
    problem = ordered_problem(SIZE)
    first = random.Random(f"first {seed}").randint(1, SIZE)
    flip = coins(problem.candidates, [good] * first + [bad] * (SIZE + 1 - first), seed=seed)
    clock = random.Random(f"lengths {seed}")
    return _pooled(
        problem,
        flip,
        truth=problem.candidates[first],
        workers=workers,
        length=lambda: 1.0 if even else clock.uniform(0.5, 1.5),
    )


def _pooled(
    problem: Problem,
    run: Callable[[str], Observation],
    *,
    truth: str,
    workers: int,
    length: Callable[[], float],
) -> Pooled:
    now, number, cancelled = 0.0, 0, 0
    observations: list[Observation] = []
    under_way: list[tuple[float, int, str]] = []
    while True:
        for candidate in useless(problem, observations, [name for *_, name in under_way]) if under_way else ():
            under_way.remove(max(item for item in under_way if item[2] == candidate))
            cancelled += 1
        heapq.heapify(under_way)
        pending = [name for *_, name in under_way]
        step = next_step(problem, observations, workers=max(1, workers - len(under_way)), pending=pending)
        if not isinstance(step, Probe):
            played = Played(verdict=step, observations=tuple(observations), rounds=0, truth=truth)
            return Pooled(played=played, wall=now, cancelled=cancelled + len(under_way))
        for candidate in (step.candidate, *step.also):
            number += 1
            heapq.heappush(under_way, (now + length(), number, candidate))
        now = under_way[0][0]
        while under_way and under_way[0][0] <= now:
            observations.append(run(heapq.heappop(under_way)[2]))
