"""The drafter's loss: cross entropy at the same position, decayed along the block, over a frozen head.

Block position k of anchor a predicts token a + k. Position 0 is the anchor itself and carries no loss; position
k >= 1 weighs exp(-(k - 1) / gamma). The loss is the weighted mean over the kept positions inside the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import log_softmax

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What each drafted position should say, and how much it counts; position 0 of a block is left out.

    token_BNK and weight_BNK hold K = block size - 1 positions of each block.
    """

    token_BNK: Tensor
    weight_BNK: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """`loss` carries the gradient; the others are plain tensors.

    `acceptance` is the mean over kept blocks of 1 + the number of leading right guesses (greedy), the anchor
    counted as in the speculative decoding literature; it is not the product of mean position accuracies.
    """

    loss: Tensor
    accuracy: Tensor
    acceptance: Tensor


def decay(block_size: int, gamma: float, *, device: torch.device | str = "cpu") -> Tensor:
    """Weights of positions 1 .. T-1, from 1 down; the last of 16 at gamma 7 is exp(-2)."""
    return torch.exp(-torch.arange(block_size - 1, dtype=torch.float32, device=device) / gamma)


def make_labels(tokens_BS: Tensor, anchors_BN: Tensor, keep_BN: Tensor, *, block_size: int, gamma: float) -> Labels:
    """Labels and weights of every block; a position past the sequence's end weighs nothing."""
    length = tokens_BS.shape[1]
    offsets_K = torch.arange(1, block_size, device=tokens_BS.device)
    position_BNK = anchors_BN[:, :, None] + offsets_K
    inside_BNK = (position_BNK < length) & keep_BN[:, :, None]
    flat = position_BNK.clamp(max=length - 1).flatten(1)
    token_BNK = tokens_BS.gather(1, flat).view_as(position_BNK)
    return Labels(token_BNK=token_BNK, weight_BNK=decay(block_size, gamma, device=tokens_BS.device) * inside_BNK)


def block_loss(hidden_BQM: Tensor, head_VM: Tensor, labels: Labels, *, chunk: int) -> LossReport:
    """The loss of drafted hidden states [batch, N * T, width] under the frozen head, `chunk` rows at a time."""
    batch, blocks, guesses = labels.token_BNK.shape
    hidden_BNTM = hidden_BQM.view(batch, blocks, guesses + 1, -1)
    rows_RM = hidden_BNTM[:, :, 1:].reshape(-1, hidden_BQM.shape[-1])
    loss, guess_R = _FrozenHeadLoss.apply(
        rows_RM, head_VM, labels.token_BNK.flatten(), labels.weight_BNK.flatten(), chunk
    )
    right_BNK = (guess_R.view_as(labels.token_BNK) == labels.token_BNK) & (labels.weight_BNK > 0)
    counted = (labels.weight_BNK > 0).sum().clamp(min=1)
    kept_BN = labels.weight_BNK.any(-1)
    leading_BN = right_BNK.long().cumprod(-1).sum(-1)
    acceptance = ((1 + leading_BN) * kept_BN).sum() / kept_BN.sum().clamp(min=1)
    return LossReport(loss=loss, accuracy=right_BNK.sum() / counted, acceptance=acceptance)


class _FrozenHeadLoss(torch.autograd.Function):
    """Weighted mean cross entropy of rows_RM @ head_VM.T, never holding more than `chunk` rows of logits.

    The head is frozen, so the gradient of the rows is known as soon as the logits are: it is computed in the forward
    pass and only scaled in the backward pass, instead of keeping or recomputing R x V logits.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        rows_RM: Tensor,
        head_VM: Tensor,
        labels_R: Tensor,
        weights_R: Tensor,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        total = weights_R.sum().clamp(min=1e-12)
        loss = rows_RM.new_zeros((), dtype=torch.float32)
        gradient_RM, guess_R = torch.empty_like(rows_RM), torch.empty_like(labels_R)
        for start in range(0, rows_RM.shape[0], chunk):
            part = slice(start, start + chunk)
            logp_CV = log_softmax((rows_RM[part] @ head_VM.T).float(), dim=-1)
            scale_C = weights_R[part] / total
            loss -= (logp_CV.gather(1, labels_R[part, None])[:, 0] * scale_C).sum()
            guess_R[part] = logp_CV.argmax(-1)
            slope_CV = logp_CV.exp_().scatter_add_(1, labels_R[part, None], -torch.ones_like(scale_C)[:, None])
            gradient_RM[part] = (slope_CV * scale_C[:, None]).to(rows_RM.dtype) @ head_VM
        ctx.save_for_backward(gradient_RM)
        ctx.mark_non_differentiable(guess_R)
        return loss, guess_R

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _grad_guess: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (gradient_RM,) = ctx.saved_tensors
        return gradient_RM * grad_loss.to(gradient_RM.dtype), None, None, None, None
