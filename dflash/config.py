"""What a benchmark run is: every number of it, the profiles, and what a profile needs of the machine.

Pure, and free of torch: a wrong option is refused before anything slow is imported. Nothing here shrinks a
profile silently; what does not fit is named by `missing`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GIB = 2**30
MASK_TILE = 128
"""Rows and columns of one tile of a block mask; flex attention's own default."""
SLIDING, FULL = "sliding", "full"
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dynamic": ("none", "true", "false"),
        "dtype": ("float32", "bfloat16"),
        "warm_in_main": ("auto", "always", "never"),
    }
)


class ConfigError(ValueError):
    """An option, value or profile that cannot be used; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """One run. The defaults are the `smoke` profile: a CPU with two cores, in seconds.

    Sizes count elements, lengths count tokens. `dynamic` and `backend` go to the one `torch.compile` call;
    `average_every` is the number of drafter steps whose gradients are summed before the replicas average them
    and step the optimizer (0: the replicas never meet). `context_multiple` rounds context lengths, which bounds
    the number of distinct shapes and so of compilations when `dynamic` is "false".
    """

    seed: int = 0
    num_drafters: int = 3
    num_targets: int = 1
    drafter_devices: tuple[str, ...] = ("cpu",)
    target_devices: tuple[str, ...] = ("cpu",)
    steps: int = 10
    warmup_steps: int = 3
    batch_size: int = 1
    hidden_size: int = 64
    intermediate_size: int = 192
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    num_layers: int = 4
    layer_types: tuple[str, ...] = (SLIDING, SLIDING, SLIDING, FULL)
    sliding_window: int = 32
    vocab_size: int = 256
    rope_theta: float = 1e6
    norm_eps: float = 1e-6
    target_num_layers: int = 6
    num_features: int = 3
    num_anchors: int = 16
    block_size: int = 8
    vary_anchors: bool = False
    min_context: int = 96
    max_context: int = 256
    context_multiple: int = 32
    language_jump: float = 0.02
    loss_gamma: float = 4.0
    loss_chunk: int = 1024
    learning_rate: float = 6e-4
    warmup_ratio: float = 0.04
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    average_every: int = 5
    checkpoint: bool = True
    dynamic: str = "false"
    backend: str = "aot_eager"
    compile_masks: bool = False
    recompile_limit: int = 64
    dtype: str = "float32"
    queue_size: int = 2
    torch_threads: int = 1
    warm_in_main: str = "auto"
    deadline_s: float = 120.0

    @property
    def mask_token(self) -> int:
        """The reserved row of the embedding that stands for a token still to be drafted."""
        return self.vocab_size - 1

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Target layers whose outputs the drafter reads, evenly spaced from the second to the third-last."""
        return spread_layers(self.target_num_layers, self.num_features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a profile is checked against: memory in bytes, one entry per visible GPU."""

    gpu_memory: tuple[int, ...] = ()
    num_cpus: int = 1


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


def override(config: TrainConfig, assignments: Iterable[str]) -> TrainConfig:
    """Apply `KEY=VALUE` texts in order; a tuple is written with commas.

    override(SMOKE, ["steps=20", "layer_types=sliding,full", "num_layers=2"]).
    """
    values: dict[str, object] = {}
    types = get_type_hints(TrainConfig)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or key not in types:
            raise ConfigError(f"cannot set {assignment!r}", hint=f"KEY=VALUE with a KEY of {', '.join(types)}")
        values[key] = _parse(key, text, types[key])
    return validated(dataclasses.replace(config, **values))  # type: ignore[arg-type]


def _parse(key: str, text: str, kind: type) -> object:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if kind in (int, float, str):
            return kind(text)
        return tuple(part for part in text.split(",") if part)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{key} cannot be {text!r}", hint=f"{key} is of type {kind}") from error


def validated(config: TrainConfig) -> TrainConfig:
    """The same configuration, or a ConfigError naming the first rule it breaks."""
    for key, allowed in CHOICES.items():
        if getattr(config, key) not in allowed:
            raise ConfigError(f"{key} cannot be {getattr(config, key)!r}", hint=f"one of {', '.join(allowed)}")
    for broken, message in _rules(config):
        if broken:
            raise ConfigError(message, hint="change one of the two with --set KEY=VALUE")
    return config


def _rules(config: TrainConfig) -> tuple[tuple[bool, str], ...]:
    positive = ("num_drafters", "num_targets", "steps", "batch_size", "num_anchors", "queue_size", "block_size")
    small = [key for key in positive if getattr(config, key) < 1]
    unknown = sorted(set(config.layer_types) - {SLIDING, FULL})
    return (
        (bool(small), f"{', '.join(small)} must be at least 1"),
        (bool(unknown), f"layer_types has {', '.join(unknown)}; known are {SLIDING} and {FULL}"),
        (
            len(config.layer_types) != config.num_layers,
            f"layer_types has {len(config.layer_types)} entries and num_layers is {config.num_layers}",
        ),
        (
            config.num_heads % config.num_kv_heads != 0,
            f"num_heads {config.num_heads} is no multiple of num_kv_heads {config.num_kv_heads}",
        ),
        (config.head_dim % 2 != 0, f"head_dim {config.head_dim} is odd, rotary positions need pairs"),
        (
            config.min_context > config.max_context,
            f"min_context {config.min_context} is above max_context {config.max_context}",
        ),
        (
            config.min_context < 2 * config.block_size,
            f"min_context {config.min_context} is below two blocks of {config.block_size}",
        ),
        (
            config.target_num_layers < max(3, config.num_features),
            f"target_num_layers {config.target_num_layers} cannot give num_features {config.num_features}",
        ),
        (config.warmup_steps >= config.steps, f"warmup_steps {config.warmup_steps} leaves no step of {config.steps}"),
        (not (config.drafter_devices and config.target_devices), "drafter_devices or target_devices is empty"),
    )


def spread_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """`count` layer numbers, evenly from 1 to num_layers - 3: 5 of 36 are (1, 9, 17, 25, 33)."""
    if count == 1:
        return (num_layers // 2,)
    return tuple(round(1 + index * (num_layers - 4) / (count - 1)) for index in range(count))


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
