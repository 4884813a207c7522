"""A CPU kernel for the flex attention operator, forward and backward, on ATen's fused attention.

torch's own CPU implementation calls the mask function once per pair of positions through two vmaps, in every forward,
recomputation and backward; a drafter step spent more time there than in the model. This one calls the mask function
once, on index tensors that broadcast. It replaces only the arithmetic below the operator: tracing, compiling and the
flag that races are upstream of it. Scores must not be modified (the benchmark's never are) and the log-sum-exp
must not be differentiated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey
from torch._higher_order_ops.flex_attention import flex_attention as forward_operator
from torch._higher_order_ops.flex_attention import flex_attention_backward as backward_operator

from . import compat

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001 - the CPU's fused attention
_attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001


def install() -> None:
    """Give the operator this kernel for CPU tensors; once per process is enough, again is harmless."""
    if not forward_operator.has_kernel_for_dispatch_key(DispatchKey.CPU):
        forward_operator.py_impl(DispatchKey.CPU)(_forward)
        backward_operator.py_impl(DispatchKey.CPU)(_backward)


def _forward(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKD: Tensor,
    _score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    _options: dict[str, Any],
    _score_buffers: tuple[Tensor, ...] = (),
    mask_buffers: tuple[Tensor, ...] = (),
) -> tuple[Tensor, ...]:
    k_BHKD, v_BHKD = _repeat(k_BGKD, q_BHQD), _repeat(v_BGKD, q_BHQD)
    bias, readable = _bias_of(block_mask, q_BHQD, k_BHKD, mask_buffers)
    out_BHQD, lse_BHQ = _attend(q_BHQD, k_BHKD, v_BHKD, attn_mask=bias, scale=scale)
    out_BHQD = out_BHQD * readable
    # The operator speaks of powers of two; newer releases also want the largest scores, which nobody here reads.
    results = (out_BHQD, lse_BHQ / math.log(2), lse_BHQ.new_empty(lse_BHQ.shape))
    return results[: compat.num_flex_results()]


def _backward(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKD: Tensor,
    out_BHQD: Tensor,
    lse_BHQ: Tensor,
    grad_out: Tensor | None,
    _grad_lse: Tensor | None,
    _score_mod: Callable[..., Tensor],
    _joint: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    _options: dict[str, Any],
    score_buffers: tuple[Tensor, ...] = (),
    mask_buffers: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor, tuple[None, ...]]:
    k_BHKD, v_BHKD = _repeat(k_BGKD, q_BHQD), _repeat(v_BGKD, q_BHQD)
    bias, readable = _bias_of(block_mask, q_BHQD, k_BHKD, mask_buffers)
    grad_BHQD = torch.zeros_like(q_BHQD) if grad_out is None else grad_out * readable
    dq, dk, dv = _attend_backward(
        grad_BHQD,
        q_BHQD,
        k_BHKD,
        v_BHKD,
        out_BHQD,
        lse_BHQ * math.log(2),
        0.0,
        is_causal=False,
        attn_mask=bias,
        scale=scale,
    )
    return dq, _reduce(dk, k_BGKD), _reduce(dv, v_BGKD), (None,) * len(score_buffers)


def _bias_of(
    block_mask: tuple[Any, ...], q_BHQD: Tensor, k_BHKD: Tensor, buffers: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """The bias of a block mask, computed once: it stays on the mask's own tensor, for all layers and passes of a step.

    A mask belongs to one drafter thread, and is gone after its step.
    """
    owner = block_mask[2]
    shape = (q_BHQD.shape[0], 1, q_BHQD.shape[2], k_BHKD.shape[2])
    known = getattr(owner, "_dflash_bias", None)
    if known is None or known[0].shape != shape or known[0].dtype != q_BHQD.dtype:
        known = owner._dflash_bias = _bias(block_mask[-1], q_BHQD, k_BHKD, buffers)  # noqa: SLF001 - our own mark
    return known


def _bias(
    mask_mod: Callable[..., Tensor], q_BHQD: Tensor, k_BHKD: Tensor, buffers: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """What is added to the scores [B, 1, Q, K], and which queries may read anything [B, 1, Q, 1].

    A query that may read nothing reads everything here, which is finite, and is zeroed by the caller.
    """

    def places(count: int, *shape: int) -> Tensor:
        return torch.arange(count, device=q_BHQD.device, dtype=torch.int32).view(shape)

    batch, _, queries, _ = q_BHQD.shape
    keys = k_BHKD.shape[2]
    indices = places(batch, -1, 1, 1, 1), places(1, 1, 1, 1, 1), places(queries, 1, 1, -1, 1), places(keys, 1, 1, 1, -1)
    allowed = mask_mod(*indices, *buffers).expand(batch, 1, queries, keys)
    readable = allowed.any(-1, keepdim=True)
    bias = torch.zeros(allowed.shape, dtype=q_BHQD.dtype).masked_fill_((~allowed) & readable, -math.inf)
    return bias, readable.to(q_BHQD.dtype)


def _repeat(x_BGKD: Tensor, q_BHQD: Tensor) -> Tensor:
    return x_BGKD.repeat_interleave(q_BHQD.shape[1] // x_BGKD.shape[1], dim=1)


def _reduce(grad_BHKD: Tensor, like_BGKD: Tensor) -> Tensor:
    batch, groups, keys, width = like_BGKD.shape
    return grad_BHKD.view(batch, groups, -1, keys, width).sum(2)
