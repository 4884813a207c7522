"""The candidates of a search as positions in time, with what was seen at each.

Position 0 is the older endpoint, the last position the newer one; candidates outside the endpoints are left out.
Neighbours that are the same code (`Problem.equal`) share a position, and with it their observations, unless their runs
show that they are not (`same_code`): then each has its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from .model import Conclusion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .model import Observation, Problem

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


EQUAL_BUT_APART = 0.02
"""How likely a change between two builds of the same code is before any run, relative to any other change."""
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
        shown: (failures, passes) of each candidate.
        apart: positions that are said to be the same code as the one before them, and are not taken for it.
    """

    groups: tuple[tuple[str, ...], ...]
    rising: bool
    failures: IntArray
    passes: IntArray
    skips: IntArray
    cached: BoolArray
    shown: Mapping[str, tuple[int, int]]
    apart: tuple[int, ...] = ()

    @property
    def prior(self) -> FloatArray:
        """How likely a change at each position but the first is before any run, relative to an ordinary one."""
        weight = np.ones(max(0, self.size - 1))
        weight[[position - 1 for position in self.apart]] = EQUAL_BUT_APART
        return weight

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


def lineup(problem: Problem, observations: Sequence[Observation], *, apart: Collection[str] = ()) -> Lineup:
    """Lay the candidates between the endpoints out in time and count the observations.

    `apart`: candidates that get a position of their own, whatever they are equal to.
    """
    index = {name: place for place, name in enumerate(problem.candidates)}
    oldest, newest = sorted((index[problem.good], index[problem.bad]))
    kind = kinds(problem.equal)
    groups = _merge(problem.candidates[oldest : newest + 1], kind, apart)
    where = {name: position for position, group in enumerate(groups) for name in group}
    seen = Counter((each.candidate, each.conclusion) for each in observations if each.candidate in where)
    counts = {word: np.zeros(len(groups), dtype=np.int64) for word in Conclusion}
    cached = np.array([any(name in problem.cached for name in group) for group in groups], dtype=np.bool_)
    for (name, conclusion), number in seen.items():
        counts[conclusion][where[name]] += number
        cached[where[name]] = True
    return Lineup(
        groups=groups,
        rising=index[problem.good] <= index[problem.bad],
        failures=counts[Conclusion.BAD],
        passes=counts[Conclusion.GOOD],
        skips=counts[Conclusion.SKIP],
        cached=cached,
        shown={name: (seen[name, Conclusion.BAD], seen[name, Conclusion.GOOD]) for name in where},
        apart=tuple(
            place for place in range(1, len(groups)) if _are_equal(groups[place - 1][-1], groups[place][0], kind)
        ),
    )


def kinds(equal: Sequence[Sequence[str]]) -> dict[str, int]:
    """The kind of code of each candidate that is said to be equal to another. (a b) (b c) (d e) -> a b c: 0, d e: 2."""
    kind: dict[str, int] = {}
    for number, group in enumerate(equal):
        joined = {kind[name] for name in group if name in kind} | {number}
        shared = [name for name, known in kind.items() if known in joined] if len(joined) > 1 else []
        kind.update(dict.fromkeys((*shared, *group), min(joined)))
    return kind


def scattered(problem: Problem) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Of each kind of code whose members do not all lie side by side: the stretches of those that do."""
    kind = kinds(problem.equal)
    stretches: dict[int, list[tuple[str, ...]]] = {}
    for group in lineup(problem, ()).groups:
        if group[0] in kind:
            stretches.setdefault(kind[group[0]], []).append(group)
    return tuple(tuple(found) for found in stretches.values() if len(found) > 1)


def _are_equal(before: str, after: str, kind: Mapping[str, int]) -> bool:
    return after in kind and kind.get(before) == kind[after]


def _merge(names: Sequence[str], kind: Mapping[str, int], apart: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Join neighbours of one kind, but for those to keep apart. a b c, (b c) -> (a) (b c)."""
    merged: list[tuple[str, ...]] = []
    for name in names:
        if merged and name not in apart and merged[-1][-1] not in apart and _are_equal(merged[-1][-1], name, kind):
            merged[-1] = (*merged[-1], name)
        else:
            merged.append((name,))
    return tuple(merged)
