"""Attention under a mask: the process's only compile site, and a plain dense twin to compare with.

    q_BHQD  queries: N blocks of T tokens          Q = N * T
    k_BGKD  keys:    S context + N * T block       K = S + Q,  H is a multiple of G
    v_BGKD  values

`FlexAttention` owns the one `torch.compile`d callable that all drafter threads share, as in the incident. Whoever
calls it may compile: Dynamo's own lock orders the compilations, nothing here does. The dense twin materialises
the score matrix and exists for tests and for the step-speed figure.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask
from torch.nn.functional import scaled_dot_product_attention

from . import compat, cpu_kernel
from .config import MASK_TILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch import Tensor

    from .masks import MaskMod


class Attention(Protocol):
    """A way to attend: it builds its own kind of mask and reads it back."""

    def mask(self, mask_mod: MaskMod, *, batch: int, queries: int, keys: int, device: torch.device) -> Any: ...

    def __call__(self, q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, mask: Any) -> Tensor: ...


class FlexAttention:
    """flex attention, compiled once for the process.

    `compiled=False` is the forced dense mode: the same call without torch.compile. `on_compile(seconds)` hears of
    each graph handed to the backend, `on_dense(bytes)` of each call that ran unfused, with the bytes of its scores.
    `serial` is held around each call: a degraded state forced on purpose must show its slowness, not the races that
    unfused calls run into because they trace outside Dynamo's lock.
    """

    def __init__(
        self,
        *,
        device_type: str,
        backend: str,
        dynamic: bool | None,
        compile_masks: bool = False,
        compiled: bool = True,
        count_compiles: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda backend: backend,
        on_dense: Callable[[int], None] = lambda _bytes: None,
        before_call: Callable[[], None] = lambda: None,
        serial: AbstractContextManager[object] | None = None,
    ) -> None:
        if device_type == "cpu":
            cpu_kernel.install()
        call = compat.flex_call(device_type)

        def flex(q: Tensor, k: Tensor, v: Tensor, mask: Any, scale: float) -> Tensor:
            # Dynamo folds this to False while it traces: the count moves only when Python itself runs the line.
            if not torch.compiler.is_dynamo_compiling():
                on_dense(4 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2])
            return call(q, k, v, mask, scale)

        backend_call = count_compiles(compat.backend_function(backend))
        self._flex = torch.compile(flex, backend=backend_call, dynamic=dynamic) if compiled else flex
        builder = create_block_mask
        self._build = torch.compile(builder, backend=backend_call, dynamic=dynamic) if compile_masks else builder
        self._before_call = before_call
        self._serial = serial or contextlib.nullcontext()

    def mask(self, mask_mod: MaskMod, *, batch: int, queries: int, keys: int, device: torch.device) -> Any:
        return self._build(mask_mod, batch, None, queries, keys, device=str(device), BLOCK_SIZE=MASK_TILE)

    def __call__(self, q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, mask: Any) -> Tensor:
        self._before_call()
        with self._serial:
            return self._flex(q_BHQD, k_BGKD, v_BGKD, mask, q_BHQD.shape[-1] ** -0.5)


class DenseAttention:
    """Scaled dot-product attention under a boolean mask; a row that may read nothing yields zero."""

    def mask(self, mask_mod: MaskMod, *, batch: int, queries: int, keys: int, device: torch.device) -> Tensor:
        return create_mask(mask_mod, batch, 1, queries, keys, device=str(device))

    def __call__(self, q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, mask: Tensor) -> Tensor:
        repeat = q_BHQD.shape[1] // k_BGKD.shape[1]
        k_BHKD, v_BHKD = k_BGKD.repeat_interleave(repeat, 1), v_BGKD.repeat_interleave(repeat, 1)
        readable = mask.any(-1, keepdim=True)
        # An all-masked row is NaN in SDPA: let it read everything, then drop what it read.
        out_BHQD = scaled_dot_product_attention(q_BHQD, k_BHKD, v_BHKD, attn_mask=mask | ~readable)
        return torch.where(readable, out_BHQD, torch.zeros((), dtype=out_BHQD.dtype, device=out_BHQD.device))


class CausalAttention:
    """Plain causal attention: what the target reads with, and a drafter layer without context in the parity test."""

    def mask(self, _mask_mod: MaskMod, *, batch: int, queries: int, keys: int, device: torch.device) -> None:  # noqa: ARG002
        return None

    def __call__(self, q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, _mask: None) -> Tensor:
        return scaled_dot_product_attention(q_BHQD, k_BGKD, v_BGKD, is_causal=True, enable_gqa=True)
