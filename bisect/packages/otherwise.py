"""The answer where no single set and no choice of two members explains the runs: one way that the failure comes in.

Differences p0 and p1 fail together, and so do p0 and p2: no explanation of `belief` says that, and the search
over explanations would run until its budget ends. Here nothing is explained. The smallest mix that fails is made
smaller as long as what is left still fails; when it stops failing without any one of its members, that is the answer.

    everything          y
    {p0 p1 p3 p5}       y              the smallest mix that fails so far
    {p0 p3}             n              halves, likeliest members kept, then single members taken away
    {p0 p1 p5}          y
    {p0 p1}  y      {p0} n  {p1} n     smaller is none: p0 + p1
    all but p1          y              p1 need not go: there is another way
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import Count, FoundSet, ProbeSet, Purpose
from .labels import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import SetProblem
    from .belief import BoolArray, FloatArray, SetBelief
    from .labels import Labels
    from .room import Room

UNEXPLAINED = 0.9
"""No explanation is true with this probability: then one way is looked for instead."""
FAILS, PASSES = 0.99, 0.05
"""A mix fails from this probability on, and does not up to that: a stray failure must not become the answer."""
MOST_RUNS = 20
"""Runs of everything without one member, after which it is left open whether that mends it."""
LARGEST = 3
"""Members of another set that fails, to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The mixes and how likely each fails."""

    room: Room
    labels: Labels

    def fails(self, mix: BoolArray) -> float:
        """Probability that a mix fails; one half where it was not run."""
        tallied = np.flatnonzero(self.room.runs > 0)
        row = np.flatnonzero(tallied == self.room.index(mix))
        return float(self.labels.fails[row[0]]) if row.size else 0.5

    def runs(self, mix: BoolArray) -> int:
        row = self.room.index(mix)
        return int(self.room.runs[row]) if row >= 0 else 0

    def is_broken(self, mix: BoolArray) -> bool:
        row = self.room.index(mix)
        return row >= 0 and bool(self.room.broken[row])

    def failing(self) -> list[BoolArray]:
        """Mixes that fail, smallest first."""
        rows = [mix for mix in self.room.sets if self.fails(mix) >= FAILS]
        return sorted(rows, key=lambda mix: (int(mix.sum()), -self.fails(mix)))

    def is_inside_a_passing_one(self, mix: BoolArray) -> bool:
        return any(not (mix & ~other).any() and self.fails(other) <= PASSES for other in self.room.sets)


def otherwise(problem: SetProblem, room: Room, belief: SetBelief) -> FoundSet | ProbeSet | None:
    """One set that suffices and holds nothing to spare, or the next run on the way to it.

    None while an explanation is possible, and when the budget is used up.
    """
    labels = label(room.tally())
    if labels.unexplained(belief) < UNEXPLAINED:
        return None
    seen = _Seen(room=room, labels=labels)
    way = seen.failing()[0]
    asked = _smaller(seen, way, belief) or _to_confirm(problem, seen, way) or _to_revert(seen, way)
    if asked is None:
        return _found(seen, way)
    mix, purpose = asked
    affordable = room.spent < problem.max_runs
    return ProbeSet(items=room.names(mix), purpose=purpose, suspects=(), none=belief.none) if affordable else None


def _smaller(seen: _Seen, way: BoolArray, belief: SetBelief) -> tuple[BoolArray, Purpose] | None:
    """A part of the way of which it is not known yet whether it fails; one that was begun comes first."""
    parts = (part for part in _parts(seen.room, way, belief.marginals()) if not seen.is_broken(part))
    open_parts = [part for part in parts if seen.fails(part) > PASSES]
    untold = [part for part in open_parts if not seen.is_inside_a_passing_one(part)]
    begun = (part for part in untold if seen.runs(part))
    part = next(begun, untold[0] if untold else None)
    return None if part is None else (part, Purpose.SEARCH)


def _parts(room: Room, way: BoolArray, marginals: FloatArray) -> Iterator[BoolArray]:
    """The way without half of its members, a quarter, ... and each one, the unlikeliest first."""
    members = sorted(np.flatnonzero(way), key=lambda member: float(marginals[member]))
    size = len(members) // 2
    while size:
        for start in range(0, len(members), size):
            part = way
            for member in members[start : start + size]:
                part = room.without(part, int(member))
            if part.any():
                yield part
        size //= 2


def _without_each(room: Room, mix: BoolArray, *, of: BoolArray) -> list[BoolArray]:
    return [room.without(of, int(member)) for member in np.flatnonzero(mix)]


def _checks(seen: _Seen, way: BoolArray) -> list[tuple[BoolArray, float, Purpose]]:
    """What the claim rests on: each mix, how likely it does what is claimed, and in which direction that is."""
    lesser = [mix for mix in _without_each(seen.room, way, of=way) if mix.any() and not seen.is_broken(mix)]
    forward = [] if way.all() else [(way, seen.fails(way), Purpose.FORWARD)]
    return [*forward, *((mix, 1.0 - seen.fails(mix), Purpose.REVERSE) for mix in lesser)]


def _confidence(seen: _Seen, way: BoolArray) -> float:
    return float(np.prod([held for _, held, _ in _checks(seen, way)]))


def _to_confirm(problem: SetProblem, seen: _Seen, way: BoolArray) -> tuple[BoolArray, Purpose] | None:
    """The least sure of what the claim rests on, while the claim is not sure enough."""
    if _confidence(seen, way) >= problem.confidence:
        return None
    mix, _, purpose = min(_checks(seen, way), key=lambda check: check[1])
    return mix, purpose


def _to_revert(seen: _Seen, way: BoolArray) -> tuple[BoolArray, Purpose] | None:
    """Everything without one member, as long as it is open whether that mends it."""
    for mix in _without_each(seen.room, way, of=np.ones_like(way)):
        settled = not PASSES < seen.fails(mix) < FAILS
        if not (settled or seen.is_broken(mix) or seen.runs(mix) >= MOST_RUNS):
            return mix, Purpose.REVERSE
    return None


def _found(seen: _Seen, way: BoolArray) -> FoundSet:
    room = seen.room
    members = tuple(item for item, held in zip(room.items, way, strict=True) if held)
    without = _without_each(room, way, of=np.ones_like(way))
    staying = tuple(member for member, mix in zip(members, without, strict=True) if seen.fails(mix) >= FAILS)
    others = [mix for mix in seen.failing() if mix.sum() <= LARGEST and not set(staying) <= room.names(mix)]
    mended = all(seen.fails(mix) <= PASSES for mix in without)
    lesser = _without_each(room, way, of=way)
    return FoundSet(
        members=members,
        any_of=False,
        confidence=_confidence(seen, way),
        forward=(_count(room, way),),
        reverse=tuple(_count(room, mix) for mix in without),
        unchecked=tuple(room.names(mix) for mix in (*lesser, *without) if seen.is_broken(mix)),
        still_fails_without=staying,
        beside=tuple(_count(room, mix) for mix in others),
        another=bool(staying) or not mended,
    )


def _count(room: Room, mix: BoolArray) -> Count:
    row = room.index(mix)
    failures, runs = (int(room.failures[row]), int(room.runs[row])) if row >= 0 else (0, 0)
    return Count(items=room.names(mix), failures=failures, runs=runs)
