"""A set that brings the failure in beside another one: without one of its members the failure stays.

Differences p0 and p1 fail together, and so do p0 and p2. No explanation of `belief` says that: the set search
would run until its budget ends. What shows it is a mix that fails, and without any one of its members no longer does,
while everything without one of them still fails. That mix is then searched by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from . import Count, FoundSet, ProbeSet, Purpose
from .belief import Tally, bayes_factor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import SetObservation, SetProblem, SetStep
    from .belief import BoolArray
    from .room import Room

    Rule = Callable[[SetProblem, Sequence[SetObservation]], SetStep]

CLEARLY = 20.0
"""A mix's own runs fit one of the two ends this many times better than the other one."""
LEAST_RUNS = 2
MOST_RUNS = 20
"""Runs after which a mix that clearly fits neither end is asked no more."""
LARGEST = 3
"""Members of a set that is looked at."""


def otherwise(
    problem: SetProblem, observations: Sequence[SetObservation], room: Room, rule: Rule
) -> FoundSet | ProbeSet | None:
    """The set that fails beside another one, or the next run that tells whether it does; None if nothing hints at it.

    Args:
        problem: the question.
        observations: the runs.
        room: the same as rows of flags.
        rule: the set search, for the set by itself.
    """
    for mix in _small_failing(room):
        without = _without_each(room, mix, of=np.ones_like(mix))
        if not any(_hinted(room, each) for each in without):
            continue
        lesser = _without_each(room, mix, of=mix)
        if any(_is_settled(room, each) and not _passes(room, each) for each in lesser):
            continue
        parts = (without, lesser) if any(_fails(room, each) for each in without) else (without,)
        asked = next((each for part in parts for each in part if not _is_settled(room, each)), None)
        if asked is not None:
            return _probe(problem, room, asked)
        if any(_fails(room, each) for each in without):
            return _by_itself(problem, observations, room, mix, rule)
    return None


def _small_failing(room: Room) -> list[BoolArray]:
    small = [mix for mix in room.sets[2:] if 2 <= mix.sum() <= LARGEST and not mix.all() and _fails(room, mix)]
    return sorted(small, key=lambda mix: int(mix.sum()))


def _without_each(room: Room, mix: BoolArray, *, of: BoolArray) -> list[BoolArray]:
    return [room.without(of, int(member)) for member in np.flatnonzero(mix)]


def _hinted(room: Room, mix: BoolArray) -> bool:
    """Whether it fails at least half as often as everything does."""
    row = room.index(mix)
    return row >= 0 and bool(2 * room.failures[row] * room.runs[0] >= room.failures[0] * max(room.runs[row], 1))


def _fit(room: Room, mix: BoolArray) -> float:
    """How many times better a mix's runs fit those of the bad end than those of the good one."""
    row = room.index(mix)
    if row < 0 or room.runs[row] < LEAST_RUNS:
        return 1.0
    if row < 2:
        return CLEARLY if row == 0 else 1.0 / CLEARLY
    rows = [0, 1, row]
    tally = Tally(sets=room.sets[rows], failures=room.failures[rows], passes=room.passes[rows])
    return bayes_factor(np.asarray([True, False, False]), tally, of=2)


def _fails(room: Room, mix: BoolArray) -> bool:
    return _fit(room, mix) >= CLEARLY


def _passes(room: Room, mix: BoolArray) -> bool:
    return _fit(room, mix) <= 1.0 / CLEARLY


def _is_settled(room: Room, mix: BoolArray) -> bool:
    row = room.index(mix)
    asked_enough = row >= 0 and (bool(room.broken[row]) or int(room.runs[row]) >= MOST_RUNS)
    return asked_enough or _fails(room, mix) or _passes(room, mix)


def _probe(problem: SetProblem, room: Room, mix: BoolArray) -> ProbeSet | None:
    if room.spent >= problem.max_runs:
        return None
    return ProbeSet(items=room.names(mix), purpose=Purpose.REVERSE, suspects=(), none=0.0)


def _by_itself(
    problem: SetProblem, observations: Sequence[SetObservation], room: Room, mix: BoolArray, rule: Rule
) -> FoundSet | ProbeSet | None:
    """Search one mix as if it were everything; what the search as a whole knows is put beside the answer."""
    inside = room.names(mix)
    seen = [each for each in observations if each.items <= inside]
    part = replace(
        problem,
        items=tuple(item for item in problem.items if item in inside),
        weights=(),
        needs=tuple(pair for pair in problem.needs if inside.issuperset(pair)),
        families=(),
        max_runs=problem.max_runs - room.spent + len(seen),
        built=frozenset(built for built in problem.built if built <= inside),
    )
    found = rule(part, seen)
    if isinstance(found, ProbeSet):
        return found
    if not isinstance(found, FoundSet) or frozenset(found.members) != inside:
        return None
    without = _without_each(room, mix, of=np.ones_like(mix))
    staying = [member for member, each in zip(found.members, without, strict=True) if _fails(room, each)]
    others = (other for other in _small_failing(room) if any(member not in room.names(other) for member in staying))
    return replace(
        found,
        reverse=tuple(_count(room, each) for each in without),
        still_fails_without=tuple(staying),
        beside=tuple(_count(room, other) for other in others),
    )


def _count(room: Room, mix: BoolArray) -> Count:
    row = room.index(mix)
    failures, runs = (int(room.failures[row]), int(room.runs[row])) if row >= 0 else (0, 0)
    return Count(items=room.names(mix), failures=failures, runs=runs)
