"""How large a run is: parameters, bytes, and what a machine lacks for it.

Pure. Nothing here shrinks a profile; what does not fit is named by `missing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import TrainConfig

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a profile is checked against: memory in bytes, one entry per visible GPU."""

    gpu_memory: tuple[int, ...] = ()
    num_cpus: int = 1


def layer_parameters(config: TrainConfig) -> int:
    """Parameters of one decoder layer: four projections, three MLP matrices, two norms and two head norms."""
    width, heads, kv, dim = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
    attention = width * dim * (2 * heads + 2 * kv) + 2 * dim
    return attention + 3 * width * config.intermediate_size + 2 * width


def drafter_parameters(config: TrainConfig) -> int:
    """Trainable parameters of one replica; 1,048,626,432 at the Qwen3-8B sizes."""
    fusion = config.num_features * config.hidden_size**2 + config.hidden_size
    return fusion + config.num_layers * layer_parameters(config) + config.hidden_size


def target_parameters(config: TrainConfig) -> int:
    """Parameters of the target, whose layers have the drafter's sizes, with embedding and head."""
    tables = 2 * config.vocab_size * config.hidden_size
    return tables + config.target_num_layers * layer_parameters(config) + config.hidden_size


def dense_score_bytes(config: TrainConfig, context: int) -> int:
    """Bytes of one fp32 score tensor [batch, heads, queries, keys] an unfused attention would materialise."""
    queries = config.num_anchors * config.block_size
    return 4 * config.batch_size * config.num_heads * queries * (context + queries)


def dense_bytes(config: TrainConfig, device: str) -> int:
    """Bytes of the score matrices alive at once on `device` if all its drafters attend unfused.

    Scores, weights and their gradients are alive together in the backward; layers are checkpointed, so one at a time.
    """
    at_once = 1 if config.checkpoint else config.num_layers
    replicas = _share(config.drafter_devices, config.num_drafters, device)
    return replicas * (2 + at_once) * dense_score_bytes(config, config.max_context)


def device_bytes(config: TrainConfig, device: str) -> int:
    """Memory `device` needs for weights and optimizer state, plus a third for activations.

    A replica holds weights and gradients in `dtype`, and master weights, their gradients and two moments in fp32.
    """
    width = 4 if config.dtype == "float32" else 2
    tables = 2 * config.vocab_size * config.hidden_size * width
    replicas = _share(config.drafter_devices, config.num_drafters, device)
    targets = _share(config.target_devices, config.num_targets, device)
    needed = replicas * (drafter_parameters(config) * (2 * width + 16) + tables)
    needed += targets * target_parameters(config) * width
    return needed * 4 // 3


def _share(devices: Sequence[str], count: int, device: str) -> int:
    return sum(devices[index % len(devices)] == device for index in range(count))


def missing(config: TrainConfig, machine: Machine, *, force: str = "") -> tuple[str, ...]:
    """What this machine lacks for this run, one sentence each; empty when it fits."""
    found: list[str] = []
    for device in sorted({*config.drafter_devices, *config.target_devices}):
        found += _missing_device(config, machine, device, force=force)
    return tuple(found)


def _missing_device(config: TrainConfig, machine: Machine, device: str, *, force: str) -> list[str]:
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return []
    if kind != "cuda" or not number.isdecimal():
        return [f"{device} is no device this benchmark knows (cpu, cuda:0, cuda:1, ...)"]
    if int(number) >= len(machine.gpu_memory):
        return [f"{device} is not there: {len(machine.gpu_memory)} GPU(s) visible"]
    needed = device_bytes(config, device)
    if force == "dense":
        needed += dense_bytes(config, device)
    have = machine.gpu_memory[int(number)]
    if needed <= have:
        return []
    return [f"{device} has {have / GIB:.1f} GiB, about {needed / GIB:.1f} GiB are needed"]
