"""How large a claimed step of throughput is: of the only step, or of one of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from ..pace import percent
from .steps import ANOTHER_STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import Lineup
    from .islands import Stretch
    from .posterior import Pairs, SpeedBelief
    from .steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Log ratios: low, middle and high of the step (95 %), and the noise of one pair."""

    low: float
    middle: float
    high: float
    sigma: float

    def __str__(self) -> str:
        size = f"throughput changes by {percent(self.middle)} (95 %: {percent(self.low)} to {percent(self.high)})"
        return f"{size}; one pair is good to {100 * self.sigma:.1f} %"


def size_of(
    line: Lineup,
    pairs: Pairs,
    belief: SpeedBelief,
    steps: Steps,
    *,
    older: int,
    newer: int,
    stretches: Sequence[Stretch] = (),
) -> Size:
    """Of the step in (older, newer].

    The search's own belief where it is the only step. Beside others that belief is an average of all of them: then the
    size is the difference of the mean pairs on its two sides, with Student's interval by the scatter about the levels,
    three of them or those of `stretches`.
    """
    _, other, probability = steps.elsewhere(older, newer)
    order = np.argsort(pairs.positions, kind="stable")
    if stretches:
        bounds = np.searchsorted(pairs.positions[order], [each.first for each in stretches[1:]])
        at = sum(each.last < newer for each in stretches)
    elif probability >= ANOTHER_STEP:
        bounds = np.searchsorted(pairs.positions[order], sorted((newer, other)))
        at = 1 if newer < other else 2
    else:
        low, middle, high = belief.interval()
        return Size(low=low, middle=middle, high=high, sigma=belief.sigma)
    levels = np.split(pairs.values[order], bounds)
    degrees = max(1, pairs.values.size - len(levels))
    sigma = math.sqrt(sum(float(((level - level.mean()) ** 2).sum()) for level in levels) / degrees)
    before, after = levels[at - 1], levels[at]
    middle = float(after.mean() - before.mean()) * (1.0 if line.rising else -1.0)
    half = float(stdtrit(degrees, 0.975)) * sigma * math.sqrt(1.0 / before.size + 1.0 / after.size)
    return Size(low=middle - half, middle=middle, high=middle + half, sigma=sigma)
