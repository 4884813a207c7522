"""The FX tracing flag: who can see it, and can it stay set.

`torch.compile` refuses to run a compiled function while the flag is set. Up to 2.13 the flag is one variable
of the process, so a trace in one thread makes a compiled call in another one raise; from 2.14 it belongs to a
thread. Up to 2.12.1 that includes the traces of an ordinary compilation; in 2.13 a process-wide `is_compiling()`
hides the flag while anything compiles. So one symptom has two windows, kept apart as `fx_flag_compile` and the
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.fx

from .forced import (
    Answer,
    CouldNotForceError,
    Finding,
    Gate,
    Worker,
    describe,
    error_of,
    parked,
    start_parked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SYMPTOM = "FX to symbolically trace a dynamo-optimized function"


def warm_call() -> Callable[[], object]:
    """A compiled call that is warm: it needs no compilation and takes no lock."""
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(4)
    compiled(x)
    return lambda: compiled(x)


def parked_backend(gate: Gate) -> Callable[..., object]:
    """A backend whose AOT trace stops at the gate: a decomposition of `sin` runs only while make_fx traces."""
    from functorch.compile import nop
    from torch._dynamo.backends.common import aot_autograd

    def stop_at_sin(_x: torch.Tensor) -> object:
        gate.stop_here()
        return NotImplemented  # traced as it is

    return aot_autograd(fw_compiler=nop, decompositions={torch.ops.aten.sin.default: stop_at_sin})


def compile_parked(gate: Gate) -> Callable[[], object]:
    """A real compilation, forward and backward traced by AOTAutograd, that stops inside its trace."""
    compiled = torch.compile(lambda x: x.sin() * 2, backend=parked_backend(gate))
    x = torch.ones(4, requires_grad=True)
    return lambda: compiled(x)


def call_beside(work: Callable[[], object], gate: Gate) -> Finding:
    """Make a warm compiled call while another thread stands at the gate, and once more afterwards."""
    call = warm_call()
    with parked(work, gate) as worker:
        during = error_of(call)
    after = error_of(call)
    if worker.error is not None:
        raise CouldNotForceError(f"the traced work failed by itself: {describe(worker.error)}")
    if after is not None:
        raise CouldNotForceError(f"the compiled call fails without a trace too: {describe(after)}")
    if during is None:
        return Finding(Answer.SAFE, ("a warm compiled call succeeded while another thread stood inside the trace",))
    if SYMPTOM not in str(during):
        raise CouldNotForceError(f"another failure than the flag's: {describe(during)}")
    return Finding(Answer.LEAKS, (describe(during), "the same call succeeded once the other thread's trace had ended"))


def fx_flag_trace() -> Finding:
    gate = Gate()

    def traced(x: torch.Tensor) -> torch.Tensor:
        gate.stop_here()
        return x + 1

    return call_beside(lambda: torch.fx.symbolic_trace(traced), gate)


def fx_flag_make_fx() -> Finding:
    from torch.fx.experimental.proxy_tensor import make_fx

    gate = Gate()

    def traced(x: torch.Tensor) -> torch.Tensor:
        gate.stop_here()
        return x + 1

    return call_beside(lambda: make_fx(traced)(torch.ones(4)), gate)


def fx_flag_flex() -> Finding:
    """Eager flex attention with gradients traces its score function on every forward, outside Dynamo's lock.

    The operator is called below its public wrapper, which refuses gradients on a CPU from 2.11 on.
    """
    from torch._higher_order_ops.flex_attention import flex_attention as flex_operator
    from torch.fx.experimental.proxy_tensor import get_proxy_mode
    from torch.nn.attention.flex_attention import create_block_mask

    gate = Gate()

    def score_mod(score: torch.Tensor, *_indices: torch.Tensor) -> torch.Tensor:
        if get_proxy_mode() is not None:
            gate.stop_here()
        return score * 1.0

    block_mask = create_block_mask(lambda _b, _h, q, k: q >= k, None, None, 16, 16, device="cpu")
    query, key, value = (torch.ones(1, 1, 16, 16, requires_grad=True) for _ in range(3))

    def forward() -> object:
        return flex_operator(query, key, value, score_mod, block_mask.as_tuple(), 0.25, {}, (), ())

    return call_beside(forward, gate)


def fx_flag_compile() -> Finding:
    gate = Gate()
    return call_beside(compile_parked(gate), gate)


def fx_flag_stuck() -> Finding:
    """A higher-order operator run eagerly saves the flag, clears it and restores it, without a lock.

    The trace ends between its save and its restore, so that what it restores is another thread's `True`.
    """
    from torch._higher_order_ops.utils import _set_compilation_env

    call = warm_call()
    trace_gate, environment_gate = Gate(), Gate()

    def traced(x: torch.Tensor) -> torch.Tensor:
        trace_gate.stop_here()
        return x + 1

    def eager_operator() -> None:
        with _set_compilation_env():
            environment_gate.stop_here()

    tracer = start_parked(lambda: torch.fx.symbolic_trace(traced), trace_gate)
    operator = start_parked(eager_operator, environment_gate)
    for gate, worker in ((trace_gate, tracer), (environment_gate, operator)):
        gate.opened.set()
        _require_success(worker.join())
    errors = [error_of(call) for _ in range(3)]
    if all(error is None for error in errors):
        return Finding(Answer.SAFE, ("compiled calls succeed after an overlapping trace and eager operator ended",))
    if not all(SYMPTOM in str(error) for error in errors):
        raise CouldNotForceError(f"another failure than the flag's: {describe(errors[0])}")
    return Finding(
        Answer.LEAKS, (describe(errors[0]), "3 of 3 compiled calls raise although no thread traces any more")
    )


def mask_flag() -> Finding:
    """Whether building a mask leaves the flag set: alone, inside another thread's trace, and around one."""
    from torch.nn.attention.flex_attention import create_block_mask

    def build(gate: Gate | None = None) -> object:
        def causal(_b: object, _h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            if gate is not None:
                gate.stop_here()
            return q >= k

        return create_block_mask(causal, None, None, 256, 256, device="cpu")

    def traced(x: torch.Tensor) -> torch.Tensor:
        trace_gate.stop_here()
        return x + 1

    call, trace_gate, mask_gate = warm_call(), Gate(), Gate()
    build()
    left = {"alone": error_of(call)}
    with parked(lambda: torch.fx.symbolic_trace(traced), trace_gate):
        build()
    left["inside another thread's trace"] = error_of(call)
    with parked(lambda: build(mask_gate), mask_gate):
        torch.fx.symbolic_trace(lambda x: x + 1)
    left["around another thread's trace"] = error_of(call)
    lines = tuple(f"a compiled call after a mask was built {when}: {describe(left[when])}" for when in left)
    return Finding(Answer.LEAKS if any(SYMPTOM in str(error) for error in left.values()) else Answer.SAFE, lines)


def _require_success(worker: Worker) -> None:
    if worker.error is not None:
        raise CouldNotForceError(f"the traced work failed by itself: {describe(worker.error)}")
