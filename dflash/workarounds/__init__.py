"""Ways around the races, by name. This file imports no torch, because one of them must act before torch is imported."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ..config import ConfigError
from .base import Workaround

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (
    "none",
    "lock",
    "lock-compile",
    "clear-flag",
    "patch-check",
    "force-compile",
    "thread-local-flag",
    "warmup",
    "premade-masks",
    "dynamic-true",
    "recompile-limit=N",
    "no-compile",
    "no-native-jit",
)
_ENVIRONMENT: Mapping[str, Mapping[str, str]] = MappingProxyType({"no-native-jit": {"TORCH_DISABLE_NATIVE_JIT": "1"}})


def environment_of(text: str) -> Mapping[str, str]:
    """Variables the workaround needs before torch is imported."""
    return _ENVIRONMENT.get(text, {})


def check(text: str) -> tuple[str, int]:
    """The name and, for `recompile-limit=N`, N; ConfigError for anything that is no workaround."""
    name, equals, number = text.partition("=")
    takes_number = f"{name}=N" in NAMES
    if name not in NAMES and not takes_number:
        raise ConfigError(f"unknown workaround {text!r}", hint=f"choose one of {', '.join(NAMES)}")
    if takes_number != bool(equals) or (equals and not (number.isdecimal() and int(number) > 0)):
        wanted = f"{name}=N with N of at least 1" if takes_number else name
        raise ConfigError(f"workaround {text!r} is not understood", hint=f"write {wanted}")
    return name, int(number or 0)


def make(text: str) -> Workaround:
    """A fresh workaround by its text on the command line. Imports torch."""
    from . import choices, locks, patches  # noqa: PLC0415 - they import torch

    name, number = check(text)
    if name == choices.RecompileLimit.name:
        return choices.RecompileLimit(number)
    kinds: tuple[type[Workaround], ...] = (
        Workaround,
        locks.Lock,
        locks.LockCompile,
        patches.ClearFlag,
        patches.PatchCheck,
        patches.ForceCompile,
        patches.ThreadLocalFlag,
        choices.Warmup,
        choices.PremadeMasks,
        choices.DynamicTrue,
        choices.NoCompile,
        choices.NoNativeJit,
    )
    return next(kind for kind in kinds if kind.name == name)()
