"""What interleaved pairs say about sets of differences: which one, pair or triple brings a loss of throughput in.

A value is log(mix / good environment) of two adjacent runs. A mix that holds the slow set lies around one unknown
shift, every other mix around 0; shift and noise are integrated out on grids, and the noise is Student's t, because one
preempted run must not decide. Hypotheses that say the same of every mix that was run share a row.

    P(h | pairs)  ~  prior(h) * sum over (shift, sigma) of prior(shift)
                     * prod t(value; shift, sigma) over mixes with the set * prod t(value; 0, sigma) over the others
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from ..throughput.posterior import DEGREES, LARGEST_SHIFT
from .belief import Explanations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .belief import BoolArray, FloatArray, Hypotheses, IntArray

_SIGMAS = np.geomspace(2e-4, 0.5, 26)
_COARSE, _FINE = 18, 25


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTally:
    """The pairs, by mix: item flags (one row a mix) and the values of each."""

    sets: BoolArray
    values: tuple[FloatArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSpeeds(Explanations):
    """Everything the pairs say, given that the bad end is slower.

    Attributes:
        row: for each hypothesis, its row in `joint`.
        joint: per row, distribution over (shift, sigma), flattened.
        distance: mean of |shift| / sigma, how far a slow pair lies from a fast one.
        still: per mix, log-likelihood of its values at (0, sigma), spread over the same grid.
        moved: per mix, the same at (shift, sigma).
    """

    row: IntArray
    joint: FloatArray
    distance: float
    still: FloatArray
    moved: FloatArray

    def fit(self, hypothesis: int, *, inside: BoolArray, of: int) -> float:
        """How many times better the values of mix `of` fit the slow level than the fast one.

        The two levels and the noise are as all the other mixes have them under the hypothesis; `inside` tells which
        mixes it calls slow.
        """
        here = self.moved[of] if inside[of] else self.still[of]
        others = np.log(np.maximum(self.joint[self.row[hypothesis]], 1e-300)) - here
        slow, fast = others + self.moved[of], others + self.still[of]
        top = max(float(slow.max()), float(fast.max()))
        return float(np.exp(slow - top).sum() / max(float(np.exp(fast - top).sum()), 1e-300))


def infer_speeds(
    hypotheses: Hypotheses, tally: SpeedTally, *, at_bad_end: FloatArray, min_effect: float, none: float
) -> SetSpeeds:
    """The posterior over the hypotheses, the shift and the noise.

    Args:
        hypotheses: the explanations.
        tally: all pairs.
        at_bad_end: values with every difference applied, at least two.
        min_effect: smallest loss that matters, in log units.
        none: probability that nothing is slower, as the comparison of the two ends has it.
    """
    shift, prior = _shifts(at_bad_end, min_effect)
    still = _table(tally.values, np.zeros(1))
    moved = _table(tally.values, shift)
    still = np.repeat(still, shift.size, axis=1)
    still, moved = (table.reshape(len(tally.values), -1) for table in (still, moved))
    inside = hypotheses.triggered(tally.sets)
    patterns, row = np.unique(inside.T, axis=0, return_inverse=True)
    log_joint = np.repeat(np.log(prior), _SIGMAS.size) + still.sum(axis=0) + patterns @ (moved - still)
    scale = log_joint.max(axis=1)
    joint = np.exp(log_joint - scale[:, None])
    evidence = joint.sum(axis=1)
    mass = hypotheses.prior * (evidence * np.exp(scale - scale.max()))[row]
    mass /= mass.sum()
    joint /= evidence[:, None]
    far = np.abs(np.repeat(shift, _SIGMAS.size)) / np.tile(_SIGMAS, shift.size)
    by_row = np.bincount(row, mass, minlength=len(patterns))
    return SetSpeeds(
        hypotheses=hypotheses,
        mass=mass * (1.0 - none),
        none=none,
        row=row.astype(np.int64),
        joint=joint,
        distance=float(by_row @ joint @ far),
        still=still,
        moved=moved,
    )


def _shifts(at_bad_end: FloatArray, min_effect: float) -> tuple[FloatArray, FloatArray]:
    """Losses as negative shifts with their prior, flat in log |shift|; a fine stretch around what the bad end shows."""
    coarse = np.geomspace(min_effect, LARGEST_SHIFT, _COARSE)
    middle, spread = -float(np.median(at_bad_end)), float(at_bad_end.std(ddof=1)) + 2e-4
    around = middle + np.linspace(-4, 4, _FINE) * spread / np.sqrt(at_bad_end.size)
    size = np.unique(np.concatenate([coarse, around[around >= min_effect]]))
    weight = np.gradient(size) / size
    return -size, weight / weight.sum()


def _table(values: Sequence[FloatArray], shift: FloatArray) -> FloatArray:
    """Log-likelihood of each mix's values for every shift and noise: (mix, shift, sigma)."""
    constant = gammaln((DEGREES + 1) / 2) - gammaln(DEGREES / 2) - 0.5 * np.log(DEGREES * np.pi)
    rows = []
    for each in values:
        off = (each[:, None, None] - shift[None, :, None]) / _SIGMAS
        density = constant - np.log(_SIGMAS) - (DEGREES + 1) / 2 * np.log1p(off**2 / DEGREES)
        rows.append(density.sum(axis=0))
    return np.asarray(rows)
