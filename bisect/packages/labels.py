"""Which mixes fail by their own runs, whatever explains it; and whether any explanation of the differences does.

Each mix between the ends is bad or not for itself, one as likely as the other, and all share the two rates:

    P(runs)  ~  sum over (low, high) of prior(low, high) * high^F (1-high)^P of everything * low^F (1-low)^P of nothing
                * product over the other mixes of (their likelihood at high + at low) / 2

A true explanation names every mix rightly, and is 2 times likelier than this for each. One that is wrong of a mix loses
with each of its runs, until only this is left: then no set, and no choice of two members, brings the failure in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..engine.posterior import rate_prior

if TYPE_CHECKING:
    from .belief import FloatArray, SetBelief, Tally

PRIOR_UNEXPLAINED = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the runs say of each mix for itself.

    Attributes:
        fails: for each mix of the tally, the probability that it is bad.
        evidence: log of P(runs), on the scale of `SetBelief.evidence`.
    """

    fails: FloatArray
    evidence: float

    def unexplained(self, belief: SetBelief) -> float:
        """The probability that none of the explanations is true."""
        odds = math.log(PRIOR_UNEXPLAINED / (1.0 - PRIOR_UNEXPLAINED)) + self.evidence - belief.evidence
        return float(1.0 / (1.0 + np.exp(-odds)))


def label(tally: Tally) -> Labels:
    """Judge every mix for itself; everything is bad and nothing is good, as the search has found."""
    prior = rate_prior()
    at = np.outer(tally.failures, np.log(prior.rates)) + np.outer(tally.passes, np.log1p(-prior.rates))
    low, high = at[:, :, None], at[:, None, :]
    everything = np.asarray(tally.sets.all(axis=1))
    nothing = ~np.asarray(tally.sets.any(axis=1))
    either = np.logaddexp(low, high) - math.log(2.0)
    named = np.where(everything[:, None, None], high, np.where(nothing[:, None, None], low, either))
    with np.errstate(divide="ignore"):
        joint = named.sum(axis=0) + np.log(prior.pair)
    top = float(joint.max())
    weights = np.exp(joint - top)
    odds = 1.0 / (1.0 + np.exp(np.clip(low - high, -700.0, 700.0)))
    fails = (odds * weights).sum(axis=(1, 2)) / weights.sum()
    return Labels(
        fails=np.where(everything, 1.0, np.where(nothing, 0.0, fails)),
        evidence=top + math.log(float(weights.sum())),
    )
