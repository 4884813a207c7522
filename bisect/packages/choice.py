"""Which mix to run next: the one that tells most about the explanation per cost.

Candidates are prefixes of several orders of the items (likeliest first, complement, random), cut where they split
the remaining probability, the mixes that exist already, and the mixes a claim would have to run anyway. The gain of
m runs of a mix is the mutual information between the explanation and the number of failures; looking ahead over m
makes a rare failure worth an environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.special import entr, gammaln

from ..engine.posterior import rate_prior
from . import Purpose
from .belief import BoolArray  # noqa: TC001  (the annotations of a dataclass are looked up)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import SetProblem
    from .belief import Explanations, FloatArray, Hypotheses, IntArray, SetBelief
    from .room import Room

Gain: TypeAlias = "Callable[[BoolArray], tuple[FloatArray, FloatArray]]"
BATCHES = (1, 4, 12)
RATES_SHARE = 0.02
BUILD_SHARE = 1.0
"""A build is priced at this part of its cost inside the rule: looking ahead one mix undervalues a new one."""
NEGLIGIBLE_GAIN = 1e-4
ORDERS = 6
CUTS = (0.35, 0.5, 0.65)
LIKELY = 4


def choose(
    problem: SetProblem, room: Room, belief: Explanations, *, gain: Gain, costs: Sequence[float] = BATCHES
) -> BoolArray | None:
    """The next mix; None when no mix that can be built tells anything.

    Args:
        problem: the question.
        room: the mixes.
        belief: what is known of the explanation.
        gain: for some mixes (rows), nats that batches of runs (columns) tell of the explanation, and of the rates.
        costs: runs of each batch.
    """
    candidates = _candidates(problem, room, belief)
    chance = room.chance_to_build(candidates)
    tells, about_rates = gain(candidates)
    if float((tells.max(axis=1, initial=0.0) * chance).max(initial=0.0)) < NEGLIGIBLE_GAIN:
        return None
    worth = tells + RATES_SHARE * about_rates
    score = (worth / _price(problem, room, belief, candidates, costs)).max(axis=1) * chance
    return np.asarray(candidates[int(score.argmax())])


def _price(
    problem: SetProblem, room: Room, belief: Explanations, candidates: BoolArray, costs: Sequence[float]
) -> FloatArray:
    """Cost of each batch at each candidate; what the claim needs anyway is discounted by how likely it is needed."""
    exists = (candidates[:, None] == room.sets).all(axis=2).any(axis=1)
    needed = np.zeros(len(candidates))
    for index in np.argsort(-belief.mass)[:LIKELY]:
        wanted = [mix for check in confirmations(room, belief.hypotheses, int(index)) for mix in check.mixes]
        needed[(candidates[:, None] == np.asarray(wanted)).all(axis=2).any(axis=1)] += float(belief.mass[index])
    build = BUILD_SHARE * problem.build_cost * (1.0 - np.minimum(needed, 0.9)) * ~exists
    return np.asarray(build[:, None] + problem.run_cost * np.asarray(costs, dtype=np.float64)[None, :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing a claim rests on: a mix that must (or must not) fail; any one of `mixes` shows it."""

    purpose: Purpose
    mixes: tuple[BoolArray, ...]
    fails: bool


def confirmations(room: Room, hypotheses: Hypotheses, index: int) -> list[Check]:
    """What a claim of one explanation rests on.

    All of the members: the set alone fails, and without any one member (from everything, or from the set) it
    does not. Any of two: each alone fails, and everything without both does not.
    """
    members = sorted({int(i) for i in hypotheses.members[index]})
    places, everything = np.arange(len(room.items)), np.ones(len(room.items), dtype=np.bool_)
    alone = [room.with_needed(places == member) for member in members]
    if hypotheses.any_of[index]:
        rest = everything & ~np.logical_or.reduce([room.needs[:, member] for member in members])
        forward = [Check(purpose=Purpose.FORWARD, mixes=(mix,), fails=True) for mix in alone]
        return [*forward, Check(purpose=Purpose.REVERSE, mixes=(rest,), fails=False)]
    together = np.logical_or.reduce(alone)
    reverse = [
        (room.without(everything, m), *((room.without(together, m),) if len(members) > 1 else ())) for m in members
    ]
    return [
        Check(purpose=Purpose.FORWARD, mixes=(together,), fails=True),
        *(Check(purpose=Purpose.REVERSE, mixes=mixes, fails=False) for mixes in reverse),
    ]


def _candidates(problem: SetProblem, room: Room, belief: Explanations) -> BoolArray:
    """Mixes worth weighing, each applicable, none known to be unbuildable."""
    mixes = [*room.sets, *_prefixes(room, belief)]
    for index in np.argsort(-belief.mass)[:LIKELY]:
        mixes.extend(mix for check in confirmations(room, belief.hypotheses, int(index)) for mix in check.mixes)
    whole = np.unique(np.asarray([room.with_needed(mix) for mix in mixes]), axis=0)
    whole = _keep_families(problem, room, belief, whole)
    broken = room.sets[room.broken]
    if broken.size:
        whole = whole[~(whole[:, None, :] == broken[None]).all(axis=2).any(axis=1)]
    return whole


def _keep_families(problem: SetProblem, room: Room, belief: Explanations, mixes: BoolArray) -> BoolArray:
    """Apply a family whole or not at all, unless the explanation lies inside it or among the mixes already run."""
    marginal = belief.marginals()
    whole = mixes.copy()
    for family in problem.families:
        flags = room.flags(family)
        if marginal[flags].sum() < 0.5 * marginal.sum():
            whole[:, flags] = (mixes[:, flags].mean(axis=1) > 0.5)[:, None]
    return np.unique(np.concatenate([whole, room.sets]), axis=0)


def _prefixes(room: Room, belief: Explanations) -> list[BoolArray]:
    """Prefixes of item orders, cut where the probability that the mix is bad crosses each of `CUTS`."""
    count = len(room.items)
    random = np.random.default_rng([count, int(room.runs.sum())])
    marginal = belief.marginals()
    shaken = marginal * np.exp(0.2 * random.standard_normal(count))
    likeliest = np.argsort(-shaken)
    orders = [likeliest, likeliest[::-1]]
    for turn in range(ORDERS):
        rest = random.permutation(count)
        first = likeliest[: turn % 3]
        orders.append(np.concatenate([first, rest[~np.isin(rest, first)]]))
    places = [np.argsort(order) for order in orders]
    return [place < size for place in places for size in _cuts(belief, place)]


def _cuts(belief: Explanations, place: IntArray) -> list[int]:
    """Lengths of the prefix at which the probability of a bad mix first reaches each cut."""
    held = place[belief.hypotheses.members]
    length = np.where(belief.hypotheses.any_of, held.min(axis=1), held.max(axis=1)) + 1
    reached = np.cumsum(np.bincount(length, belief.mass, minlength=len(place) + 1))
    total = float(reached[-1])
    sizes = {int(np.searchsorted(reached, cut * total)) for cut in CUTS}
    return sorted(size + extra for size in sizes for extra in (0, -1) if 0 < size + extra < len(place))


def gains(belief: SetBelief, candidates: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Expected gain (nats) of each batch size (columns) at each candidate (rows).

    About the explanation, and on top of it about the two rates: a search that is paid for the first alone starves
    the rates it needs later.
    """
    outcome, columns, given_rate = _outcomes()
    high, low, same = belief.high @ outcome, belief.low @ outcome, belief.same @ outcome
    inside = belief.hypotheses.triggered(candidates)
    rows = len(belief.high)
    mass_in = np.stack([np.bincount(belief.row, belief.mass * hit, minlength=rows) for hit in inside])
    mass_out = np.bincount(belief.row, belief.mass, minlength=rows)[None, :] - mass_in
    mixture = _entropies(mass_in @ high + mass_out @ low + belief.none * same, columns)
    known = mass_in @ _entropies(high, columns) + mass_out @ _entropies(low, columns)
    known += belief.none * _entropies(same, columns)
    rates = mass_in @ (belief.high @ given_rate) + mass_out @ (belief.low @ given_rate)
    rates += belief.none * (belief.same @ given_rate)
    return np.asarray(mixture - known), np.asarray(known - rates)


def _entropies(distribution: FloatArray, columns: tuple[slice, ...]) -> FloatArray:
    terms = entr(distribution)
    return np.stack([terms[..., part].sum(axis=-1) for part in columns], axis=-1)


@cache
def _outcomes() -> tuple[FloatArray, tuple[slice, ...], FloatArray]:
    """P(number of failures | rate) of all batches side by side, each batch's columns, entropy given the rate."""
    rates, tables = rate_prior().rates[:, None], []
    for batch in BATCHES:
        count = np.arange(batch + 1)
        ways = gammaln(batch + 1) - gammaln(count + 1) - gammaln(batch - count + 1)
        tables.append(np.exp(ways + count * np.log(rates) + (batch - count) * np.log1p(-rates)))
    ends = np.cumsum([table.shape[1] for table in tables])
    columns = tuple(slice(int(end) - table.shape[1], int(end)) for end, table in zip(ends, tables, strict=True))
    given_rate = np.stack([entr(table).sum(axis=1) for table in tables], axis=1)
    return np.concatenate(tables, axis=1), columns, given_rate
