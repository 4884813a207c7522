"""Slow, obviously right counterparts of the benchmark's clever functions, and small things to test with."""

from __future__ import annotations

import numpy as np
import torch

from dflash.attention import DenseAttention
from dflash.config import override
from dflash.model import block_tokens, build_masks, make_drafter, make_target, positions
from dflash.profiles import SMOKE

TINY = override(
    SMOKE,
    [
        "hidden_size=32",
        "intermediate_size=48",
        "head_dim=8",
        "vocab_size=40",
        "num_layers=3",
        "layer_types=sliding,sliding,full",
        "sliding_window=7",
        "num_anchors=5",
        "block_size=4",
        "min_context=24",
        "max_context=40",
        "target_num_layers=5",
        "num_features=2",
        "checkpoint=false",
    ],
)


def mask(anchors, keep, *, context, block, window=None):
    """[batch, queries, keys] of what may be read, one element at a time."""
    queries = len(anchors[0]) * block
    found = np.zeros((len(anchors), queries, context + queries), dtype=bool)
    for b, row in enumerate(anchors):
        for q in range(queries):
            j, o = divmod(q, block)
            for kv in range(context + queries):
                if not keep[b][j]:
                    continue
                if kv < context:
                    near = window is None or (row[j] + o) - kv < window
                    found[b, q, kv] = kv < row[j] and near
                else:
                    found[b, q, kv] = (kv - context) // block == j
    return found


def tiles(dense, size):
    """Whether anything in each size x size tile may be read."""
    batch, rows, columns = dense.shape
    found = np.zeros((batch, -(-rows // size), -(-columns // size)), dtype=bool)
    for b, q, kv in zip(*np.nonzero(dense), strict=True):
        found[b, q // size, kv // size] = True
    return found


class Toy:
    """A target, a drafter of random weights, and one batch for it."""

    def __init__(self, config=TINY, *, context=30, batch=2, attend=None, seed=0):
        self.config, self.context, self.attend = config, context, attend or DenseAttention()
        generator = torch.Generator().manual_seed(seed)
        self.target = make_target(config, "cpu")
        self.drafter = make_drafter(config, self.target, "cpu")
        with torch.no_grad():
            for parameter in self.drafter.parameters():  # norms included: a weight of one would hide its place
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        self.tokens_BS = torch.randint(config.vocab_size - 1, (batch, context), generator=generator)
        width = config.num_features * config.hidden_size
        self.features_BSF = torch.randn(batch, context, width, generator=generator)
        drawn = torch.rand(batch, context - config.block_size, generator=generator).topk(config.num_anchors).indices
        self.anchors_BN = drawn.sort(1).values
        self.keep_BN = torch.ones(batch, config.num_anchors, dtype=torch.bool)

    def hidden(self, *, tokens=None, features=None, anchors=None, keep=None):
        """Hidden states of the drafted positions as [batch, blocks, block, width]."""
        tokens = self.tokens_BS if tokens is None else tokens
        features = self.features_BSF if features is None else features
        anchors = self.anchors_BN if anchors is None else anchors
        keep = torch.ones_like(anchors, dtype=torch.bool) if keep is None else keep
        config, context, block = self.config, features.shape[1], self.config.block_size
        block_BQ = block_tokens(tokens, anchors, keep, block=block, mask_token=config.mask_token)
        position_BK = positions(anchors, context=context, block=block)
        masks = build_masks(config, self.attend, anchors, keep, context)
        out_BQM = self.drafter(block_BQ, features, position_BK, self.attend, masks)
        return out_BQM.view(*anchors.shape, block, -1)
