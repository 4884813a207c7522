"""What a benchmark run is: every number of it, and the rules between them.

Pure, and free of torch: a wrong option is refused before anything slow is imported.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    Its throughput after 10 steps differed by 9 % from run to run, after 40 by 5 %, which takes 3 s more (standard
    deviation of 6 runs each of torch 2.11.0 with `lock`): hence `steps`. The last new shape is compiled at the eighth
    step, in one thread, while the others wait or are slowed down: hence `warmup_steps`.

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
    steps: int = 40
    warmup_steps: int = 10
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
    deadline_s: float = 180.0

    @property
    def mask_token(self) -> int:
        """The reserved row of the embedding that stands for a token still to be drafted."""
        return self.vocab_size - 1

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Target layers whose outputs the drafter reads, evenly spaced from the second to the third-last."""
        return spread_layers(self.target_num_layers, self.num_features)


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
