"""What the runs say: the probability of each change point, of no change, and of the two failure rates.

Every position older than the change point fails with one unknown rate and every other position with another; both
are integrated out on a grid, for both directions. With counts S, F (failures, passes) on either side,

    P(change at k | runs)  ~  prior(k) * sum over (low, high) of  prior(low, high)
                              * low^S_old (1-low)^F_old * high^S_new (1-high)^F_new    (rise; a fall swaps them)

and the double sum is a matrix product, because the prior on the pair is the only thing that ties the rates together.
Positions never run do not change the sums, so change points between two run positions share one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..lineup import FloatArray, IntArray, Lineup


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePrior:
    """Prior of the failure rates on one grid.

    Attributes:
        rates: the grid, ascending, inside (0, 1).
        pair: probability of (low side, high side), zero unless the high side is clearly higher.
        same: probability of the one rate of all positions when nothing changes.
    """

    rates: FloatArray
    pair: FloatArray
    same: FloatArray


PRIOR_NONE = 0.1
PRIOR_CLAIMED = 0.97
"""Of the change, the part that goes the way the endpoints claim."""
CLOSE = 0.25
"""Of the cautious pair's probability, the part on rates that lie close together."""
PRIOR_CLEAN = 0.3
"""Of all low sides, the part that fails practically never; the others fail at some fraction of the high side's rate."""


@cache
def ordered_prior() -> RatePrior:
    """The one prior of every search along an order: nearly flat on the high side, the low side clean or a fraction.

    Neither kind of low side is rare, so a clean one is soon believed, and one that fails a fifth as often as the high
    side is too once a few of its runs have failed.
    """
    return _prior(clean=PRIOR_CLEAN, fraction_power=-0.3, certain_power=-0.5)


@cache
def cautious_pair() -> FloatArray:
    """Probability of (low side, high side) that an answer has to survive: part of it on rates that lie close together.

    There the low side fails about half as often as the high one. The ordinary prior is quick to believe in a clean low
    side: 0 of 19 beside 5 of 10 would settle a search whose rates are .1 and .05; and quick to hold such rates for one:
    a third of those searches would end as `nothing changes`. Log-uniform in the high rate, because close rates are as
    hard to tell at .05 as at .5.
    """
    close = _prior(clean=0.0, fraction_power=2.0, certain_power=0.0, high_power=-1.0, least_odds=1.0, least_gap=0.0)
    return (1.0 - CLOSE) * ordered_prior().pair + CLOSE * close.pair


@cache
def rate_prior() -> RatePrior:
    """The prior of the search for a set, where most probed sets lie on the low side: a low rate near 0 is favoured."""
    return _prior(clean=0.0, fraction_power=-0.5, certain_power=-0.3)


def _prior(
    *,
    clean: float,
    fraction_power: float,
    certain_power: float,
    high_power: float = -0.3,
    least_odds: float = 1.8,
    least_gap: float = 0.03,
) -> RatePrior:
    """Low given high: `clean` at the lowest rate, the rest as fraction ** fraction_power * (1 - fraction) ** 2.

    The high rate is distributed as rate ** high_power * (1 - rate) ** certain_power. Pairs whose odds ratio or
    difference is below the least have no probability.
    """
    edges = np.concatenate(
        [
            [0.0, 0.002, 0.006, 0.012, 0.02],
            np.arange(0.03, 0.12, 0.015),
            np.arange(0.12, 0.9, 0.04),
            [0.92, 0.95, 0.975, 0.99, 1.0],
        ]
    )
    rates = (edges[:-1] + edges[1:]) / 2
    rates[0], rates[-1] = 0.0004, 0.9985
    width = np.diff(edges)
    low, high = rates[:, None], rates[None, :]
    fraction = np.minimum(low / high, 1.0 - 1e-9)
    given_high = width[:, None] * fraction**fraction_power * (1.0 - fraction) ** 2
    given_high *= (1.0 - clean) / given_high.sum(axis=0)
    given_high[0] += clean
    apart = (low / (1 - low) * least_odds <= high / (1 - high)) & (low + least_gap <= high)
    pair = given_high * width * rates**high_power * (1 - rates) ** certain_power * apart
    same = width * rates**-0.5 * (1 - rates) ** -0.3
    return RatePrior(rates=rates, pair=pair / pair.sum(), same=same / same.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Change points of one direction, grouped: row r holds the change points that no run so far tells apart.

    Attributes:
        mass: probability of each change point (index k - 1 for the change at position k).
        old: per row, distribution of the failure rate of the positions before the change.
        new: per row, distribution of the failure rate of the positions from the change on.
    """

    mass: FloatArray
    old: FloatArray
    new: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """Everything the runs say.

    Attributes:
        rates: the grid of the rate distributions.
        row: for each change point, its row in `rise` and `fall`.
        rise: change points with the failing side new.
        fall: change points with the failing side old.
        none: probability that nothing changes.
        same: distribution of the failure rate if nothing changes.
    """

    rates: FloatArray
    row: IntArray
    rise: Direction
    fall: Direction
    none: float
    same: FloatArray

    @property
    def change(self) -> FloatArray:
        """Probability of each change point, both directions together."""
        return self.rise.mass + self.fall.mass

    @property
    def none_at_even_odds(self) -> float:
        """Probability of no change for someone who held it as likely as a change before the first run."""
        weighed = self.none * (1.0 - PRIOR_NONE) / PRIOR_NONE
        return weighed / (weighed + 1.0 - self.none)


def infer(lineup: Lineup, pair: FloatArray | None = None) -> Belief:
    """The posterior over change points, directions and rates.

    `pair`: another prior of (low side, high side) than the ordinary one.
    """
    prior = ordered_prior() if pair is None else replace(ordered_prior(), pair=pair)
    log_fail, log_pass = np.log(prior.rates), np.log1p(-prior.rates)
    row, old, new, scale = _sides(lineup, log_fail, log_pass)
    total = lineup.failures.sum() * log_fail + lineup.passes.sum() * log_pass
    top = max(float(scale.max(initial=-np.inf)), float(total.max()))
    weight = np.exp(scale - top)
    same = prior.same * np.exp(total - total.max())
    rise_old, rise_new = old * (new @ prior.pair.T), new * (old @ prior.pair)
    fall_old, fall_new = old * (new @ prior.pair), new * (old @ prior.pair.T)
    per_point = (1.0 - PRIOR_NONE) / max(1, lineup.size - 1)
    share_rise = PRIOR_CLAIMED if lineup.rising else 1.0 - PRIOR_CLAIMED
    rise_mass = (per_point * share_rise * weight * rise_old.sum(axis=1))[row] * lineup.prior
    fall_mass = (per_point * (1.0 - share_rise) * weight * fall_old.sum(axis=1))[row] * lineup.prior
    none_mass = (PRIOR_NONE if lineup.size > 1 else 1.0) * same.sum() * np.exp(total.max() - top)
    norm = rise_mass.sum() + fall_mass.sum() + none_mass
    return Belief(
        rates=prior.rates,
        row=row,
        rise=Direction(mass=rise_mass / norm, old=_normal(rise_old), new=_normal(rise_new)),
        fall=Direction(mass=fall_mass / norm, old=_normal(fall_old), new=_normal(fall_new)),
        none=float(none_mass / norm),
        same=same / same.sum(),
    )


def _sides(
    lineup: Lineup, log_fail: FloatArray, log_pass: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Row of each change point; per row the likelihoods of older and newer positions by rate, and their scale."""
    row, old_fail, old_pass = _rows(lineup)
    new_fail, new_pass = int(lineup.failures.sum()) - old_fail, int(lineup.passes.sum()) - old_pass
    old, old_scale = _scaled(np.outer(old_fail, log_fail) + np.outer(old_pass, log_pass))
    new, new_scale = _scaled(np.outer(new_fail, log_fail) + np.outer(new_pass, log_pass))
    return row, old, new, old_scale + new_scale


def _rows(lineup: Lineup) -> tuple[IntArray, IntArray, IntArray]:
    """Row of each change point, and the failures and passes before the change for each row."""
    seen = lineup.runs[:-1] > 0
    row = np.cumsum(seen, dtype=np.int64) - int(seen[0] if seen.size else 0)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    return row, np.cumsum(lineup.failures[:-1])[first], np.cumsum(lineup.passes[:-1])[first]


def _scaled(log_likelihood: FloatArray) -> tuple[FloatArray, FloatArray]:
    scale = log_likelihood.max(axis=1, initial=-np.inf)
    return np.exp(log_likelihood - scale[:, None]), scale


def _normal(weights: FloatArray) -> FloatArray:
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > 0.0, total, 1.0))
