"""Which key a query may read: the two masks of a drafter step, as closures for `create_block_mask`.

Queries are N blocks of T tokens; query q is token o = q % T of block j = q // T, drafted at position a_j + o.
Keys are the S context tokens followed by the same N*T block tokens:

              context 0 .. S-1            blocks 0 .. N-1
    block j   | read if kv < a_j       |  read if it is block j |

A block reads strictly less than its anchor of the context (the anchor itself is the block's first token), and
all of itself in both directions. The sliding mask also asks (a_j + o) - kv < W of a context key: the window is
measured from the query's own position and never cuts the block. A block that is not kept reads nothing.

An anchor is at most S, so kv < a_j implies kv < S; a context key lies in a block of negative number, so it is in no
query's block. Neither is therefore asked: a mask is evaluated for every pair of positions.

Every call makes a new function over new tensors and integers, as trainers do each step; whether a compiler
takes that for a new function is one of the things this benchmark measures. Knows nothing of devices or time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def full_mask(anchors_BN: Tensor, keep_BN: Tensor, *, context: int, block: int) -> MaskMod:
    """The mask of a full-attention layer."""
    reach_BN, last = _reach(anchors_BN, keep_BN), anchors_BN.shape[1] - 1

    def mask_mod(b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        j = q // block
        anchor = reach_BN[b, j.clamp(max=last)]
        return (kv < anchor) | (((kv - context) // block == j) & (anchor >= 0))

    return mask_mod


def sliding_mask(anchors_BN: Tensor, keep_BN: Tensor, *, context: int, block: int, window: int) -> MaskMod:
    """The mask of a sliding-window layer."""
    reach_BN, last = _reach(anchors_BN, keep_BN), anchors_BN.shape[1] - 1

    def mask_mod(b: Tensor, _h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        j = q // block
        anchor = reach_BN[b, j.clamp(max=last)]
        in_window = (kv < anchor) & (kv > anchor + q % block - window)
        return in_window | (((kv - context) // block == j) & (anchor >= 0))

    return mask_mod


def _reach(anchors_BN: Tensor, keep_BN: Tensor) -> Tensor:
    """The anchors, -1 where the block is not kept: one gather per pair of positions instead of two.

    Kernels round the queries up to whole tiles, so a mask clamps q // T to a block that exists before it gathers.
    """
    return anchors_BN.where(keep_BN, -1)
