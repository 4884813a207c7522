"""Workarounds that change torch's own state or code, each undone by `restore`.

A compiled call asks a predicate ("is FX tracing?") before it runs. The predicate is captured when torch.compile
wraps the function, so a patch made later has no effect: all of these act in `prepare`, before the wrapping.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

import torch
import torch._higher_order_ops.utils as operator_utils
import torch.fx._symbolic_trace as symbolic_trace

from .. import compat
from .base import FLAG_HAZARDS, Workaround

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..config import TrainConfig

PREDICATES = ("is_fx_tracing", "is_fx_symbolic_tracing")
"""Up to 2.8 the first alone; from 2.9 the second, which also asks torch.compiler.is_compiling()."""


def replace(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute and leave on `undo` how to put the old one back."""
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


class ClearFlag(Workaround):
    """Clears the flag right before each compiled call."""

    name = "clear-flag"
    summary = "the FX flag is set to False right before each compiled call"
    safe_argument = "lucky at best: another thread may set the flag again between the clearing and the check"
    builds = "2.7 to 2.13, where the flag belongs to the process"

    def refusal(self, config: TrainConfig) -> str:  # noqa: ARG002 - the build alone decides
        return "" if compat.fx_flag_is_global() else "the FX flag of this build belongs to a thread already"

    def prepare(self) -> None:
        self.applied.append("torch.fx._symbolic_trace._is_fx_tracing_flag = False before each compiled call")

    def before_call(self) -> None:
        compat.set_fx_flag(tracing=False)


class PatchCheck(Workaround):
    """Makes the predicate say no, whoever traces."""

    name = "patch-check"
    summary = "the predicate that a compiled call asks is replaced by one that says no"
    safe_argument = "the check cannot raise; the other shared state of a trace stays shared"
    closes = FLAG_HAZARDS
    changes_process = True

    def prepare(self) -> None:
        name = compat.predicate_name()
        replace(self._undo, symbolic_trace, name, lambda: False)
        self.applied.append(f"torch.fx._symbolic_trace.{name} answers False")


class ForceCompile(Workaround):
    """Torch's own switch to skip the check. It must be set in every thread that reads it, from 2.12 on."""

    name = "force-compile"
    summary = "torch._dynamo.config.force_compile_during_fx_trace = True, in every thread that calls"
    safe_argument = "the check is skipped; the other shared state of a trace stays shared"
    builds = "2.11 and newer"
    closes = FLAG_HAZARDS
    changes_process = True

    def refusal(self, config: TrainConfig) -> str:  # noqa: ARG002 - the build alone decides
        return "" if compat.has_force_compile() else "this build has no force_compile_during_fx_trace"

    def prepare(self) -> None:
        self._undo.callback(compat.set_force_compile, on=compat.force_compile())
        compat.set_force_compile(on=True)
        self.applied.append("force_compile_during_fx_trace = True in main, in drafter threads and before each call")

    def prepare_thread(self) -> None:
        compat.set_force_compile(on=True)

    def before_call(self) -> None:
        if not compat.force_compile():
            compat.set_force_compile(on=True)


class ThreadLocalFlag(Workaround):
    """The fix of torch 2.14, brought back: the flag belongs to the thread that traces.

    The module global cannot be made thread-local from outside, so it is left to itself and nobody reads it any more:
    a thread-local twin is set around `Tracer.trace`, cleared inside the environment of an eager higher-order
    operator, as the global is, and read by the predicates. https://github.com/pytorch/pytorch/pull/168999
    """

    name = "thread-local-flag"
    summary = "the FX flag belongs to a thread, as in torch 2.14"
    safe_argument = "a thread sees only its own trace; the other shared state of a trace stays shared"
    builds = "2.7 to 2.13"
    closes = FLAG_HAZARDS
    changes_process = True

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    def refusal(self, config: TrainConfig) -> str:  # noqa: ARG002 - the build alone decides
        return "" if compat.fx_flag_is_global() else "the FX flag of this build belongs to a thread already"

    def prepare(self) -> None:
        names = [name for name in PREDICATES if hasattr(symbolic_trace, name)]
        for name in names:
            asks_compiler = name == "is_fx_symbolic_tracing"
            replace(self._undo, symbolic_trace, name, self._compiler_predicate if asks_compiler else self._tracing)
        replace(self._undo, symbolic_trace.Tracer, "trace", self._around_trace(symbolic_trace.Tracer.trace))
        original = operator_utils._set_compilation_env
        for module in [module for module in list(sys.modules.values()) if module is not None]:
            if vars(module).get("_set_compilation_env") is original:
                replace(self._undo, module, "_set_compilation_env", self._around_environment(original))
        self.applied.append(f"Tracer.trace, _set_compilation_env, {', '.join(names)} use a threading.local")

    def _tracing(self) -> bool:
        return bool(getattr(self._local, "tracing", False))

    def _compiler_predicate(self) -> bool:
        return self._tracing() and not torch.compiler.is_compiling()

    @contextlib.contextmanager
    def _set(self, *, tracing: bool) -> Iterator[None]:
        before = self._tracing()
        self._local.tracing = tracing
        try:
            yield
        finally:
            self._local.tracing = before

    def _around_trace(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def trace(*args: Any, **kwargs: Any) -> Any:
            with self._set(tracing=True):
                return original(*args, **kwargs)

        return trace

    def _around_environment(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def environment(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with original(*args, **kwargs) as value, self._set(tracing=False):
                yield value

        return environment
