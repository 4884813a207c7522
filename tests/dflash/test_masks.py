"""Oracle 1: the masks, element by element and tile by tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from dflash.masks import full_mask, sliding_mask

from . import reference

pytestmark = pytest.mark.torch

CASES = {
    "ordinary": ([[3, 9, 17, 20]], [[1, 1, 1, 1]], 24, 4, 6),
    "anchor at 0 reads no context": ([[0, 5]], [[1, 1]], 12, 4, 6),
    "anchor at the last token": ([[2, 11]], [[1, 1]], 12, 4, 6),
    "anchor at the length": ([[2, 12]], [[1, 1]], 12, 4, 6),
    "a block not kept": ([[3, 9, 11]], [[1, 0, 1]], 16, 4, 6),
    "no block kept": ([[3, 9]], [[0, 0]], 16, 4, 6),
    "block does not divide 128": ([list(range(2, 41, 3))], [[1] * 13], 45, 10, 17),
    "two rows": ([[1, 7], [4, 5]], [[1, 1], [1, 0]], 13, 3, 5),
    "window below the block": ([[3, 9]], [[1, 1]], 16, 8, 3),
    "window above the context": ([[3, 9]], [[1, 1]], 16, 4, 1000),
    "several tiles": ([list(range(10, 170, 5))], [[1] * 32], 200, 8, 40),
}


def _mods(anchors, keep, context, block, window):
    anchors_BN, keep_BN = torch.tensor(anchors), torch.tensor(keep, dtype=torch.bool)
    return {
        "full": full_mask(anchors_BN, keep_BN, context=context, block=block),
        "sliding": sliding_mask(anchors_BN, keep_BN, context=context, block=block, window=window),
    }


def _expected(kind, anchors, keep, context, block, window):
    return reference.mask(anchors, keep, context=context, block=block, window=window if kind == "sliding" else None)


@pytest.mark.parametrize("kind", ["full", "sliding"])
@pytest.mark.parametrize("name", CASES)
def test_every_element_is_what_the_loop_says(name, kind):
    """A drafter would see its own answer, another block, or not its context."""
    anchors, _keep, context, block, _window = CASES[name]
    queries = len(anchors[0]) * block
    mod = _mods(*CASES[name])[kind]
    made = create_mask(mod, len(anchors), 1, queries, context + queries, device="cpu")

    expected = _expected(kind, *CASES[name])

    assert np.array_equal(made[:, 0].numpy(), expected)


@pytest.mark.parametrize("kind", ["full", "sliding"])
@pytest.mark.parametrize("name", CASES)
def test_a_tile_is_computed_exactly_when_something_in_it_may_be_read(name, kind):
    """Flex attention would skip allowed pairs, or compute tiles for nothing."""
    anchors, _, context, block, _ = CASES[name]
    queries = len(anchors[0]) * block
    mod = _mods(*CASES[name])[kind]
    made = create_block_mask(mod, len(anchors), None, queries, context + queries, device="cpu")

    expected = reference.tiles(_expected(kind, *CASES[name]), 128)

    assert np.array_equal(made.to_dense()[:, 0].bool().numpy(), expected)


def test_a_query_past_the_last_block_gathers_something_that_exists():
    """A kernel that rounds the queries up to whole tiles would read outside the anchors' memory."""
    mod = _mods([[3, 9]], [[1, 1]], 16, 4, 6)["full"]
    zero = torch.tensor(0)

    beyond = mod(zero, zero, torch.tensor(127), torch.tensor(20))

    assert beyond.item() is False


def test_each_step_gets_a_closure_of_its_own():
    """Masks of two drafters would read each other's anchors."""
    first, second = (_mods([[a]], [[1]], 8, 4, 4)["full"] for a in (2, 6))
    zero, key = torch.tensor(0), torch.tensor(4)

    assert [mod(zero, zero, zero, key).item() for mod in (first, second)] == [False, True]
