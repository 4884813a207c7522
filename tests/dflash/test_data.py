"""What the drafters are fed: the language, lengths, anchors and queues."""

from __future__ import annotations

import threading

import pytest
import torch

from dflash.config import override
from dflash.data import Batch, Feed, FeedEndedError, make_sample, sample_anchors, serve, successors
from dflash.profiles import SMOKE

pytestmark = pytest.mark.torch


def test_the_language_is_one_cycle_that_leaves_the_mask_token_out():
    """The drafter could not learn it, or would be asked to say the mask token."""
    following = successors(20, seed=3)
    seen, token = [], 0
    for _ in range(19):
        seen.append(token)
        token = following[token]

    assert sorted(seen) == list(range(19))
    assert token == 0


def test_a_batch_follows_from_its_numbers_alone():
    """Two runs, or one and three threads, could not be compared."""
    first, again, other = (make_sample(SMOKE, drafter=1, step=s) for s in (4, 4, 5))

    assert torch.equal(first.tokens_BS, again.tokens_BS)
    assert first.tokens_BS.tolist() != other.tokens_BS.tolist()
    assert SMOKE.mask_token not in first.tokens_BS


def test_lengths_vary_inside_their_bounds_in_few_distinct_values():
    """The context length, one axis of recompilation, would be constant or without bound."""
    lengths = [make_sample(SMOKE, drafter=0, step=s).tokens_BS.shape[1] for s in range(60)]

    assert 3 <= len(set(lengths)) <= 6
    assert all(96 <= length <= 256 and length % 32 == 0 for length in lengths)


@pytest.mark.parametrize("vary", [False, True])
def test_anchors_are_sorted_distinct_inside_the_response_and_leave_room_for_a_block(vary):
    """Unsorted anchors cost twice the tiles; one too late has no label; one twice counts double."""
    config = override(SMOKE, [f"vary_anchors={vary}", "batch_size=3"])
    for step in range(20):
        sample = make_sample(config, drafter=0, step=step)
        anchors_BN, keep_BN = sample_anchors(config, sample, drafter=0, step=step)
        length = sample.tokens_BS.shape[1]
        assert anchors_BN.shape[1] == 16 or (vary and 8 <= anchors_BN.shape[1] <= 16)
        for row, anchors in enumerate(anchors_BN):
            real = anchors[keep_BN[row]]
            assert real.tolist() == sorted(set(real.tolist()))
            assert anchors.tolist() == sorted(anchors.tolist())
            assert sample.response_BS[row, real].all()
            assert int(real.max()) <= length - config.block_size


def test_too_few_candidates_leave_empty_slots_or_fewer_anchors():
    """A short response would repeat anchors, or fail."""
    config = override(SMOKE, ["min_context=16", "max_context=16", "context_multiple=1"])
    sample = make_sample(config, drafter=0, step=0)
    anchors_BN, keep_BN = sample_anchors(config, sample, drafter=0, step=0)
    varying = override(config, ["vary_anchors=true"])
    fewer, all_kept = sample_anchors(varying, sample, drafter=0, step=0)

    assert (anchors_BN.shape[1], int(keep_BN.sum())) == (16, 7)
    assert int(anchors_BN.max()) < 16
    assert fewer.shape[1] == 7
    assert all_kept.all()


def _batch(config, *, drafter=0, step=0):
    sample = make_sample(config, drafter=drafter, step=step)
    return Batch(sample=sample, features_BSF=torch.zeros(1))


def test_each_drafter_gets_its_own_batches_in_order_from_several_targets():
    """Which target was faster would decide what a drafter learns."""
    config = override(SMOKE, ["num_targets=2", "steps=6", "warmup_steps=1"])
    feed = Feed(config)
    targets = [
        threading.Thread(
            target=serve,
            args=(config, feed),
            kwargs={"target": t, "features": lambda _sample: torch.zeros(1), "made": lambda _tokens, _wait: None},
        )
        for t in range(2)
    ]
    for thread in targets:
        thread.start()
    for step in range(6):
        for drafter in range(3):
            found = feed.get(drafter=drafter, step=step).sample.tokens_BS
            assert torch.equal(found, make_sample(config, drafter=drafter, step=step).tokens_BS)
    for thread in targets:
        thread.join(5)
        assert not thread.is_alive()


def test_a_dead_drafter_does_not_stop_its_target():
    """The other drafters would starve behind a full queue."""
    feed = Feed(SMOKE)
    feed.leave("drafter-0")

    assert feed.put(_batch(SMOKE), drafter=0, step=0) is False


def test_a_dead_target_is_reported_after_its_last_batch_is_used():
    """A drafter would wait for ever, or lose a batch that was already made."""
    feed = Feed(SMOKE)
    feed.put(_batch(SMOKE), drafter=1, step=0)
    feed.leave("target-0")

    feed.get(drafter=1, step=0)
    with pytest.raises(FeedEndedError, match="target-0 ended before step 1 of drafter-1"):
        feed.get(drafter=1, step=1)
