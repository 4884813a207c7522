"""What the runs say about sets of differences: which one, which pair or triple, which of two, or none of them.

A hypothesis names the sets that bring the failure in. `ALL` of its members together do (a single is the smallest
case), or `ANY` of two does. An environment that holds such a set fails with one unknown rate, every other with a
lower one; both rates are integrated out on the grid that the search over builds uses. The likelihood depends on a
hypothesis only through the failures and passes of the environments that it says are bad, so hypotheses with the
same two counts share a row, and twenty thousand of them cost no more than a few dozen.

    P(h | runs)  ~  prior(h) * sum over (low, high) of prior(low, high)
                    * high^F_in (1-high)^P_in * low^F_out (1-low)^P_out
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..engine.posterior import rate_prior

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

PRIOR_NONE = 0.2
PRIOR_SINGLE, PRIOR_PAIR, PRIOR_EITHER, PRIOR_TRIPLE = 0.58, 0.32, 0.04, 0.06
MAX_ITEMS_FOR_TRIPLES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypotheses:
    """All the explanations considered.

    Attributes:
        members: one row a hypothesis, item indices, the last one repeated to fill three columns.
        any_of: whether one member suffices (two independent culprits).
        prior: probability of each, `none` aside.
        num_items: how many differences there are.
    """

    members: IntArray
    any_of: BoolArray
    prior: FloatArray
    num_items: int

    def triggered(self, sets: BoolArray) -> BoolArray:
        """For each set (rows of item flags), whether each hypothesis says that it is bad."""
        first, second, third = (sets[:, column] for column in self.members.T)
        return np.asarray(np.where(self.any_of, first | second, first & second & third))

    def names(self, index: int, items: Sequence[str]) -> tuple[str, ...]:
        """The members of one hypothesis by name, in order."""
        return tuple(items[i] for i in sorted({int(i) for i in self.members[index]}))


def enumerate_hypotheses(weights: Sequence[float]) -> Hypotheses:
    """Singles, pairs (both, or either) and, among few items, triples; weights say which items are likelier."""
    return _enumerate(tuple(weights))


@cache
def _enumerate(weights: tuple[float, ...]) -> Hypotheses:
    count, w = len(weights), np.asarray(weights, dtype=np.float64)
    singles = np.repeat(np.arange(count)[:, None], 3, axis=1)
    pairs = np.asarray([(i, j, j) for i, j in combinations(range(count), 2)], dtype=np.int64).reshape(-1, 3)
    few = count <= MAX_ITEMS_FOR_TRIPLES
    triples = np.asarray(list(combinations(range(count), 3)) if few else [], dtype=np.int64).reshape(-1, 3)
    parts = [
        (singles, False, PRIOR_SINGLE, w),
        (pairs, False, PRIOR_PAIR, w[pairs[:, 0]] * w[pairs[:, 1]]),
        (pairs, True, PRIOR_EITHER, w[pairs[:, 0]] * w[pairs[:, 1]]),
        (triples, False, PRIOR_TRIPLE, np.prod(w[triples], axis=1)),
    ]
    parts = [part for part in parts if len(part[0])]
    prior = np.concatenate([share * weight / weight.sum() for _, _, share, weight in parts])
    return Hypotheses(
        members=np.concatenate([members for members, *_ in parts]),
        any_of=np.concatenate([np.full(len(members), either) for members, either, *_ in parts]),
        prior=prior / prior.sum(),
        num_items=count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The runs, by environment: item flags (one row a set), failures and passes of each."""

    sets: BoolArray
    failures: IntArray
    passes: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """How likely each explanation is.

    Attributes:
        mass: probability of each hypothesis.
        none: probability that no difference matters.
    """

    hypotheses: Hypotheses
    mass: FloatArray
    none: float

    def marginals(self) -> FloatArray:
        """Probability of each item to be part of the explanation."""
        total = np.zeros(self.hypotheses.num_items)
        members = self.hypotheses.members
        total += np.bincount(members[:, 0], self.mass, minlength=len(total))
        for column in (1, 2):
            new = members[:, column] != members[:, column - 1]
            total += np.bincount(members[new, column], self.mass[new], minlength=len(total))
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBelief(Explanations):
    """Everything the runs say.

    Attributes:
        row: for each hypothesis, its row in `low` and `high`.
        low: per row, distribution of the failure rate without the culprit.
        high: per row, distribution with it.
        same: distribution of the one rate if no difference matters.
        evidence: log of the probability of the runs, all explanations and "none" together.
    """

    row: IntArray
    low: FloatArray
    high: FloatArray
    same: FloatArray
    evidence: float


def infer(hypotheses: Hypotheses, tally: Tally) -> SetBelief:
    """The posterior over the hypotheses and, under each, over the two failure rates.

    No more prior mass on a clean low side than the rates' prior has: 60 % there makes a search for one at .3/0 shorter
    by a tenth, and one for a pair at .3/.05 wrong in 6 of 50 (in 0 of 50 without it).
    """
    prior = rate_prior()
    inside = hypotheses.triggered(tally.sets)
    fail_in, pass_in = tally.failures @ inside, tally.passes @ inside
    span = int(tally.passes.sum()) + 1
    keys, row = np.unique(fail_in * span + pass_in, return_inverse=True)
    high_weight, low_weight, evidence = _rows(keys // span, keys % span, tally)
    total = _log_rate(np.asarray([tally.failures.sum()]), np.asarray([tally.passes.sum()]))[0]
    top = max(float(evidence.max(initial=-np.inf)), float(total.max()))
    mass = (1.0 - PRIOR_NONE) * hypotheses.prior * np.exp(evidence - top)[row]
    same = prior.same * np.exp(total - top)
    norm = mass.sum() + PRIOR_NONE * same.sum()
    return SetBelief(
        hypotheses=hypotheses,
        mass=mass / norm,
        none=float(PRIOR_NONE * same.sum() / norm),
        row=row,
        low=low_weight,
        high=high_weight,
        same=same / same.sum(),
        evidence=top + float(np.log(norm)),
    )


def _rows(fail_in: IntArray, pass_in: IntArray, tally: Tally) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rate distributions (high, low) and log evidence of each pair of counts."""
    pair = rate_prior().pair
    high = _log_rate(fail_in, pass_in)
    low = _log_rate(int(tally.failures.sum()) - fail_in, int(tally.passes.sum()) - pass_in)
    scale_high, scale_low = high.max(axis=1, keepdims=True), low.max(axis=1, keepdims=True)
    high, low = np.exp(high - scale_high), np.exp(low - scale_low)
    joint_high, joint_low = high * (low @ pair), low * (high @ pair.T)
    evidence = np.log(joint_high.sum(axis=1)) + (scale_high + scale_low)[:, 0]
    return _normal(joint_high), _normal(joint_low), evidence


def _log_rate(failures: IntArray, passes: IntArray) -> FloatArray:
    rates = rate_prior().rates
    return np.asarray(np.outer(failures, np.log(rates)) + np.outer(passes, np.log1p(-rates)))


def _normal(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bayes_factor(inside: BoolArray, tally: Tally, *, of: int) -> float:
    """How much better one environment's runs fit the high rate than the low one.

    Args:
        inside: which environments hold the failing set.
        tally: all runs.
        of: index of the environment that is judged; its own runs do not set the two rates.
    """
    others = np.arange(len(inside)) != of
    fail_in = np.asarray([tally.failures[inside & others].sum()])
    pass_in = np.asarray([tally.passes[inside & others].sum()])
    rest = Tally(sets=tally.sets[others], failures=tally.failures[others], passes=tally.passes[others])
    high, low, _ = _rows(fail_in, pass_in, rest)
    own = np.exp(_log_rate(tally.failures[of : of + 1], tally.passes[of : of + 1]))[0]
    return float((high[0] @ own) / max(low[0] @ own, 1e-300))
