"""Every difference between torch 2.7 and the newest release, each found by asking torch, never by its version.

Other modules import from here and contain no `hasattr(torch, ...)`. Importing it imports torch and changes nothing.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import torch
import torch._dynamo  # the first import of it from several threads at once fails on some releases
import torch._dynamo.utils
import torch.fx._symbolic_trace as symbolic_trace
from torch._higher_order_ops.flex_attention import flex_attention as flex_operator
from torch._higher_order_ops.flex_attention import sdpa_dense as flex_dense
from torch.nn.attention import flex_attention as flex_module

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from torch import Tensor
    from torch.nn.attention.flex_attention import BlockMask

    FlexCall = Callable[[Tensor, Tensor, Tensor, BlockMask, float], Tensor]

RECOMPILES_LOGGER = "torch._dynamo.guards.__recompiles"


def fx_flag() -> bool | None:
    """Whether torch believes that FX is tracing now: for this thread where the flag is per thread.

    A module global up to 2.13, a `threading.local` behind a function from 2.14. None: kept in a third way.
    """
    if hasattr(symbolic_trace, "_is_fx_tracing_flag"):
        return bool(symbolic_trace._is_fx_tracing_flag)
    if hasattr(symbolic_trace, "_get_is_fx_tracing"):
        return bool(symbolic_trace._get_is_fx_tracing())
    return None


def fx_flag_is_global() -> bool:
    """Whether one thread's trace is visible to every other thread of the process."""
    return hasattr(symbolic_trace, "_is_fx_tracing_flag")


def set_fx_flag(*, tracing: bool) -> None:
    """Write the flag; raises where this torch keeps it in a way not known here."""
    if hasattr(symbolic_trace, "_is_fx_tracing_flag"):
        symbolic_trace._is_fx_tracing_flag = tracing
    elif hasattr(symbolic_trace, "_set_is_fx_tracing"):
        symbolic_trace._set_is_fx_tracing(tracing)
    else:
        symbolic_trace._is_fx_tracing_tls.value = tracing


def predicate_name() -> str:
    """The function of torch.fx._symbolic_trace that a compiled call asks before it runs."""
    newer = "is_fx_symbolic_tracing"
    return newer if hasattr(symbolic_trace, newer) else "is_fx_tracing"


def is_compiling() -> bool:
    """torch.compiler.is_compiling(), which from 2.13 is true in every thread while any thread compiles."""
    return bool(torch.compiler.is_compiling())


def has_force_compile() -> bool:
    """Whether torch can be told to compile although FX traces (2.11 and newer)."""
    return hasattr(torch._dynamo.config, "force_compile_during_fx_trace")


def force_compile() -> bool:
    """Whether this thread would compile although FX traces."""
    return bool(torch._dynamo.config.force_compile_during_fx_trace)


def set_force_compile(*, on: bool) -> None:
    """Skip the check of the FX flag: for the process, or from 2.12 for this thread only."""
    torch._dynamo.config.force_compile_during_fx_trace = on


def set_recompile_limit(limit: int) -> None:
    """Set Dynamo's limit of cache entries per function: for the process, or from 2.12 for this thread only."""
    torch._dynamo.config.recompile_limit = limit


def recompile_limit() -> int:
    """The limit this thread would compile under."""
    return int(torch._dynamo.config.recompile_limit)


def cpu_flex_refuses_backward() -> bool:
    """Whether flex_attention refuses CPU inputs that need gradients (2.11 and newer)."""
    check = flex_module._validate_device
    tensor = torch.ones(1, 1, 1, 1, requires_grad=True)
    try:
        check(tensor, tensor, tensor)
    except NotImplementedError:
        return True
    return False


def first_compile_may_segfault() -> bool:
    """Whether the first compilations of the process, if concurrent, may end it with SIGSEGV.

    Seen on 2.10 and 2.11, CUDA builds on a machine without a GPU, at the call this looks for. Later releases still
    make the call; it is harmless to warm up there as well, and the result says that it was done.
    """
    if torch.version.cuda is None or torch.cuda.is_available():
        return False
    return hasattr(torch._C, "_ensureCUDADeviceGuardSet")


def identity_score(score: Tensor, _b: Tensor, _h: Tensor, _q: Tensor, _kv: Tensor) -> Tensor:
    """The score modification that changes nothing."""
    return score


def flex_public(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask, scale: float) -> Tensor:
    """flex_attention as documented."""
    return flex_module.flex_attention(q, k, v, block_mask=mask, scale=scale, enable_gqa=True)


def flex_through_operator(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask, scale: float) -> Tensor:
    """The operator below flex_attention, past the check that refuses gradients on a CPU."""
    return flex_operator(q, k, v, identity_score, mask.as_tuple(), scale, {})[0]


@functools.cache
def num_flex_results() -> int:
    """How many tensors the flex attention operator returns: two up to 2.8, three with the largest scores."""
    return len(get_args(get_type_hints(flex_dense)["return"]))


def flex_call(device_type: str) -> FlexCall:
    """The way to flex attention with gradients on this kind of device."""
    if device_type == "cpu" and cpu_flex_refuses_backward():
        return flex_through_operator
    return flex_public


def backend_function(name: str) -> Callable[[Any, Any], Any]:
    """The compile backend as a function of (graph module, example inputs), so that calls to it can be counted."""
    if name == "inductor":
        from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415 - slow, and only GPUs need it

        return compile_fx
    return torch._dynamo.lookup_backend(name)


def compile_seconds() -> float:
    """Seconds torch says it spent compiling frames, as far as its own record goes."""
    metrics = torch._dynamo.utils.get_compilation_metrics()
    return sum(getattr(metric, "entire_frame_compile_time_s", None) or 0.0 for metric in metrics)


def counters() -> dict[str, Counter[str]]:
    """Dynamo's own counters, by group."""
    return torch._dynamo.utils.counters


def native_overrides() -> list[str]:
    """ATen operators replaced by a kernel language at import (`torch._native`), as "triton aten::bmm"."""
    try:
        from torch._native import registry  # noqa: PLC0415 - absent from older releases
    except ImportError:
        return []
    found = []
    for node in _nodes(vars(registry).get("_graphs", {})):
        names = [getattr(node, key, "") for key in ("dsl_name", "op_symbol", "dispatch_key")]
        found.append(" ".join(str(name) for name in names))
    return sorted(set(found))


def _nodes(graphs: dict[Any, Any]) -> list[Any]:
    return [node for nodes in graphs.values() for node in (nodes if isinstance(nodes, list) else [nodes])]


def log_recompiles(handler: logging.Handler) -> None:
    """Have Dynamo tell `handler` the reasons of every recompilation, and nobody else: they are many.

    Leaves the process alone when the user asked for logs of their own.
    """
    if not os.environ.get("TORCH_LOGS"):
        torch._logging.set_logs(recompiles=True)
        logging.getLogger(RECOMPILES_LOGGER).propagate = False
    logging.getLogger(RECOMPILES_LOGGER).addHandler(handler)
