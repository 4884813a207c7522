"""Oracles 7 and 12: labels, weights, the loss and the acceptance length, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dflash.loss import block_loss, decay, make_labels

pytestmark = pytest.mark.torch

BATCH, BLOCKS, BLOCK, WIDTH, VOCAB, LENGTH, GAMMA = 2, 3, 5, 6, 11, 20, 4.0


def _case(seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, VOCAB, (BATCH, LENGTH))
    anchors = np.array([[2, 9, 17], [0, 4, 19]])  # two blocks reach past the end
    keep = np.array([[True, True, True], [True, False, True]])
    hidden = rng.normal(size=(BATCH, BLOCKS * BLOCK, WIDTH))
    return tokens, anchors, keep, hidden, rng.normal(size=(VOCAB, WIDTH))


def _positions(anchors, keep):
    """(row, block, k, weight) of every position that counts."""
    for b in range(BATCH):
        for j in range(BLOCKS):
            for k in range(1, BLOCK):
                if keep[b, j] and anchors[b, j] + k < LENGTH:
                    yield b, j, k, math.exp(-(k - 1) / GAMMA)


def _numpy_loss(tokens, anchors, keep, hidden, head):
    total = weights = 0.0
    for b, j, k, weight in _positions(anchors, keep):
        logits = head @ hidden[b, j * BLOCK + k]
        log_sum = np.log(np.exp(logits - logits.max()).sum()) + logits.max()
        total += weight * (log_sum - logits[tokens[b, anchors[b, j] + k]])
        weights += weight
    return total / weights


def _report(tokens, anchors, keep, hidden, head, *, chunk=7):
    labels = make_labels(torch.tensor(tokens), torch.tensor(anchors), torch.tensor(keep), block_size=BLOCK, gamma=GAMMA)
    return block_loss(hidden, torch.tensor(head, dtype=hidden.dtype), labels, chunk=chunk)


def test_the_weights_follow_the_published_decay():
    """Late positions would count as much as early ones, or the anchor would be learnt."""
    weights = decay(16, 7.0).tolist()

    assert weights == pytest.approx([math.exp(-(k - 1) / 7) for k in range(1, 16)])
    assert [round(w, 3) for w in (weights[0], weights[1], weights[2], weights[14])] == [1.0, 0.867, 0.751, 0.135]


def test_position_k_is_labelled_with_token_anchor_plus_k():
    """An offset of one gives a loss that falls and a drafter that is never right."""
    tokens, anchors, keep, _, _ = _case()
    labels = make_labels(torch.tensor(tokens), torch.tensor(anchors), torch.tensor(keep), block_size=BLOCK, gamma=GAMMA)
    counted = {(b, j, k): w for b, j, k, w in _positions(anchors, keep)}

    for b in range(BATCH):
        for j in range(BLOCKS):
            for k in range(1, BLOCK):
                weight = labels.weight_BNK[b, j, k - 1].item()
                assert weight == pytest.approx(counted.get((b, j, k), 0.0))
                if weight:
                    assert labels.token_BNK[b, j, k - 1] == tokens[b, anchors[b, j] + k]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_loss_is_what_numpy_says(chunk):
    """The chunked loss would weigh a row twice or not at all."""
    tokens, anchors, keep, hidden, head = _case()
    report = _report(tokens, anchors, keep, torch.tensor(hidden), head, chunk=chunk)

    assert report.loss.item() == pytest.approx(_numpy_loss(tokens, anchors, keep, hidden, head), rel=1e-6)


def test_the_gradient_is_the_slope_of_the_loss():
    """The hand-written backward pass would train in a wrong direction."""
    tokens, anchors, keep, hidden, head = _case(1)
    rows = torch.tensor(hidden, requires_grad=True)
    (3 * _report(tokens, anchors, keep, rows, head).loss).backward()
    rng = np.random.default_rng(2)

    for _ in range(20):
        place = tuple(rng.integers(0, size) for size in hidden.shape)
        step = np.zeros_like(hidden)
        step[place] = 1e-5
        up, down = (_numpy_loss(tokens, anchors, keep, hidden + s * step, head) for s in (1, -1))
        assert rows.grad[place].item() == pytest.approx(3 * (up - down) / 2e-5, abs=1e-6)


def test_a_step_without_any_block_is_zero_and_finite():
    """A batch too short for a block would turn the weights into NaN."""
    tokens, anchors, keep, hidden, head = _case()
    rows = torch.tensor(hidden, requires_grad=True)
    report = _report(tokens, anchors, np.zeros_like(keep), rows, head)
    report.loss.backward()

    assert (report.loss.item(), report.acceptance.item(), report.accuracy.item()) == (0.0, 0.0, 0.0)
    assert rows.grad.isfinite().all()


def test_acceptance_is_one_plus_the_leading_right_guesses():
    """A later right guess after a wrong one would count as accepted."""
    tokens = np.arange(LENGTH)[None] % VOCAB
    anchors, keep = np.array([[2, 4, 3]]), np.array([[True, True, False]])
    guesses = np.zeros((3, BLOCK), dtype=int)
    for j, right in enumerate([(1, 2, 4), (2, 3, 4), (1, 2, 3, 4)]):  # third block is not kept
        for k in range(1, BLOCK):
            guesses[j, k] = tokens[0, anchors[0, j] + k] if k in right else VOCAB - 1
    hidden = torch.eye(VOCAB)[torch.tensor(guesses.reshape(1, -1))]
    report = _report(tokens, anchors, keep, hidden, np.eye(VOCAB))

    assert report.acceptance.item() == pytest.approx(((1 + 2) + (1 + 0)) / 2)
    assert report.accuracy.item() == pytest.approx(6 / 8)
