"""What the drafters are fed: sequences of a synthetic language, anchors, and bounded queues.

Every number follows from (seed, drafter, step), never from which thread came first: a drafter sees the same
batches with one thread as with eight. Lengths follow a clipped log-normal distribution, as chat data does.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from .config import TrainConfig

POLL_S = 0.05
"""How often a waiting thread looks whether the one it waits for is still there."""


class FeedEndedError(RuntimeError):
    """The thread this one waits for has died; a consequence, never the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Tokens of one batch; `response_BS` is true where the target answered and a block may begin."""

    tokens_BS: Tensor
    response_BS: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a target hands to a drafter: the sample with the target's features [B, S, F]."""

    sample: Sample
    features_BSF: Tensor


def successors(vocab_size: int, *, seed: int) -> list[int]:
    """The language: token t is followed by successors[t]; one cycle through all tokens, the mask token apart."""
    order = list(range(vocab_size - 1))
    random.Random(f"language-{seed}").shuffle(order)
    following = dict(zip(order, order[1:] + order[:1], strict=True))
    return [following.get(token, token) for token in range(vocab_size)]


def context_length(config: TrainConfig, rng: random.Random) -> int:
    """Length of one batch's context: log-normal around the middle, rounded to `context_multiple`, clipped."""
    middle = (config.min_context + config.max_context) / 2
    drawn = middle * rng.lognormvariate(0.0, 0.5)
    rounded = round(drawn / config.context_multiple) * config.context_multiple
    return min(config.max_context, max(config.min_context, rounded))


def make_sample(config: TrainConfig, *, drafter: int, step: int) -> Sample:
    """The batch of one drafter at one step; the first eighth is the prompt."""
    rng = random.Random(f"sample-{config.seed}-{drafter}-{step}")
    length, following = context_length(config, rng), successors(config.vocab_size, seed=config.seed)
    rows = [_sentence(length, following, config.language_jump, rng) for _ in range(config.batch_size)]
    response_BS = torch.arange(length).expand(config.batch_size, -1) >= length // 8
    return Sample(tokens_BS=torch.tensor(rows), response_BS=response_BS)


def _sentence(length: int, following: list[int], jump: float, rng: random.Random) -> list[int]:
    tokens = [rng.randrange(len(following) - 1)]
    while len(tokens) < length:
        tokens.append(rng.randrange(len(following) - 1) if rng.random() < jump else following[tokens[-1]])
    return tokens


def sample_anchors(config: TrainConfig, sample: Sample, *, drafter: int, step: int) -> tuple[Tensor, Tensor]:
    """Sorted random anchors [B, N] and which of them are real.

    A block begins inside the response and ends inside the sequence. With `vary_anchors` N is what the fullest row
    of the batch allows, at most `num_anchors` and at least half of it drawn; else N is always `num_anchors`.
    """
    seed = random.Random(f"anchors-{config.seed}-{drafter}-{step}").getrandbits(31)
    generator = torch.Generator().manual_seed(seed)
    length = sample.tokens_BS.shape[1]
    allowed_BS = sample.response_BS & (torch.arange(length) <= length - config.block_size)
    count = config.num_anchors
    if config.vary_anchors:
        drawn = torch.randint(count // 2, count + 1, (1,), generator=generator)
        count = max(1, min(int(drawn), int(allowed_BS.sum(1).max())))
    lottery_BS = torch.rand(allowed_BS.shape, generator=generator).masked_fill(~allowed_BS, -1.0)
    lottery_BS = torch.nn.functional.pad(lottery_BS, (0, max(0, count - length)), value=-1.0)
    score_BN, drawn_BN = lottery_BS.topk(count, dim=1)
    # An empty slot sorts to the end; its anchor only has to be an index that exists.
    place_BN = torch.where(score_BN >= 0, drawn_BN, length)
    place_BN = place_BN.sort(dim=1).values
    return place_BN.clamp(max=length - 1), place_BN < length


class Feed:
    """Bounded queues from each target to each drafter, so that the order of batches never depends on timing.

    Drafter d's batch of step s comes from target (s * drafters + d) % targets. Owner of an entry: whoever took it.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._queues = {
            (target, drafter): queue.Queue[Batch](maxsize=config.queue_size)
            for target in range(config.num_targets)
            for drafter in range(config.num_drafters)
        }
        self._gone = {name: threading.Event() for name in self._names()}

    def _names(self) -> list[str]:
        config = self._config
        return [f"target-{i}" for i in range(config.num_targets)] + [f"drafter-{i}" for i in range(config.num_drafters)]

    def source(self, drafter: int, step: int) -> int:
        """The target that makes this batch."""
        return (step * self._config.num_drafters + drafter) % self._config.num_targets

    def leave(self, name: str) -> None:
        """Say that a thread has ended, well or not."""
        self._gone[name].set()

    def put(self, batch: Batch, *, drafter: int, step: int) -> bool:
        """Hand a batch over; False when the drafter has gone and nobody will read it."""
        lane = self._queues[self.source(drafter, step), drafter]
        while not self._gone[f"drafter-{drafter}"].is_set():
            try:
                lane.put(batch, timeout=POLL_S)
            except queue.Full:
                continue
            return True
        return False

    def get(self, *, drafter: int, step: int) -> Batch:
        """Take the batch of a step; raises FeedEndedError when its target died without making it."""
        target = self.source(drafter, step)
        lane, gone = self._queues[target, drafter], self._gone[f"target-{target}"]
        while True:
            ended = gone.is_set()
            try:
                return lane.get(timeout=POLL_S)
            except queue.Empty:
                if ended:
                    raise FeedEndedError(f"target-{target} ended before step {step} of drafter-{drafter}") from None


def serve(
    config: TrainConfig,
    feed: Feed,
    *,
    target: int,
    features: Callable[[Sample], Tensor],
    made: Callable[[int, float], None],
) -> None:
    """The body of a target thread: make its share of all batches, in the order they are needed.

    `made(tokens, wait_s)` hears of each batch and of the time its queue was full.
    """
    for step in range(config.steps):
        for drafter in range(config.num_drafters):
            if feed.source(drafter, step) != target:
                continue
            sample = make_sample(config, drafter=drafter, step=step)
            batch = Batch(sample=sample, features_BSF=features(sample))
            started = time.monotonic()
            if feed.put(batch, drafter=drafter, step=step):
                made(sample.tokens_BS.numel(), time.monotonic() - started)
