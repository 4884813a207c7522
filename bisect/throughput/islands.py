"""Where throughput changes more than twice: a build slow by itself, or a loss that came, went and came again. Pure.

The builds that were run, in time order, are cut into stretches of one level each, with the scatter of pairs about their
own stretch as the noise; the number of cuts is the one with the least Bayesian information criterion (Schwarz 1978; two
numbers a cut, its place and the level after it), three or more being rare before anything was seen.
`0 0 -5 0 0 -5` -> 0 at the first two, -5 at the third, 0 at the next two, -5 at the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..engine.islands import PRIOR_ISLAND
from ..pace import percent
from .posterior import SIGMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import FloatArray, Lineup
    from .posterior import Pairs

MOST_CUTS = 7
FEWEST_PAIRS = 2
"""Pairs of a stretch: a single one may be a run that was disturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbours of one level. Positions `first` to `last` and every pair (log ratio) of the builds run there."""

    first: int
    last: int
    values: FloatArray

    @property
    def level(self) -> float:
        return float(self.values.mean())


def find_stretches(pairs: Pairs, *, older: int, newer: int, least: float) -> tuple[Stretch, ...]:
    """The stretches where there are three cuts or more, of `least` (a log ratio) or more each; else none.

    None either where no cut lies between `older` and `newer`, the neighbours of a claimed change.
    """
    run, number = np.unique(pairs.positions, return_counts=True)
    values = pairs.values[np.argsort(pairs.positions, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(number)])
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    for cuts, (scatter, starts) in enumerate(_cut(values, ends)):
        if not math.isfinite(scatter):
            continue
        bounds = (*starts, run.size)
        levels = [values[ends[one] : ends[other]].mean() for one, other in pairwise(bounds)]
        if any(abs(np.diff(levels)) < least):
            continue
        noise = max(scatter / values.size, float(SIGMAS[0]) ** 2)
        rare = -2.0 * math.log(PRIOR_ISLAND) if cuts > 2 else 0.0
        score = values.size * math.log(noise) + 2.0 * cuts * math.log(values.size) + rare
        best = min(best, (score, bounds))
    bounds = best[1]
    if len(bounds) < 5:
        return ()
    found = tuple(
        Stretch(first=int(run[one]), last=int(run[other - 1]), values=values[ends[one] : ends[other]])
        for one, other in pairwise(bounds)
    )
    return found if any(one.last <= older and newer <= other.first for one, other in pairwise(found)) else ()


def _cut(values: FloatArray, ends: Sequence[int] | np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
    """For 0, 1, ... cuts: the least sum of squares about the stretches' means, and where the stretches start."""
    size = len(ends) - 1
    total, square = (np.concatenate([[0.0], np.cumsum(part)])[ends] for part in (values, values**2))
    pairs = np.subtract.outer(ends, ends).T.astype(np.float64)  # row: from, column: up to
    sums, squares = np.subtract.outer(total, total).T, np.subtract.outer(square, square).T
    usable = pairs >= FEWEST_PAIRS
    cost = np.where(usable, squares - sums**2 / np.where(usable, pairs, 1.0), np.inf)
    least, back = cost[0], []
    found: list[tuple[float, tuple[int, ...]]] = [(float(least[size]), (0,))]
    for _ in range(MOST_CUTS):
        joined = least[:, None] + cost
        back.append(joined.argmin(axis=0))
        least = joined.min(axis=0)
        starts, at = [], size
        for origin in reversed(back):
            at = int(origin[at])
            starts.append(at)
        found.append((float(least[size]), (0, *reversed(starts))))
    return found


def tell(line: Lineup, stretches: Sequence[Stretch]) -> str:
    """`the rate changes more than once: +0.0 % at c0 .. c4, then -5.0 % at c5, then ...`, or '' of no stretches."""
    parts = [
        f"{percent(each.level)} at " + " .. ".join(dict.fromkeys((line.name(each.first), line.name(each.last))))
        for each in stretches
    ]
    if not parts:
        return ""
    return f"the rate changes {len(parts) - 1} times, each to be searched for on its own: {', then '.join(parts)}"
