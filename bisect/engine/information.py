"""How much a batch of runs at each position is expected to tell, in nats.

For a batch of m runs at position t the number of failures x has the distribution P(x | h), h a change point with its
direction, or no change; the rate at t is still uncertain given h. Two gains follow from it:

    about the change:            H(x) - E_h H(x | h)
    about the change and rates:  H(x) - E_h E_rate H(x | rate)

The first is the question; a share of the second keeps the search from starving the rates it needs later. Looking
ahead over batches of several sizes is what makes a rare failure (whose single run tells nearly nothing) worth a
build. Outcomes of the large batches are pooled: 30 failures of 64 and 31 say the same.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr, gammaln

from .posterior import ordered_prior

if TYPE_CHECKING:
    from ..lineup import FloatArray, IntArray
    from .posterior import Belief

BATCHES = (1, 4, 16, 64)
RATES_SHARE = 0.25
_NEGLIGIBLE = 1e-6


@cache
def _outcomes() -> tuple[FloatArray, tuple[slice, ...], FloatArray]:
    """P(outcome | rate) for all batches side by side, the columns of each batch, and the entropy given the rate."""
    tables = [_binomial(batch) for batch in BATCHES]
    ends = np.cumsum([table.shape[1] for table in tables])
    columns = tuple(slice(int(end) - table.shape[1], int(end)) for end, table in zip(ends, tables, strict=True))
    given_rate = np.stack([entr(table).sum(axis=1) for table in tables], axis=1)
    return np.concatenate(tables, axis=1), columns, given_rate


def _binomial(batch: int) -> FloatArray:
    """P(pooled number of failures | rate), one row a rate."""
    rates = ordered_prior().rates[:, None]
    count = np.arange(batch + 1)
    ways = gammaln(batch + 1) - gammaln(count + 1) - gammaln(batch - count + 1)
    table = np.exp(ways + count * np.log(rates) + (batch - count) * np.log1p(-rates))
    pools = np.unique(np.concatenate([np.arange(5), np.geomspace(5, batch + 1, 12).astype(int)]))
    return np.add.reduceat(table, pools[pools <= batch], axis=1)


def gains(belief: Belief) -> FloatArray:
    """Expected gain per position (rows) and batch size (columns), in nats.

    Only the stretch that holds the change is computed; a position outside it tells what the stretch's edge tells.
    """
    outcome, columns, given_rate = _outcomes()
    held = np.flatnonzero(belief.change > _NEGLIGIBLE)
    first, last = (int(held[0]), int(held[-1]) + 1) if held.size else (0, 0)
    rows = belief.row[first:last]
    mixture = np.tile(belief.none * (belief.same @ outcome), (rows.size + 1, 1))
    known = np.tile(belief.none * _known(belief.same, outcome, columns, given_rate), (rows.size + 1, 1))
    for direction in (belief.rise, belief.fall):
        mass = direction.mass[first:last]
        if mass.sum() > _NEGLIGIBLE:
            mixture += _sides(mass, rows, direction.old @ outcome, direction.new @ outcome)
            known += _sides(
                mass,
                rows,
                _known(direction.old, outcome, columns, given_rate),
                _known(direction.new, outcome, columns, given_rate),
            )
    gain = _entropies(mixture, columns) - known
    return np.asarray(gain[np.clip(np.arange(belief.row.size + 1) - first, 0, rows.size)])


def _known(rates: FloatArray, outcome: FloatArray, columns: tuple[slice, ...], given_rate: FloatArray) -> FloatArray:
    """Entropy of a batch's outcome that stays when the change is known, a share of it when the rate is too."""
    given_change = _entropies(rates @ outcome, columns)
    return np.asarray((1.0 - RATES_SHARE) * given_change + RATES_SHARE * (rates @ given_rate))


def _sides(mass: FloatArray, rows: IntArray, old: FloatArray, new: FloatArray) -> FloatArray:
    """Sum over change points k of mass(k) * (old side's value if t < k else new side's), for every position t."""
    out = np.zeros((mass.size + 1, old.shape[1]))
    out[:-1] = np.cumsum((mass[:, None] * old[rows])[::-1], axis=0)[::-1]
    out[1:] += np.cumsum(mass[:, None] * new[rows], axis=0)
    return out


def _entropies(distribution: FloatArray, columns: tuple[slice, ...]) -> FloatArray:
    starts = [part.start for part in columns]
    return np.asarray(np.add.reduceat(entr(distribution), starts, axis=-1))
