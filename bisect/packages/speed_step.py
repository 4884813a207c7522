"""The rule of the set search for a loss of throughput: `packages.next_set` for pairs instead of verdicts.

Every run is a pair with the good environment. The two ends are compared first, by the throughput engine: it says that
nothing is slower, that the noise of a pair hides what was claimed, or how large the loss is. Only then are mixes asked
which differences bring it in, and the answer is confirmed both ways like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from .. import throughput
from ..model import Contradiction, Exhausted, Found, Narrowed, NoRegression, Observation, Probe, Problem
from ..throughput.posterior import channel_information
from . import Count, FoundSet, Innocent, ProbeSet, Purpose, SetContradiction, SetExhausted
from .belief import enumerate_hypotheses
from .choice import choose
from .room import enter
from .speed import SpeedTally, infer_speeds
from .step import claim, search, stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Step
    from . import SetObservation, SetProblem, SetStep
    from .belief import BoolArray, FloatArray
    from .room import Room
    from .speed import SetSpeeds

GOOD, BAD = "good", "bad"
BATCHES = (1, 2, 4)
RUNS_A_PAIR = 2
CONFIRMING_PAIRS = 2
OFF_LEVEL = 5.0
"""Standard errors by which the guilty set alone may differ from everything before that is told."""


def next_set(problem: SetProblem, observations: Sequence[SetObservation], *, min_effect: float) -> SetStep:
    """The next mix to pair with the good environment, or the answer.

    Args:
        problem: the differences; `max_runs` counts pairs.
        observations: finished pairs, `value` being log(mix / good); SKIP without one.
        min_effect: smallest loss of throughput that matters, as a fraction.
    """
    state = _State(problem=problem, room=enter(problem, observations), pairs=tuple(observations), min_effect=min_effect)
    if not problem.items:
        none = Count(items=frozenset(), failures=0, runs=0, change=0.0)
        return Innocent(confidence=1.0, without=none, with_all=none, allowed_rate=0.0, reason="nothing differs")
    ends = _compare_ends(state)
    match ends:
        case Probe():
            mix = frozenset(problem.items) if ends.candidate == BAD else frozenset[str]()
            return ProbeSet(items=mix, purpose=Purpose.ENDPOINT, suspects=(), none=ends.posterior.none)
        case NoRegression():
            return Innocent(
                confidence=ends.confidence, without=state.count(1), with_all=state.count(0),
                allowed_rate=ends.allowed_rate, reason=ends.reason,
            )  # fmt: skip
        case Exhausted() | Contradiction() | Narrowed():
            return SetExhausted(suspects=(), confidence=0.0, reason=ends.reason)
        case Found():
            return _culprits(state, ends)
        case _:
            assert_never(ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A search at one moment; rows 0 and 1 of the room are the bad and the good end."""

    problem: SetProblem
    room: Room
    pairs: tuple[SetObservation, ...]
    min_effect: float

    def values(self, row: int) -> FloatArray:
        """What the pairs of one mix measured."""
        mix = self.room.names(self.room.sets[row])
        kept = [seen.value for seen in self.pairs if seen.items == mix and seen.value is not None]
        return np.asarray(kept, dtype=np.float64)

    def count(self, row: int) -> Count:
        """The mean of one mix, and in how many pairs."""
        values = self.values(row)
        change = float(values.mean()) if values.size else 0.0
        return Count(items=self.room.names(self.room.sets[row]), failures=0, runs=values.size, change=change)

    def count_of(self, mix: BoolArray) -> Count:
        """The same for a mix by its flags."""
        row = self.room.index(mix)
        return self.count(row) if row >= 0 else Count(items=self.room.names(mix), failures=0, runs=0, change=0.0)


def _compare_ends(state: _State) -> Step:
    """The throughput engine's word on the two ends; the mixes between have used up their part of the budget."""
    everything = frozenset(state.problem.items)
    names = {frozenset[str](): GOOD, everything: BAD}
    seen = [
        Observation(
            candidate=names[pair.items],
            conclusion=pair.conclusion,
            outcome=pair.outcome,
            value=pair.value,
            drift=pair.drift,
            stalled=pair.stalled,
        )
        for pair in state.pairs
        if pair.items in names
    ]
    left = state.problem.max_runs - state.room.spent + len(seen)
    asked = Problem(
        candidates=(GOOD, BAD),
        good=GOOD,
        bad=BAD,
        confidence=state.problem.confidence,
        max_runs=max(left, 1),
        cached=frozenset((GOOD, BAD)),
    )
    return throughput.next_step(asked, seen, min_effect=state.min_effect)


def _culprits(state: _State, ends: Found) -> SetStep:
    """Which differences bring the loss in that the ends show."""
    problem, room = state.problem, state.room
    without, with_all = state.count(1), state.count(0)
    if (with_all.change or 0.0) > 0.0:
        reason = "the environment called bad is the faster one: the differences make it faster"
        return SetContradiction(reason=reason, without=without, with_all=with_all)
    rows = np.flatnonzero(room.runs > 0)
    belief = infer_speeds(
        enumerate_hypotheses(problem.weights or (1.0,) * len(problem.items)),
        SpeedTally(sets=room.sets[rows], values=tuple(state.values(int(row)) for row in rows)),
        at_bad_end=state.values(0),
        min_effect=-math.log1p(-state.min_effect),
        none=ends.posterior.none,
    )

    def fit(top: int, mix: BoolArray, *, fails: bool) -> float:
        return _fit(state, belief, top, mix, fails=fails)

    claimed = claim(problem, room, belief, fit=fit, count_of=state.count_of)
    if isinstance(claimed, FoundSet):
        return replace(claimed, notes=(*ends.notes, *_off_level(state, claimed)))
    return (
        claimed
        or stop(problem, room, belief)
        or search(room, belief, choose(problem, room, belief, gain=lambda mixes: _gain(belief, mixes), costs=_COSTS))
    )


_COSTS = tuple(float(RUNS_A_PAIR * batch) for batch in BATCHES)


def _gain(belief: SetSpeeds, mixes: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Nats that m pairs of each mix tell of whether it is slow; nothing is paid for the two levels."""
    chance = belief.mass @ belief.hypotheses.triggered(mixes).T / max(1.0 - belief.none, 1e-9)
    told = channel_information(np.asarray(chance), belief.distance * np.sqrt(np.asarray(BATCHES, dtype=np.float64)))
    return told, np.zeros_like(told)


def _fit(state: _State, belief: SetSpeeds, top: int, mix: BoolArray, *, fails: bool) -> float:
    """How many times better a mix's own pairs fit what the explanation says of it than the contrary."""
    rows = np.flatnonzero(state.room.runs > 0)
    here = np.flatnonzero((state.room.sets[rows] == mix).all(axis=1))
    if not here.size or state.room.runs[rows[here[0]]] < CONFIRMING_PAIRS:
        return 0.0
    inside = belief.hypotheses.triggered(state.room.sets[rows])[:, top]
    factor = belief.fit(top, inside=inside, of=int(here[0]))
    return factor if fails else 1.0 / max(factor, 1e-300)


def _off_level(state: _State, found: FoundSet) -> list[str]:
    """The set alone loses clearly less or more than everything together: other differences take part."""
    everything = state.values(0)
    notes = []
    for count in found.forward:
        alone = state.values(state.room.index(state.room.flags(count.items)))
        error = math.sqrt(_variance(alone) + _variance(everything))
        off = float(alone.mean() - everything.mean())
        if abs(off) > max(state.min_effect, OFF_LEVEL * error):
            told = f"{'part of' if off > 0 else 'more than'} the loss"
            notes.append(f"{' + '.join(sorted(count.items))} alone is {told}: {count}, everything {state.count(0)}")
    return notes


def _variance(values: FloatArray) -> float:
    """Of the mean of a few pairs; one pair tells nothing of it."""
    return float(values.var(ddof=1)) / values.size if values.size > 1 else math.inf
