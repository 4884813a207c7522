"""The target and the DFlash drafter: Qwen3-style decoders in one file.

    B batch   S context tokens   N blocks of T tokens   Q = N * T drafted   K = S + Q keys
    M width   H query heads      G key/value heads      D head size         V vocabulary   F fused features

    tokens ---> target (frozen) ---> states of several layers, concatenated: features_BSF
                                            |  fc, RMSNorm: once, shared by all layers
    [anchor MASK MASK ...] x N              v
      frozen embedding --> x_BQM --> L x layer(x, context_BSM) --> RMSNorm --> frozen head: token a + k at place k

In every layer the context is only projected to keys and values, with the same matrices as the block, and is not
updated. Keys are normed per head after concatenation and before the rotation; queries take the last Q positions.
The drafter's embedding and head are the target's, frozen; `parameters()` are the trained ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu
from torch.utils.checkpoint import checkpoint

from .attention import CausalAttention
from .data import successors
from .masks import full_mask, sliding_mask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .attention import Attention
    from .config import TrainConfig


class RMSNorm(nn.Module):
    """Root-mean-square norm in fp32, scaled by a weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def rotary(position_BK: Tensor, head_dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine [B, 1, K, D] of every position; the halves of a head are the pairs that rotate."""
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float32, device=position_BK.device)
    angle_BKD = position_BK[:, :, None].float() * theta ** (-pairs / head_dim).repeat(2)
    return angle_BKD.cos()[:, None].to(dtype), angle_BKD.sin()[:, None].to(dtype)


def rotate(x_BHKD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of head dimensions by the angle of its position."""
    left, right = x_BHKD.chunk(2, dim=-1)
    return x_BHKD * cos + torch.cat((-right, left), dim=-1) * sin


class Layer(nn.Module):
    """One decoder layer; with a context it is DFlash's, without one it is Qwen3's own."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        width, dim, eps = config.hidden_size, config.head_dim, config.norm_eps
        self.head_dim = dim
        self.input_norm, self.mlp_norm = RMSNorm(width, eps), RMSNorm(width, eps)
        self.q_norm, self.k_norm = RMSNorm(dim, eps), RMSNorm(dim, eps)
        self.q_proj = nn.Linear(width, config.num_heads * dim, bias=False)
        self.k_proj = nn.Linear(width, config.num_kv_heads * dim, bias=False)
        self.v_proj = nn.Linear(width, config.num_kv_heads * dim, bias=False)
        self.o_proj = nn.Linear(config.num_heads * dim, width, bias=False)
        self.gate_proj = nn.Linear(width, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(width, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, width, bias=False)

    def forward(
        self, x_BQM: Tensor, context_BSM: Tensor | None, cos: Tensor, sin: Tensor, attend: Attention, mask: Any
    ) -> Tensor:
        x_BQM = x_BQM + self._attend(self.input_norm(x_BQM), context_BSM, cos, sin, attend, mask)
        y_BQM = self.mlp_norm(x_BQM)
        return x_BQM + self.down_proj(silu(self.gate_proj(y_BQM)) * self.up_proj(y_BQM))

    def _attend(
        self, x_BQM: Tensor, context_BSM: Tensor | None, cos: Tensor, sin: Tensor, attend: Attention, mask: Any
    ) -> Tensor:
        # The context was normed once for all layers; only the block passed this layer's input norm.
        keys_BKM = x_BQM if context_BSM is None else torch.cat((context_BSM, x_BQM), dim=1)
        q_BHQD = self.q_norm(self._heads(self.q_proj(x_BQM))).transpose(1, 2)
        k_BGKD = self.k_norm(self._heads(self.k_proj(keys_BKM))).transpose(1, 2)
        v_BGKD = self._heads(self.v_proj(keys_BKM)).transpose(1, 2)
        queries = x_BQM.shape[1]
        q_BHQD = rotate(q_BHQD, cos[:, :, -queries:], sin[:, :, -queries:])
        out_BHQD = attend(q_BHQD, rotate(k_BGKD, cos, sin), v_BGKD, mask)
        return self.o_proj(out_BHQD.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim))


class Target(nn.Module):
    """The frozen model whose hidden states the drafter reads and whose tokens it guesses."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.target_num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states before the head, and the features the drafter reads."""
        x_BSM = self.embed(tokens_BS)
        position_BS = torch.arange(tokens_BS.shape[1], device=tokens_BS.device).expand_as(tokens_BS)
        cos, sin = rotary(position_BS, self.config.head_dim, self.config.rope_theta, x_BSM.dtype)
        attend, wanted, found = CausalAttention(), self.config.feature_layers, {}
        for index, layer in enumerate(self.layers):
            x_BSM = layer(x_BSM, None, cos, sin, attend, None)
            if index in wanted:
                found[index] = x_BSM
        return self.norm(x_BSM), torch.cat([found[index] for index in wanted], dim=-1)


class Drafter(nn.Module):
    """The block-diffusion drafter; `embed_VM` and `head_VM` are the target's tables and stay as they are."""

    def __init__(self, config: TrainConfig, *, embed_VM: Tensor, head_VM: Tensor) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("embed_VM", embed_VM, persistent=False)
        self.register_buffer("head_VM", head_VM, persistent=False)
        self.fuse = nn.Linear(config.num_features * config.hidden_size, config.hidden_size, bias=False)
        self.context_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)

    def forward(
        self, block_BQ: Tensor, features_BSF: Tensor, position_BK: Tensor, attend: Attention, masks: Mapping[str, Any]
    ) -> Tensor:
        """Hidden states of every drafted position; `masks` holds one mask per kind of layer."""
        x_BQM = linear_rows(self.embed_VM, block_BQ)
        context_BSM = self.context_norm(self.fuse(features_BSF))
        cos, sin = rotary(position_BK, self.config.head_dim, self.config.rope_theta, x_BQM.dtype)
        for kind, layer in zip(self.config.layer_types, self.layers, strict=True):
            args = (x_BQM, context_BSM, cos, sin, attend, masks[kind])
            again = self.config.checkpoint
            x_BQM = checkpoint(layer, *args, use_reentrant=True) if again else layer(*args)
        return self.norm(x_BQM)

    def logits(self, hidden_BQM: Tensor) -> Tensor:
        """Scores over the vocabulary, by the target's own head."""
        return linear(hidden_BQM, self.head_VM)


def linear_rows(table_VM: Tensor, index: Tensor) -> Tensor:
    """Rows of a frozen table."""
    return nn.functional.embedding(index, table_VM)


def block_tokens(tokens_BS: Tensor, anchors_BN: Tensor, keep_BN: Tensor, *, block: int, mask_token: int) -> Tensor:
    """[anchor MASK ... MASK] for each block, all MASK where the block is not kept, as [B, N * T]."""
    first_BN = torch.where(keep_BN, tokens_BS.gather(1, anchors_BN), mask_token)
    rest = first_BN.new_full((*first_BN.shape, block - 1), mask_token)
    return torch.cat((first_BN[:, :, None], rest), dim=-1).flatten(1)


def positions(anchors_BN: Tensor, *, context: int, block: int) -> Tensor:
    """Positions of all keys: 0 .. S-1 of the context, then a + o of each block."""
    device = anchors_BN.device
    context_BS = torch.arange(context, device=device).expand(anchors_BN.shape[0], -1)
    block_BQ = (anchors_BN[:, :, None] + torch.arange(block, device=device)).flatten(1)
    return torch.cat((context_BS, block_BQ), dim=1)


def build_masks(
    config: TrainConfig, attend: Attention, anchors_BN: Tensor, keep_BN: Tensor, context: int
) -> dict[str, Any]:
    """One mask for each kind of layer the drafter has, from fresh closures."""
    block, window = config.block_size, config.sliding_window
    mods = {
        "sliding": sliding_mask(anchors_BN, keep_BN, context=context, block=block, window=window),
        "full": full_mask(anchors_BN, keep_BN, context=context, block=block),
    }
    batch, blocks = anchors_BN.shape
    queries = blocks * block
    return {
        kind: attend.mask(mods[kind], batch=batch, queries=queries, keys=context + queries, device=anchors_BN.device)
        for kind in sorted(set(config.layer_types))
    }


def initialise(module: nn.Module, *, seed: int, scale: float = 0.02) -> None:
    """Normal matrices and norms of one, from a generator of their own: the global one belongs to all threads."""
    device = next(module.parameters()).device
    generator = torch.Generator(device=device).manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, scale, generator=generator)
            else:
                parameter.fill_(1.0)


def make_target(config: TrainConfig, device: str) -> Target:
    """A frozen target whose greedy continuation of token t is successor(t): see `data.successors`.

    Embedding rows are random and nearly orthogonal and the layers add little, so the head row equal to the
    embedding of t makes t's successor the likeliest: a real forward pass with a known deterministic language.
    """
    with torch.device("meta"):  # a large model would not fit in fp32 first
        target = Target(config).to(_dtype(config))
    target.to_empty(device=device)
    initialise(target, seed=config.seed)
    following = torch.tensor(successors(config.vocab_size, seed=config.seed), device=device)
    with torch.no_grad():
        target.embed.weight.mul_(50.0 / math.sqrt(config.hidden_size))
        target.head.weight[following] = target.embed.weight * math.sqrt(config.hidden_size) / 4
        target.head.weight[config.mask_token] = 0.0  # nobody ever says the mask token
    return target.requires_grad_(requires_grad=False).eval()


def make_drafter(config: TrainConfig, target: Target, device: str) -> Drafter:
    """A replica on `device`; every replica of a run starts from the same weights."""
    embed_VM, head_VM = (table.detach().to(device) for table in (target.embed.weight, target.head.weight))
    with torch.device("meta"):
        nothing = torch.empty(0, config.hidden_size)
        drafter = Drafter(config, embed_VM=nothing, head_VM=nothing).to(_dtype(config))
    drafter.to_empty(device=device)
    drafter.embed_VM, drafter.head_VM = embed_VM, head_VM
    initialise(drafter, seed=config.seed + 1)
    return drafter


def _dtype(config: TrainConfig) -> torch.dtype:
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[config.dtype]
