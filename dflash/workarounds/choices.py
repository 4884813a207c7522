"""Workarounds by using torch otherwise: warm first, build masks early, compile less, or not at all."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .. import compat, machine
from ..attention import DenseAttention
from ..sizes import GIB, dense_bytes, device_bytes
from .base import CRASH_HAZARDS, Workaround

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ..attention import Attention
    from ..config import TrainConfig
    from .base import Benchmark

NO_NATIVE_JIT = "TORCH_DISABLE_NATIVE_JIT"


class Warmup(Workaround):
    """The cure that looked right in the incident: one step on each device, alone, before the threads start."""

    name = "warmup"
    summary = "one step per drafter device in the main thread, before the threads start"
    safe_argument = "lucky: shapes and devices not seen in the warm-up still compile beside other threads"
    closes = ("first_concurrent_compile",)

    def rehearse(self, benchmark: Benchmark) -> None:
        devices = benchmark.config.drafter_devices
        for drafter in range(min(len(devices), benchmark.config.num_drafters)):
            benchmark.rehearse(drafter=drafter, step=0)
            self.applied.append(f"one step on {devices[drafter]} in the main thread")


class PremadeMasks(Workaround):
    """Every mask of the run is built in the main thread before the drafters start."""

    name = "premade-masks"
    summary = "all masks of the run are built in the main thread, before the threads start"
    safe_argument = "no thread builds a mask; compilations and compiled calls still meet"
    closes = ("mask_metadata",)

    def __init__(self) -> None:
        super().__init__()
        self._masks: dict[tuple[int, int], dict[str, Any]] = {}

    def rehearse(self, benchmark: Benchmark) -> None:
        for drafter in range(benchmark.config.num_drafters):
            for step in range(benchmark.config.steps):
                self._masks[drafter, step] = benchmark.masks(drafter=drafter, step=step)
        self.applied.append(f"masks of {len(self._masks)} steps built before the start")

    def masks(self, build: Callable[[], dict[str, Any]], *, drafter: int, step: int) -> dict[str, Any]:  # noqa: ARG002
        return self._masks[drafter, step]


class DynamicTrue(Workaround):
    """Symbolic sizes from the first compilation on: fewer compilations, so fewer chances to collide."""

    name = "dynamic-true"
    summary = "torch.compile(dynamic=True): sizes are symbols, so new lengths compile nothing"
    safe_argument = "lucky: fewer compilations, but those that remain are as unprotected as before"

    def configure(self, config: TrainConfig) -> TrainConfig:
        return dataclasses.replace(config, dynamic="true")

    def prepare(self) -> None:
        self.applied.append("dynamic=True")


class RecompileLimit(Workaround):
    """A higher recompile limit, set in whichever thread is about to read it, autograd's threads included."""

    name = "recompile-limit"
    summary = "recompile_limit raised in every thread that reads it"
    safe_argument = "no silent dense calls, if the limit is above the number of variants; no protection from races"
    closes = ("recompile_limit", "config_thread_local")

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def configure(self, config: TrainConfig) -> TrainConfig:
        return dataclasses.replace(config, recompile_limit=self._limit)

    def prepare(self) -> None:
        self.applied.append(f"recompile_limit = {self._limit} in main, in drafter threads and before each call")

    def before_call(self) -> None:
        if compat.recompile_limit() != self._limit:
            compat.set_recompile_limit(self._limit)


class CountedDense(DenseAttention):
    """Dense attention that reports each call with the bytes of its scores."""

    def __init__(self, on_dense: Callable[[int], None]) -> None:
        self._on_dense = on_dense

    def __call__(self, q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, mask: Tensor) -> Tensor:
        self._on_dense(4 * q_BHQD.shape[0] * q_BHQD.shape[1] * q_BHQD.shape[2] * k_BGKD.shape[2])
        return super().__call__(q_BHQD, k_BGKD, v_BGKD, mask)


class NoCompile(Workaround):
    """Dense attention under a boolean mask, without torch.compile: possible only where the scores fit in memory.

    Eager flex attention would not do: with gradients it traces on every call.
    """

    name = "no-compile"
    summary = "dense attention under a boolean mask, nothing compiled; refused when the scores cannot fit"
    safe_argument = "nothing compiles and nothing traces"
    closes = CRASH_HAZARDS

    def refusal(self, config: TrainConfig) -> str:
        for device in sorted(set(config.drafter_devices)):
            needed, have = device_bytes(config, device) + dense_bytes(config, device), available_bytes(device)
            if needed > have:
                need, free = f"{needed / GIB:.1f} GiB", f"{have / GIB:.1f} GiB"
                return f"dense scores need about {need} on {device}, {free} are there"
        return ""

    def attention(self, make: Callable[[], Attention], on_dense: Callable[[int], None]) -> Attention:  # noqa: ARG002
        self.applied.append("scaled_dot_product_attention under a boolean mask in place of compiled flex attention")
        return CountedDense(on_dense)


class NoNativeJit(Workaround):
    """Newer builds replace some ATen operators by kernels compiled at run time (`torch._native`)."""

    name = "no-native-jit"
    summary = f"{NO_NATIVE_JIT}=1 before torch is imported: no ATen operator is replaced by a jitted kernel"
    safe_argument = "no protection from races: it only rules these kernels out as the cause"
    builds = "builds with torch._native (2.12 and newer)"

    def refusal(self, config: TrainConfig) -> str:  # noqa: ARG002 - the build alone decides
        folder = Path(torch.__file__).parent / "_native"
        return "" if folder.is_dir() else "this build has no torch._native"

    def prepare(self) -> None:
        overrides = len(compat.native_overrides())
        self.applied.append(f"{NO_NATIVE_JIT}={os.environ.get(NO_NATIVE_JIT, '')}: {overrides} operators overridden")


def available_bytes(device: str) -> int:
    """Memory that could be had: of the GPU all of it, of the host what the kernel calls available."""
    if device.startswith("cuda"):
        return machine.look().gpu_memory[int(device.partition(":")[2] or 0)]
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    available = next(line for line in lines if line.startswith("MemAvailable:"))
    return int(available.split()[1]) * 1024
