"""Imports packages before training starts and says what each import changed in the process.

A package that is installed and one that is imported are two things: the second may set Dynamo's configuration,
replace attributes of torch, or change environment variables, and the run is then another experiment.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch.fx.config", "torch._functorch.config")
SECRETS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "KEY")
MAX_LINES = 60
_SWITCHES: Mapping[str, Callable[[], object]] = {
    "torch.get_num_threads()": torch.get_num_threads,
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision,
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "sys.getswitchinterval()": sys.getswitchinterval,
    "sys.getrecursionlimit()": sys.getrecursionlimit,
}


def load(packages: Iterable[str]) -> list[dict[str, Any]]:
    """Import each package; by package, what changed with it."""
    found = []
    for name in packages:
        before, attributes = _values(), _attributes()
        importlib.import_module(name)
        lines = [*_changed_values(before, _values()), *_patched(attributes, name.partition(".")[0])]
        rest = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
        found.append({"package": name, "changes": [*lines[:MAX_LINES], *rest]})
    return found


def _values() -> dict[str, str]:
    """Every configuration value, switch and environment variable as text."""
    found = {name: repr(ask()) for name, ask in _SWITCHES.items()}
    for name in CONFIGS:
        found.update({f"{name}.{key}": repr(value)[:80] for key, value in _config(name).items()})
    found.update({f"environ {name}": _shown(name, value) for name, value in os.environ.items()})
    found["sys.path"] = repr(sys.path)
    return found


def _config(name: str) -> dict[str, Any]:
    """A copy of a configuration module's values; empty where this build has no such module."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return {}
    return dict(module.get_config_copy()) if hasattr(module, "get_config_copy") else {}


def _shown(name: str, value: str) -> str:
    return "(kept out)" if any(word in name.upper() for word in SECRETS) else value


def _changed_values(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "(unset)"), after.get(name, "(unset)")
        if old != new:
            yield f"{name}: {old} -> {new}"


def _attributes() -> dict[str, dict[str, Any]]:
    """What every loaded module and a few classes of torch hold, by identity."""
    return {name: dict(vars(holder)) for name, holder in _holders()}


def _holders() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch" and isinstance(module, ModuleType):
            yield name, module
    yield "torch.Tensor", torch.Tensor
    yield "torch.nn.Module", torch.nn.Module
    yield "torch.cuda.Stream", torch.cuda.Stream


def _patched(before: Mapping[str, dict[str, Any]], package: str) -> Iterator[str]:
    """Functions and classes of torch that were replaced or added, or that come from the package itself."""
    for holder_name, holder in _holders():
        old = before.get(holder_name)
        for attribute, value in sorted(vars(holder).items(), key=lambda pair: pair[0]):
            if issubclass(type(value), ModuleType) or not callable(value):
                continue
            home = _home(value)
            foreign = home.partition(".")[0] == package
            if old is None:
                if foreign:
                    yield f"{holder_name}.{attribute} is {home}'s"
            elif attribute not in old and (foreign or not home.startswith("torch")):
                yield f"{holder_name}.{attribute} added by {home or 'nobody that can be named'}"
            elif attribute in old and old[attribute] is not value:
                yield f"{holder_name}.{attribute} replaced by one of {home or 'no module'}"


def _home(value: object) -> str:
    """The module a callable comes from. Only its type is looked at: some of torch's objects warn when asked."""
    named = issubclass(type(value), (FunctionType, BuiltinFunctionType, type))
    return str((value if named else type(value)).__module__ or "")
