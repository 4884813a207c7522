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

from .posterior import rate_prior

if TYPE_CHECKING:
    from .lineup import FloatArray
    from .posterior import Belief, Direction

BATCHES = (1, 4, 16, 64)
RATES_SHARE = 0.1
_NEGLIGIBLE = 1e-5


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
    rates = rate_prior().rates[:, None]
    count = np.arange(batch + 1)
    ways = gammaln(batch + 1) - gammaln(count + 1) - gammaln(batch - count + 1)
    table = np.exp(ways + count * np.log(rates) + (batch - count) * np.log1p(-rates))
    pools = np.unique(np.concatenate([np.arange(5), np.geomspace(5, batch + 1, 12).astype(int)]))
    return np.add.reduceat(table, pools[pools <= batch], axis=1)


def gains(belief: Belief) -> FloatArray:
    """Expected gain per position (rows) and batch size (columns), in nats."""
    outcome, columns, given_rate = _outcomes()
    size = belief.row.size + 1
    mixture = np.tile(belief.none * (belief.same @ outcome), (size, 1))
    about_change = np.empty((size, len(BATCHES)))
    known = np.tile(belief.none * _entropies(belief.same @ outcome, columns), (size, 1))
    known_rates = np.tile(belief.none * (belief.same @ given_rate), (size, 1))
    for direction in (belief.rise, belief.fall):
        if direction.mass.sum() > _NEGLIGIBLE:
            mixture += _sides(belief, direction, direction.old @ outcome, direction.new @ outcome)
            known += _sides(
                belief,
                direction,
                _entropies(direction.old @ outcome, columns),
                _entropies(direction.new @ outcome, columns),
            )
            known_rates += _sides(belief, direction, direction.old @ given_rate, direction.new @ given_rate)
    about_change = _entropies(mixture, columns)
    return np.asarray(about_change - (1.0 - RATES_SHARE) * known - RATES_SHARE * known_rates)


def _sides(belief: Belief, direction: Direction, old: FloatArray, new: FloatArray) -> FloatArray:
    """Sum over change points k of mass(k) * (old side's value if t < k else new side's), for every position t."""
    old_terms = direction.mass[:, None] * old[belief.row]
    new_terms = direction.mass[:, None] * new[belief.row]
    out = np.zeros((belief.row.size + 1, old.shape[1]))
    out[:-1] = np.cumsum(old_terms[::-1], axis=0)[::-1]
    out[1:] += np.cumsum(new_terms, axis=0)
    return out


def _entropies(distribution: FloatArray, columns: tuple[slice, ...]) -> FloatArray:
    terms = entr(distribution)
    return np.stack([terms[..., part].sum(axis=-1) for part in columns], axis=-1)
