"""The named configurations: a CPU in seconds, one GPU, and the incident's node. Pure."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import TYPE_CHECKING

from .config import FULL, SLIDING, ConfigError, TrainConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sizes import Machine

SMOKE = TrainConfig()
GPU1 = TrainConfig(
    drafter_devices=("cuda:0",),
    target_devices=("cuda:0",),
    steps=120,
    warmup_steps=20,
    hidden_size=1024,
    intermediate_size=3072,
    num_heads=16,
    num_kv_heads=8,
    head_dim=128,
    num_layers=5,
    layer_types=(SLIDING, SLIDING, SLIDING, SLIDING, FULL),
    sliding_window=512,
    vocab_size=32768,
    target_num_layers=12,
    num_features=5,
    num_anchors=128,
    block_size=16,
    min_context=512,
    max_context=2048,
    context_multiple=1,
    loss_gamma=7.0,
    dynamic="none",
    backend="inductor",
    dtype="bfloat16",
    deadline_s=600.0,
)
NODE8 = dataclasses.replace(
    GPU1,
    num_targets=5,
    target_devices=tuple(f"cuda:{index}" for index in range(5)),
    drafter_devices=tuple(f"cuda:{index}" for index in range(5, 8)),
    steps=200,
    hidden_size=4096,
    intermediate_size=12288,
    num_heads=32,
    layer_types=(FULL,) * 5,
    sliding_window=2048,
    vocab_size=151936,
    target_num_layers=36,
    num_anchors=512,
    max_context=3072,
)
NODE8_27B = dataclasses.replace(
    NODE8,
    hidden_size=5120,
    intermediate_size=17408,
    layer_types=(SLIDING, SLIDING, SLIDING, SLIDING, FULL),
    vocab_size=248320,
    rope_theta=1e7,
    target_num_layers=64,
)
PROFILES: Mapping[str, TrainConfig] = MappingProxyType(
    {"smoke": SMOKE, "gpu1": GPU1, "node8": NODE8, "node8-27b": NODE8_27B}
)


def choose_profile(name: str, machine: Machine) -> str:
    """The profile itself, or for `auto` the largest one whose number of GPUs is here."""
    if name != "auto":
        if name not in PROFILES:
            raise ConfigError(f"unknown profile {name!r}", hint=f"choose one of {', '.join([*PROFILES, 'auto'])}")
        return name
    if not machine.gpu_memory:
        return "smoke"
    return "node8" if len(machine.gpu_memory) >= 8 else "gpu1"
