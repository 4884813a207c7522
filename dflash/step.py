"""One step of a drafter: both masks are built here and forward and backward run here, and nowhere else.

A workaround wraps exactly this. Nothing here takes a lock around torch: whatever order the threads compile in is
torch's and the scheduler's doing.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .loss import block_loss, make_labels
from .model import block_tokens, build_masks, positions

if TYPE_CHECKING:
    from torch import Tensor

    from .attention import Attention
    from .data import Batch, Sample
    from .loss import LossReport
    from .model import Drafter, Target
    from .replicas import MasterAdamW
    from .threads import Worker
    from .workarounds import Workaround


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one drafter thread owns."""

    index: int
    drafter: Drafter
    optimizer: MasterAdamW


def features(target: Target, sample: Sample) -> Tensor:
    """What a target tells a drafter of a sample, on the target's own device."""
    with torch.no_grad():
        return target(sample.tokens_BS.to(target.embed.weight.device))[1]


def drafter_step(
    worker: Worker,
    replica: Replica,
    attend: Attention,
    batch: Batch,
    anchors_BN: Tensor,
    keep_BN: Tensor,
    *,
    workaround: Workaround,
) -> LossReport:
    """Build both masks, run forward and backward, and leave the gradients with the optimizer."""
    config, device = replica.drafter.config, replica.drafter.embed_VM.device
    tokens_BS, anchors_BN, keep_BN = (x.to(device) for x in (batch.sample.tokens_BS, anchors_BN, keep_BN))
    features_BSF, context = batch.features_BSF.to(device), tokens_BS.shape[1]
    block_BQ = block_tokens(tokens_BS, anchors_BN, keep_BN, block=config.block_size, mask_token=config.mask_token)
    labels = make_labels(tokens_BS, anchors_BN, keep_BN, block_size=config.block_size, gamma=config.loss_gamma)
    position_BK = positions(anchors_BN, context=context, block=config.block_size)
    worker.enter("lock")
    asked = time.monotonic()
    # What a new compilation depends on: the device, and the sizes of the mask and of the block.
    with workaround.step((str(device), context, tuple(block_BQ.shape))):
        worker.lock_wait_s += time.monotonic() - asked
        with worker.doing("mask"):
            build = functools.partial(build_masks, config, attend, anchors_BN, keep_BN, context)
            masks = workaround.masks(build, drafter=replica.index, step=worker.step)
        with worker.doing("forward"):
            hidden_BQM = replica.drafter(block_BQ, features_BSF, position_BK, attend, masks)
            report = block_loss(hidden_BQM, replica.drafter.head_VM, labels, chunk=config.loss_chunk)
        with worker.doing("backward"):
            report.loss.backward()
    worker.enter("collect")
    replica.optimizer.collect()
    return report
