"""The rule of the set search: ends first, then what tells most, then confirmation, then the claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from . import Count, FoundSet, Innocent, NarrowedSet, ProbeSet, Purpose, SetContradiction, SetExhausted, Suspect
from .belief import bayes_factor, enumerate_hypotheses, infer
from .choice import choose, confirmations, gains
from .otherwise import otherwise
from .room import enter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import ItemSet, SetObservation, SetProblem, SetStep
    from .belief import BoolArray, Explanations, SetBelief
    from .choice import Check
    from .room import Room

    class Fit(Protocol):
        """How many times better a mix's own runs fit what hypothesis `top` says of it than the contrary."""

        def __call__(self, top: int, mix: BoolArray, *, fails: bool) -> float: ...


FIRST_RUNS = 2
"""Runs of each end before anything else: one pass is no evidence, one failure may be another one."""
NO_CHANGE_SETTLED = 0.2
"""The ends are run until 'no difference matters' is less likely than this."""
REVERSED_FOR_SURE, REVERSED_PERHAPS = 0.001, 0.1
"""Exact chances below which the good end is said to fail more often, or is run again before innocence is claimed."""
CLEARLY = 7.0
"""A confirming environment's own runs must fit what is claimed of it this many times better than the contrary."""
GONE = 20.0
"""The same for everything without a member: four lucky passes would hide that another one suffices as well."""
SHOWN = 5


def step(problem: SetProblem, observations: Sequence[SetObservation]) -> SetStep:
    """See `packages.next_set`."""
    room = enter(problem, observations)
    if not problem.items:
        return Innocent(
            confidence=1.0, without=_count(room, 0), with_all=_count(room, 0), allowed_rate=1.0,
            reason="the two environments do not differ in anything that can be applied",
        )  # fmt: skip
    if room.broken[:2].any():
        end = "bad" if room.broken[0] else "good"
        return SetExhausted(suspects=(), confidence=0.0, reason=f"the {end} environment cannot be built or judged")
    few = np.flatnonzero(room.runs[:2] < FIRST_RUNS)
    if few.size and not _affordable(problem, room):
        return SetExhausted(suspects=(), confidence=0.0, reason=f"{room.spent} runs did not settle the two ends")
    if few.size:
        return _probe(room, room.sets[int(few[0])], Purpose.ENDPOINT, None)
    belief = infer(enumerate_hypotheses(problem.weights or (1.0,) * len(problem.items)), room.tally())
    return (
        _ends(problem, room, belief)
        or otherwise(problem, room, belief)
        or claim(
            problem,
            room,
            belief,
            fit=lambda top, mix, *, fails: _fit(room, belief, top, mix, fails=fails),
            count_of=lambda mix: _count_of(room, mix),
            largest=True,
        )
        or stop(problem, room, belief)
        or search(room, belief, choose(problem, room, belief, gain=lambda mixes: gains(belief, mixes)))
    )


def _count(room: Room, row: int) -> Count:
    return Count(items=room.names(room.sets[row]), failures=int(room.failures[row]), runs=int(room.runs[row]))


def _count_of(room: Room, mix: BoolArray) -> Count:
    row = room.index(mix)
    return _count(room, row) if row >= 0 else Count(items=room.names(mix), failures=0, runs=0)


def suspects(room: Room, belief: Explanations) -> tuple[Suspect, ...]:
    """The likeliest explanations."""
    best = np.argsort(-belief.mass, kind="stable")[:SHOWN]
    return tuple(
        Suspect(
            members=belief.hypotheses.names(int(i), room.items),
            any_of=bool(belief.hypotheses.any_of[i]),
            probability=float(belief.mass[i]),
        )
        for i in best
    )


def _probe(room: Room, mix: BoolArray, purpose: Purpose, belief: Explanations | None) -> ProbeSet:
    return ProbeSet(
        items=room.names(mix),
        purpose=purpose,
        suspects=suspects(room, belief) if belief else (),
        none=belief.none if belief else 1.0,
    )


def _ends(problem: SetProblem, room: Room, belief: SetBelief) -> SetStep | None:
    """Innocence, contradiction, or another run of an end; None once the ends differ as claimed."""
    without, with_all = _count(room, 1), _count(room, 0)
    odd = _reversed(without, with_all)
    if odd < REVERSED_FOR_SURE:
        reason = "the environment called good fails more often than the one called bad: the differences cure it"
        return SetContradiction(reason=reason, without=without, with_all=with_all)
    if belief.none >= problem.confidence:
        fewer, more = sorted((with_all.runs, without.runs))
        open_question = odd < REVERSED_PERHAPS or (room.failures.any() and 4 * fewer < 3 * more)
        if open_question and _affordable(problem, room):
            return _probe(room, room.sets[int(with_all.runs > without.runs)], Purpose.ENDPOINT, belief)
        return _innocent(belief, without, with_all)
    if belief.none > NO_CHANGE_SETTLED and _affordable(problem, room):
        ends = gains(belief, room.sets[:2])[0][:, 1]
        return _probe(room, room.sets[int(ends.argmax())], Purpose.ENDPOINT, belief)
    return None


def _reversed(without: Count, with_all: Count) -> float:
    """The exact chance, under one rate, that the good end fails so much more often than the bad one; 1 if not.

    Fisher's: of all failures, at least as many fall on the good end's runs.
    """
    if without.failures * with_all.runs <= with_all.failures * without.runs:
        return 1.0
    failures, runs = without.failures + with_all.failures, without.runs + with_all.runs
    ways = [
        math.comb(without.runs, here) * math.comb(with_all.runs, failures - here)
        for here in range(without.failures, min(without.runs, failures) + 1)
    ]
    return sum(ways) / math.comb(runs, failures)


def _innocent(belief: SetBelief, without: Count, with_all: Count) -> Innocent:
    runs, failures = without.runs + with_all.runs, without.failures + with_all.failures
    allowed = 1.0 - 0.05 ** (1.0 / with_all.runs) if with_all.failures == 0 else with_all.failures / with_all.runs
    reason = (
        f"none of {runs} runs failed, with or without the differences"
        if failures == 0
        else f"it fails without the differences ({without}) as it does with them ({with_all})"
    )
    return Innocent(confidence=belief.none, without=without, with_all=with_all, allowed_rate=allowed, reason=reason)


def claim(
    problem: SetProblem,
    room: Room,
    belief: Explanations,
    *,
    fit: Fit,
    count_of: Callable[[BoolArray], Count],
    largest: bool = False,
) -> FoundSet | ProbeSet | None:
    """The claim of the likeliest explanation, or the run that its confirmation lacks; None if it is not likely.

    Args:
        problem: the question.
        room: the mixes.
        belief: what is known of the explanation.
        fit: how well a mix's runs fit what is claimed of it.
        count_of: the runs of a mix.
        largest: whether a member is missing from everything that can be there without it; else the clearest mix
            counts, since of a loss of throughput other differences may bring a part.
    """
    top, mass = _likeliest(room, belief)
    if mass < problem.confidence:
        return None
    done: dict[Purpose, list[Count]] = {Purpose.FORWARD: [], Purpose.REVERSE: []}
    unchecked: list[ItemSet] = []
    for check in confirmations(room, belief.hypotheses, top):
        able = [mix for mix in check.mixes if not _broken(room, mix)]
        if not able:
            unchecked.extend(room.names(mix) for mix in check.mixes)
            continue
        if largest and not check.fails:
            able = [_largest(room, check)]
        clearest = max(able, key=lambda mix: fit(top, mix, fails=check.fails))
        if fit(top, clearest, fails=check.fails) < (GONE if largest and not check.fails else CLEARLY):
            return _probe(room, clearest, check.purpose, belief) if _affordable(problem, room) else None
        done[check.purpose].append(count_of(clearest))
    return FoundSet(
        members=belief.hypotheses.names(top, room.items),
        any_of=bool(belief.hypotheses.any_of[top]),
        confidence=mass,
        forward=tuple(done[Purpose.FORWARD]),
        reverse=tuple(done[Purpose.REVERSE]),
        unchecked=tuple(unchecked),
    )


def _largest(room: Room, check: Check) -> BoolArray:
    """The largest mix that a reverse check may look at, as far as is known what can be built."""
    whole, least = check.mixes[0], check.mixes[-1]
    if not _broken(room, whole):
        return whole
    known = [mix for mix in room.sets[~room.broken] if not (mix & ~whole).any() and not (least & ~mix).any()]
    return max([least, *known], key=lambda mix: int(mix.sum()))


def _affordable(problem: SetProblem, room: Room) -> bool:
    return room.spent < problem.max_runs


def _broken(room: Room, mix: BoolArray) -> bool:
    row = room.index(mix)
    return row >= 0 and bool(room.broken[row])


def _fit(room: Room, belief: SetBelief, top: int, mix: BoolArray, *, fails: bool) -> float:
    """How many times better a mix's own runs fit what the explanation says of it than the contrary."""
    tally = room.tally()
    rows = np.flatnonzero((tally.sets == mix).all(axis=1))
    if not rows.size:
        return 0.0
    factor = bayes_factor(belief.hypotheses.triggered(tally.sets)[:, top], tally, of=int(rows[0]))
    return factor if fails else 1.0 / max(factor, 1e-300)


def _likeliest(room: Room, belief: Explanations) -> tuple[int, float]:
    """The likeliest explanation, and the probability of all that no applicable mix tells from it."""
    top = int(belief.mass.argmax())
    if belief.hypotheses.any_of[top] or room.free:
        return top, float(belief.mass[top])
    closed = np.asarray(room.needs[belief.hypotheses.members].any(axis=1))
    same = np.flatnonzero((closed == closed[top]).all(axis=1) & ~belief.hypotheses.any_of)
    first = min((int(i) for i in same), key=lambda i: (len(set(belief.hypotheses.members[i])), -belief.mass[i]))
    return first, float(belief.mass[same].sum())


def stop(problem: SetProblem, room: Room, belief: Explanations) -> SetExhausted | None:
    """The end of a search whose budget is used up."""
    if _affordable(problem, room):
        return None
    return SetExhausted(
        suspects=suspects(room, belief),
        confidence=float(belief.mass.max()),
        reason=f"{room.spent} runs were not enough",
    )


def search(room: Room, belief: Explanations, mix: BoolArray | None) -> ProbeSet | NarrowedSet:
    """The run of the chosen mix; no mix means that none tells the suspects apart."""
    if mix is not None:
        return _probe(room, mix, Purpose.SEARCH, belief)
    return NarrowedSet(
        suspects=suspects(room, belief),
        confidence=float(belief.mass.max()),
        reason="no mix that can be built tells these apart",
    )
