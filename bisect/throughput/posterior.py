"""What interleaved pairs say about a loss of throughput: where it begins, how large it is, how noisy pairs are.

A value is log(candidate / baseline) of two adjacent runs; the baseline is the good endpoint, so its own values are
A/A pairs and lie around 0. From the change on, values lie around one unknown shift. Shift and noise are integrated
out on grids; the noise is Student's t with few degrees of freedom, because one preempted run must not decide.

    value ~ t(0, sigma)       on the good endpoint's side of the change
    value ~ t(shift, sigma)   on the other side
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import FloatArray, IntArray, Lineup

DEGREES = 10.0
PRIOR_NONE = 0.3
PRIOR_CLAIMED = 0.9
"""Of the change, the part in which the claimed bad end is the slower one."""
LARGEST_SHIFT = 1.5
SIGMAS = np.geomspace(2e-4, 0.5, 26)
"""Grid of the noise of one pair, as a log ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Values per position, in the order of the line-up."""

    positions: IntArray
    values: FloatArray

    def at(self, position: int) -> FloatArray:
        return np.asarray(self.values[self.positions == position])

    def count(self, size: int) -> IntArray:
        return np.bincount(self.positions, minlength=size).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedBelief:
    """Everything the pairs say.

    Attributes:
        slower: per change point (index k - 1 for position k), probability with the claimed bad side slower.
        faster: the same with the claimed bad side faster.
        none: probability of no shift of `min_effect` or more.
        shift: grid of shifts, and `shift_mass` its posterior given a change.
        sigma: posterior mean of the noise of one pair.
    """

    slower: FloatArray
    faster: FloatArray
    none: float
    shift: FloatArray
    shift_mass: FloatArray
    sigma: float

    @property
    def change(self) -> FloatArray:
        """Probability of each change point, both signs together."""
        return np.asarray(self.slower + self.faster)

    def interval(self, *, confidence: float = 0.95) -> tuple[float, float, float]:
        """Low, median and high shift, given a change."""
        below = np.cumsum(self.shift_mass)
        tail = (1.0 - confidence) / 2
        low, middle, high = (
            float(self.shift[min(int(np.searchsorted(below, part)), self.shift.size - 1)])
            for part in (tail, 0.5, 1 - tail)
        )
        return low, middle, high


def infer_speed(line: Lineup, pairs: Pairs, *, min_effect: float) -> SpeedBelief:
    """The posterior over change points, the shift and the noise. `min_effect` is a shift in log units."""
    shift, prior = shift_grid(pairs.at(line.bad_end), min_effect)
    run, place = np.unique(pairs.positions, return_inverse=True)
    still = per_place(pairs.values, place, run.size, np.zeros(1))
    moved = per_place(pairs.values, place, run.size, shift)
    older, newer = (still, moved) if line.rising else (moved, still)
    joint = before(older) + before(newer[::-1])[::-1] + np.log(prior)[None, :, None]
    alone = np.log(PRIOR_NONE) + still.sum(axis=0)[0]
    top = max(float(joint.max()), float(alone.max()))
    row = np.searchsorted(run, np.arange(1, line.size))
    weight = np.exp(joint - top) * (1.0 - PRIOR_NONE) / max(1, line.size - 1)
    mass = weight.sum(axis=2)[row] * line.prior[:, None]
    none = float(np.exp(alone - top).sum())
    total = float(mass.sum()) + none
    by_shift = mass.sum(axis=0)
    by_sigma = np.bincount(row, weights=line.prior, minlength=run.size + 1) @ weight.sum(axis=1) + np.exp(alone - top)
    return SpeedBelief(
        slower=mass[:, shift < 0].sum(axis=1) / total,
        faster=mass[:, shift > 0].sum(axis=1) / total,
        none=none / total,
        shift=shift,
        shift_mass=by_shift / max(float(by_shift.sum()), 1e-300),
        sigma=float((SIGMAS * by_sigma).sum() / by_sigma.sum()),
    )


def shift_grid(at_bad_end: FloatArray, min_effect: float) -> tuple[FloatArray, FloatArray]:
    """Shifts and their prior: flat in log |shift|, with a fine stretch around what the bad end shows.

    The fine stretch matters for quiet machines: a 1 % shift under 0.1 % noise falls between the points of a coarse
    grid.
    """
    coarse = np.geomspace(min_effect, LARGEST_SHIFT, 18)
    around = np.zeros(0)
    if at_bad_end.size > 1:
        middle, spread = float(np.median(at_bad_end)), float(at_bad_end.std(ddof=1)) + 2e-4
        around = middle + np.linspace(-4, 4, 25) * spread / np.sqrt(at_bad_end.size)
    shift = np.unique(np.concatenate([-coarse, coarse, around[np.abs(around) >= min_effect]]))
    density = 1.0 / np.abs(shift)
    weight = np.zeros(shift.size)
    for side, share in ((shift < 0, PRIOR_CLAIMED), (shift > 0, 1.0 - PRIOR_CLAIMED)):
        part = density[side] * np.gradient(shift[side])
        weight[side] = share * part / part.sum()
    return shift, weight


def per_place(values: FloatArray, place: IntArray, size: int, shift: FloatArray) -> FloatArray:
    """Log-likelihood of the values at each run position, for every shift and noise: (place, shift, sigma)."""
    off = (values[:, None, None] - shift[None, :, None]) / SIGMAS
    constant = gammaln((DEGREES + 1) / 2) - gammaln(DEGREES / 2) - 0.5 * np.log(DEGREES * np.pi)
    log_density = constant - np.log(SIGMAS) - (DEGREES + 1) / 2 * np.log1p(off**2 / DEGREES)
    out = np.zeros((size, shift.size, SIGMAS.size))
    np.add.at(out, place, log_density)
    return out


def before(terms: FloatArray) -> FloatArray:
    """Sums of the first 0, 1, ... rows."""
    return np.concatenate([np.zeros((1, *terms.shape[1:])), np.cumsum(terms, axis=0)])


def channel_information(chance: FloatArray, distance: FloatArray) -> FloatArray:
    """Nats that one value tells about which of two normals it came from.

    `chance` is the probability of the far one (rows), `distance` between them in standard deviations (columns). Even
    odds far apart -> log 2.
    """
    z = np.linspace(-5.0, 5.0, 41)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    odds = np.clip(chance, 1e-12, 1 - 1e-12)[:, None, None]
    ratio = np.exp(np.clip(distance[:, None] * z + distance[:, None] ** 2 / 2, -700, 700))
    near = (weight * -np.log(1 - odds + odds / ratio)).sum(axis=-1)
    far = (weight * -np.log(odds + (1 - odds) / ratio)).sum(axis=-1)
    return np.asarray((1 - odds[..., 0]) * near + odds[..., 0] * far)


def gather(line: Lineup, observed: Sequence[tuple[str, float]]) -> Pairs:
    """The values of positions between the endpoints."""
    where = {name: position for position, group in enumerate(line.groups) for name in group}
    kept = [(where[name], value) for name, value in observed if name in where]
    return Pairs(
        positions=np.array([position for position, _ in kept], dtype=np.int64),
        values=np.array([value for _, value in kept], dtype=np.float64),
    )
