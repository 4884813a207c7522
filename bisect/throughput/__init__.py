"""The next step of a search for a loss of throughput: `engine.next_step` for values instead of verdicts.

An observation's `value` is log(candidate / baseline) of one interleaved pair, the baseline being the good endpoint;
pairs of the good endpoint itself are A/A pairs, and all pairs together say how noisy a pair is, so no threshold is
assumed. The rules are the engine's: ends first, no change is an answer, both neighbours are confirmed before a claim.
Two answers are added. A loss below `min_effect` is none. And where the noise of a pair hides what was claimed, the
baseline differs from itself, or the rate drifts within the runs by more than what is to be claimed, the search ends
undecided and says why. A claim has to hold as well if the rate changes in two steps (`steps`), unless it is
one of three and more, which are then all told (`islands`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..lineup import silent, told_of_idle
from ..model import Contradiction, Exhausted, NoRegression, Probe
from ..neighbours import answer, credible, likeliest_gap, posterior_of, unchanged
from ..pace import percent
from ..same_code import told
from .doubts import another_step, drift_doubt, stall_note
from .islands import find_stretches, tell
from .line import kept, speed_line
from .posterior import channel_information, gather, infer_speed
from .size import size_of
from .steps import find_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import IntArray, Lineup
    from ..model import Observation, Posterior, Problem, Step
    from ..neighbours import Gap
    from .posterior import Pairs, SpeedBelief
    from .size import Size

MIN_EFFECT = 0.005
"""Smallest change of throughput worth an answer, as a fraction."""
RUNS_A_PAIR = 2
GOOD_END_PAIRS = 2
BAD_END_PAIRS = 2
SIZE_PAIRS = 8
"""Pairs of the bad endpoint at most for learning how large the change is, before anything is searched between."""
LEVEL_RATIO = 2
"""A build is not run more often than so many times the bad endpoint: it is compared with that level, and a level known
from a few pairs leaves a small loss and a large one open for as long.
"""
NEIGHBOUR_PAIRS = 2
HOPELESS_PAIRS = 40
"""Pairs of the bad endpoint after which a search that still cannot tell it from the good one ends undecided."""
AA_PAIRS = 4
AA_SIGNIFICANCE = 6.0
BUILD_SHARE = 0.05
_BATCHES = np.array([1, 2, 4, 8])


def next_step(
    problem: Problem,
    observations: Sequence[Observation],
    *,
    workers: int = 1,
    pending: Sequence[str] = (),
    min_effect: float = MIN_EFFECT,
) -> Step:
    """The next pair to run or the verdict; every run of a candidate is a pair with the baseline.

    Args:
        problem: as for the engine; `max_runs` counts pairs.
        observations: finished pairs; SKIP or an observation without a value says nothing.
        workers: how many pairs may start now.
        pending: candidates whose pairs are under way.
        min_effect: smallest change of throughput worth an answer, as a fraction.
    """
    line = speed_line(problem, observations, min_effect=min_effect)
    pairs = gather(line, kept(observations))
    state = _State(
        problem=problem,
        observations=observations,
        line=line,
        pairs=pairs,
        count=pairs.count(line.size),
        belief=infer_speed(line, pairs, min_effect=-math.log1p(-min_effect)),
        made=len(observations),
        min_effect=min_effect,
    )
    return (
        _equal_ends(state)
        or _endpoint(state, workers, pending)
        or _baseline_differs_from_itself(state)
        or _nothing_changes(state)
        or _size_unknown(state, workers)
        or _claim(state, workers)
        or _hidden_by_noise(state)
        or _most_informative(state, workers, pending)
    )


def useless(
    problem: Problem, observations: Sequence[Observation], pending: Sequence[str], *, min_effect: float = MIN_EFFECT
) -> tuple[str, ...]:
    """Every pending pair once there is a verdict; until then none, for each makes the noise better known."""
    step = next_step(problem, observations, min_effect=min_effect)
    return () if isinstance(step, Probe) else tuple(pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A search at one moment. `count` is the number of pairs per position, `made` all that were started."""

    problem: Problem
    observations: Sequence[Observation]
    line: Lineup
    pairs: Pairs
    count: IntArray
    belief: SpeedBelief
    made: int
    min_effect: float

    @property
    def posterior(self) -> Posterior:
        return posterior_of(self.problem, self.line, change=self.belief.change, none=self.belief.none)

    @property
    def unusable(self) -> frozenset[int]:
        return frozenset(int(position) for position in np.flatnonzero(silent(self.line.skips, self.count)))

    @property
    def over(self) -> bool:
        return self.made >= self.problem.max_runs

    def probe(self, positions: Sequence[int], reason: str) -> Probe:
        first, *others = (self.line.name(position) for position in positions)
        return Probe(candidate=first, also=tuple(others), reason=reason, posterior=self.posterior)

    def undecided(self, reason: str) -> Exhausted:
        suspects, confidence = credible(self.line, self.belief.change, confidence=self.problem.confidence)
        return Exhausted(suspects=suspects, confidence=confidence, posterior=self.posterior, reason=reason)


def _equal_ends(state: _State) -> Step | None:
    if state.line.size > 1:
        return None
    return unchanged(state.posterior, allowed_rate=0.0)


def _endpoint(state: _State, workers: int, pending: Sequence[str]) -> Step | None:
    line = state.line
    for end, claim in ((line.bad_end, "bad"), (line.good_end, "good")):
        if end in state.unusable and line.skips[end] >= NEIGHBOUR_PAIRS + 1:
            return Contradiction(
                endpoint=line.name(end),
                reason=f"the {claim} endpoint {line.name(end)} gave no throughput in {line.skips[end]} of "
                f"{line.skips[end] + state.count[end]} tries",
                posterior=state.posterior,
            )
    needs = ((line.bad_end, BAD_END_PAIRS), (line.good_end, GOOD_END_PAIRS))
    under_way = line.positions(pending)
    due = [end for end, pairs in needs for _ in range(pairs - int(state.count[end]) - under_way.count(end))]
    if not due:
        return None
    if state.over:
        return state.undecided(f"inconclusive: {state.made} pairs were made before both endpoints were measured")
    idle = told_of_idle(len(due), workers, "nothing else is run before both ends are measured")
    return state.probe(due[:workers], f"endpoints are measured first; pairs of the good one are the A/A noise{idle}")


def _baseline_differs_from_itself(state: _State) -> Exhausted | None:
    """A/A pairs that do not lie around 0 mean drift or an order effect as large as what is sought."""
    values = state.pairs.at(state.line.good_end)
    if values.size < AA_PAIRS or not state.pairs.at(state.line.bad_end).size:
        return None
    mean, spread = float(values.mean()), max(float(values.std(ddof=1)), 1e-4)
    at_bad_end = abs(float(np.median(state.pairs.at(state.line.bad_end))))
    if abs(mean) < AA_SIGNIFICANCE * spread / math.sqrt(values.size) or abs(mean) < max(
        state.min_effect, at_bad_end / 2
    ):
        return None
    return state.undecided(
        f"inconclusive: the baseline differs from itself by {percent(mean)} over {values.size} A/A pairs, "
        f"against {percent(float(np.median(state.pairs.at(state.line.bad_end))))} at the bad endpoint: drift, or the "
        "second run of a pair is not like the first"
    )


def _nothing_changes(state: _State) -> NoRegression | None:
    if state.belief.none < state.problem.confidence:
        return None
    values = state.pairs.at(state.line.bad_end)
    low = float(values.mean()) - 2.0 * state.belief.sigma / math.sqrt(values.size)
    return NoRegression(
        confidence=state.belief.none,
        allowed_rate=max(0.0, -math.expm1(low)),
        posterior=state.posterior,
        reason=f"no change of {100 * state.min_effect:.1f} % or more: the bad endpoint is at "
        f"{percent(float(values.mean()))} in {values.size} pairs, one pair is good to {100 * state.belief.sigma:.1f} %"
        + (f"; but {stalls}" if (stalls := stall_note(state.observations, state.problem.bad)) else ""),
    )


def _size_unknown(state: _State, workers: int) -> Probe | None:
    """A search that does not know how large the change is takes every unlucky pair for a small one."""
    end = state.line.bad_end
    low, middle, high = (abs(shift) for shift in state.belief.interval(confidence=0.8))
    known = min(low, high) >= middle / 2
    if known or state.over or state.count[end] >= SIZE_PAIRS:
        return None
    return state.probe([end] * workers, "how large the change is comes before where it is")


def _claim(state: _State, workers: int) -> Step | None:
    line, belief = state.line, state.belief
    usable = np.array([place for place in range(line.size) if place not in state.unusable], dtype=np.int64)
    rise, fall = (belief.slower, belief.faster) if line.rising else (belief.faster, belief.slower)
    gap = likeliest_gap(usable, rise=rise, fall=fall)
    if gap is None or gap.mass < state.problem.confidence:
        return None
    sides = (gap.newer, gap.older)
    due = [position for position in sides for _ in range(NEIGHBOUR_PAIRS - int(state.count[position]))]
    if due:
        idle = told_of_idle(len(due), workers, "nothing else is run before they have answered")
        return None if state.over else state.probe(due[:workers], f"both neighbours are confirmed before a claim{idle}")
    steps = find_steps(line, state.pairs, min_effect=-math.log1p(-state.min_effect))
    least = max(-math.log1p(-state.min_effect), abs(belief.interval()[1]) / 2)
    stretches = find_stretches(state.pairs, older=gap.older, newer=gap.newer, least=least)
    sure = gap.mass if stretches else min(gap.mass, steps.inside(gap.older, gap.newer))
    if sure < state.problem.confidence:
        thin = min((gap.older, gap.newer), key=lambda position: int(state.count[position]))
        reason = "a build between the ends may have a level of its own"
        return None if state.over else state.probe([thin] * workers, reason)
    size = size_of(line, state.pairs, belief, steps, older=gap.older, newer=gap.newer, stretches=stretches)
    if doubt := drift_doubt(state.observations, shift=size.middle, sigma=size.sigma):
        return state.undecided(f"inconclusive: {doubt}")
    other = tell(line, stretches) or another_step(line, steps, gap.older, gap.newer)
    notes = (*_notes(state, gap, size), *([other] if other else []))
    gap = replace(gap, mass=sure)
    return answer(line, gap, posterior=state.posterior, notes=notes, untested="gave no throughput")


def _notes(state: _State, gap: Gap, size: Size) -> tuple[str, ...]:
    notes = [str(size)]
    if gap.rising is not state.line.rising:
        notes.append("the order is reversed: the end claimed to be slow is the faster one")
    if stalls := stall_note(state.observations, state.problem.bad):
        notes.append(stalls)
    return (*notes, *told(state.line))


def _hidden_by_noise(state: _State) -> Exhausted | None:
    at_bad_end = int(state.count[state.line.bad_end])
    undecided = at_bad_end >= HOPELESS_PAIRS and state.belief.none > 1.0 - state.problem.confidence
    if not state.over and not undecided:
        return None
    values = state.pairs.at(state.line.bad_end)
    if state.over and not undecided:
        return state.undecided(f"inconclusive: {state.made} pairs were made, {state.problem.max_runs} allowed")
    return state.undecided(
        f"inconclusive after {state.made} pairs: the bad endpoint is at {percent(float(values.mean()))} in "
        f"{values.size} pairs, and one pair is good to {100 * state.belief.sigma:.1f} % only"
    )


def _most_informative(state: _State, workers: int, pending: Sequence[str]) -> Probe:
    """Most information per cost; the positions of one round are kept apart by what the earlier ones will tell."""
    line, belief = state.line, state.belief
    moved = np.concatenate([[0.0], np.cumsum(belief.change)])
    chance = moved if line.rising else belief.change.sum() - moved
    distance = float(np.abs(belief.shift) @ belief.shift_mass) / belief.sigma
    gain = channel_information(chance, distance * np.sqrt(_BATCHES))
    waiting = line.positions(pending)
    chosen: list[int] = []
    for _ in range(workers):
        taken = [*waiting, *chosen]
        build = np.where(line.cached, 0.0, BUILD_SHARE * state.problem.build_cost)
        build[taken] = 0.0
        cost = build[:, None] + RUNS_A_PAIR * state.problem.run_cost * _BATCHES
        value = (gain / cost).max(axis=1) * _apart(taken, chance)
        value[list(state.unusable)] = -np.inf
        best = int(np.argmax(value))
        if state.count[best] >= max(SIZE_PAIRS, LEVEL_RATIO * state.count[line.bad_end]):
            best = line.bad_end
        chosen.append(best)
    return state.probe(chosen, "the most information per cost")


def _apart(taken: Sequence[int], chance: np.ndarray) -> np.ndarray:
    """What is left of a position's value beside the taken ones: nothing at them, all far away in probability."""
    left = np.ones(chance.size)
    for position in taken:
        left *= np.minimum(1.0, 0.1 + 3.0 * np.abs(chance - chance[position]))
    return left
