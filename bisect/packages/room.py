"""The mixes of a search as rows of flags: which were run, which cannot be built, which can be asked for at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..model import Conclusion
from .belief import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ItemSet, SetObservation, SetProblem
    from .belief import BoolArray, FloatArray, IntArray

MAX_SKIPS = 3
"""Runs of a mix that could not be judged before it counts as unusable: another failure may come first once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One search's mixes.

    Attributes:
        items: the differences, in the order of every row of flags.
        needs: needs[a, b]: a is applied only together with b (transitive, reflexive).
        sets: the mixes seen or built, one row each.
        failures: BAD runs of each.
        passes: GOOD runs of each.
        broken: mixes that gave no information: they could not be built, or `MAX_SKIPS` runs could not be judged.
        spent: runs made, those that could not be judged too.
        free: nothing needs anything, every mix can be asked for.
    """

    items: tuple[str, ...]
    needs: BoolArray
    sets: BoolArray
    failures: IntArray
    passes: IntArray
    broken: BoolArray
    spent: int
    free: bool

    @property
    def runs(self) -> IntArray:
        return self.failures + self.passes

    def flags(self, items: ItemSet) -> BoolArray:
        return np.asarray([item in items for item in self.items], dtype=np.bool_)

    def names(self, flags: BoolArray) -> ItemSet:
        return frozenset(item for item, held in zip(self.items, flags, strict=True) if held)

    def with_needed(self, flags: BoolArray) -> BoolArray:
        """The smallest mix that holds these items and can be applied."""
        if self.free:
            return flags
        return np.asarray(flags | (self.needs[flags].any(axis=0) if flags.any() else False), dtype=np.bool_)

    def without(self, flags: BoolArray, item: int) -> BoolArray:
        """The largest mix inside `flags` that lacks `item` (and so what needs it)."""
        return np.asarray(flags & ~self.needs[:, item], dtype=np.bool_)

    def index(self, flags: BoolArray) -> int:
        """Row of a mix among those seen, or -1."""
        hits = np.flatnonzero((self.sets == flags).all(axis=1))
        return int(hits[0]) if hits.size else -1

    def tally(self) -> Tally:
        """The mixes with at least one judged run."""
        seen = self.runs > 0
        return Tally(sets=self.sets[seen], failures=self.failures[seen], passes=self.passes[seen])

    def chance_to_build(self, candidates: BoolArray) -> FloatArray:
        """For each candidate, how likely it can be built, from the mixes that could and could not.

        A broken mix holds some x without some y that x needs. Pairs (x in, y out) that occur in a mix which was
        built are cleared; what is left of a broken mix's pairs is blamed evenly.
        """
        chance = np.ones(len(candidates), dtype=np.float64)
        built = self.sets[~self.broken]
        cleared = (built[:, :, None] & ~built[:, None, :]).any(axis=0)
        for mix in self.sets[self.broken]:
            blamed = (mix[:, None] & ~mix[None, :]) & ~cleared
            if blamed.any():
                hit = ((candidates @ blamed.astype(np.float64)) * ~candidates).sum(axis=1)
                chance *= 1.0 - hit / blamed.sum()
        return chance


def enter(problem: SetProblem, observations: Sequence[SetObservation]) -> Room:
    """Count the observations by mix; both ends and the built mixes are rows even before their first run."""
    items = problem.items
    place = {item: i for i, item in enumerate(items)}
    known = [frozenset(items), frozenset[str](), *sorted(problem.built, key=sorted), *(o.items for o in observations)]
    mixes = list(dict.fromkeys(mix for mix in known if mix <= place.keys()))
    row = {mix: i for i, mix in enumerate(mixes)}
    refused = {o.items for o in observations if o.conclusion is Conclusion.SKIP and not o.run}
    sets = np.asarray([[item in mix for item in items] for mix in mixes], dtype=np.bool_)
    counts = {conclusion: np.zeros(len(mixes), dtype=np.int64) for conclusion in Conclusion}
    for observation in observations:
        counts[observation.conclusion][row[observation.items]] += 1
    failures, passes, skips = (counts[name] for name in (Conclusion.BAD, Conclusion.GOOD, Conclusion.SKIP))
    unbuilt = np.asarray([mix in refused for mix in mixes], dtype=np.bool_)
    return Room(
        items=items,
        needs=_closure(problem, place),
        sets=sets,
        failures=failures,
        passes=passes,
        broken=(unbuilt | (skips >= MAX_SKIPS)) & (failures + passes == 0),
        spent=int((failures + passes + skips).sum()),
        free=not problem.needs,
    )


def _closure(problem: SetProblem, place: dict[str, int]) -> BoolArray:
    needs = np.eye(len(place), dtype=np.bool_)
    for item, needed in problem.needs:
        needs[place[item], place[needed]] = True
    for middle in range(len(place)) if problem.needs else ():
        needs |= np.outer(needs[:, middle], needs[middle])
    return needs
