"""The candidates of a search as positions in time, with what was seen at each.

Position 0 is the older endpoint, the last position the newer one; candidates outside the endpoints are left out.
Neighbours that are the same code (`Problem.equal`) share a position, and with it their observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from .model import Conclusion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .model import Observation, Problem

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


SILENT = 10
"""Runs that say nothing, for each that does and one more, after which a position is not run again."""


def silent(skips: IntArray, answers: IntArray) -> BoolArray:
    """Which positions were tried and said nothing, or so rarely that another run is wasted."""
    never = (skips > 0) & (answers == 0)
    return np.asarray(never | (skips >= SILENT * (answers + 1)), dtype=np.bool_)


def told_of_idle(asked: int, workers: int, why: str) -> str:
    """What the reason of a probe adds where it asks for fewer runs than there are workers, or ''."""
    return f"; fewer probes than workers ({asked} for {workers}): {why}" if asked < workers else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """Positions, oldest first, and the counts at each.

    Attributes:
        groups: the candidates of each position, oldest first.
        rising: the claim is good before bad (a regression); otherwise the question is what fixed it.
        failures: BAD runs per position.
        passes: GOOD runs per position.
        skips: runs per position that say nothing.
        cached: positions whose environment exists: cached, or seen in an observation.
    """

    groups: tuple[tuple[str, ...], ...]
    rising: bool
    failures: IntArray
    passes: IntArray
    skips: IntArray
    cached: BoolArray

    @property
    def size(self) -> int:
        return len(self.groups)

    @property
    def good_end(self) -> int:
        return 0 if self.rising else self.size - 1

    @property
    def bad_end(self) -> int:
        return self.size - 1 if self.rising else 0

    @property
    def runs(self) -> IntArray:
        """Runs per position that say something."""
        return self.failures + self.passes

    @property
    def unusable(self) -> BoolArray:
        """Positions that were tried and said nothing, or hardly ever."""
        return silent(self.skips, self.runs)

    def name(self, position: int) -> str:
        """The candidate to run for a position: the first of equal ones."""
        return self.groups[position][0]

    def told_of_skips(self, position: int) -> str:
        """What the reason of a step adds where runs said nothing: of this position, and of all where none did."""
        name, tries = self.name(position), int(self.skips[position])
        if not tries or self.runs[position]:
            return ""
        if not self.runs.any():
            return f"; all {int(self.skips.sum())} runs so far were skipped, {tries} of them of {name}"
        return f"; {name} was skipped {tries} times so far"

    def counts(self, position: int) -> str:
        """`c3 2/5`: the failures and runs of a position."""
        return f"{self.name(position)} {self.failures[position]}/{self.runs[position]}"

    def positions(self, names: Iterable[str]) -> list[int]:
        """Positions of `names`; those outside the endpoints are left out."""
        where = {name: position for position, group in enumerate(self.groups) for name in group}
        return [where[name] for name in names if name in where]


def lineup(problem: Problem, observations: Sequence[Observation]) -> Lineup:
    """Lay the candidates between the endpoints out in time and count the observations."""
    index = {name: place for place, name in enumerate(problem.candidates)}
    oldest, newest = sorted((index[problem.good], index[problem.bad]))
    groups = _merge(problem.candidates[oldest : newest + 1], problem.equal)
    where = {name: position for position, group in enumerate(groups) for name in group}
    counts = {kind: np.zeros(len(groups), dtype=np.int64) for kind in Conclusion}
    cached = np.array([any(name in problem.cached for name in group) for group in groups], dtype=np.bool_)
    for seen in observations:
        position = where.get(seen.candidate)
        if position is not None:
            counts[seen.conclusion][position] += 1
            cached[position] = True
    return Lineup(
        groups=groups,
        rising=index[problem.good] <= index[problem.bad],
        failures=counts[Conclusion.BAD],
        passes=counts[Conclusion.GOOD],
        skips=counts[Conclusion.SKIP],
        cached=cached,
    )


def _merge(names: Sequence[str], equal: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Join neighbours that belong to one group of equal candidates. a b c, (b c) -> (a) (b c)."""
    kind = {name: number for number, group in enumerate(equal) for name in group}
    merged: list[tuple[str, ...]] = []
    for name in names:
        if merged and name in kind and kind.get(merged[-1][-1]) == kind[name]:
            merged[-1] = (*merged[-1], name)
        else:
            merged.append((name,))
    return tuple(merged)
