"""The line-up of a search for a loss of throughput, and which pairs count in it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ..model import Conclusion
from ..same_code import FEWEST, line_of
from .posterior import gather, infer_speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import FloatArray, Lineup
    from ..model import Observation, Problem

BROKEN = math.log(1e6)


def speed_line(problem: Problem, observations: Sequence[Observation], *, min_effect: float) -> Lineup:
    """The line-up that the steps are decided on: builds of one commit are kept apart where their rates differ."""
    values = kept(observations)
    pairs = Counter(name for name, _ in values)

    def differ(_: Lineup, group: tuple[str, ...]) -> bool:
        counts = [pairs[name] for name in group if pairs[name]]
        return len(counts) > 1 and sum(counts) >= FEWEST

    def change(line: Lineup) -> FloatArray:
        return infer_speed(line, gather(line, values), min_effect=-math.log1p(-min_effect)).change

    return line_of(problem, observations, differ=differ, change=change)


def kept(observations: Sequence[Observation]) -> list[tuple[str, float]]:
    """(candidate, value) of the pairs that were measured; rates a million times apart are a broken clock."""
    return [
        (seen.candidate, seen.value)
        for seen in observations
        if seen.value is not None and seen.conclusion is not Conclusion.SKIP and abs(seen.value) < BROKEN
    ]
