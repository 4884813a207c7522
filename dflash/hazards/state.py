"""Other state of a compilation that threads share, or fail to share, besides the FX flag."""

from __future__ import annotations

import threading

import torch
import torch.fx

from .flags import compile_parked
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
from .repeat import crash_frame, first_crash

METRICS_SYMPTOM = "already been set in the current context"
CRASH_ATTEMPTS = 20  # of 0.1 s each; were only 4 of 10 to crash, all 20 would miss it with probability 4e-5
ATTEMPT_DEADLINE_S = 5.0  # all of them together stay below the deadline of a probe


def is_compiling_leak() -> Finding:
    """Any `if torch.compiler.is_compiling()` of an eager thread takes the other branch while another compiles."""
    gate = Gate()
    with parked(compile_parked(gate), gate):
        seen = torch.compiler.is_compiling()
    line = f"torch.compiler.is_compiling() is {seen} in an eager thread while another thread compiles"
    return Finding(Answer.LEAKS if seen else Answer.SAFE, (line,))


def config_thread_local() -> Finding:
    """Whether a setting made by the main thread is lost in a worker thread."""
    from torch._dynamo import config

    default = config.recompile_limit
    config.recompile_limit = default + 56
    seen = Worker(lambda: config.recompile_limit).join().result
    line = f"recompile_limit set to {default + 56} in the main thread, a worker thread reads {seen}"
    return Finding(Answer.SAFE if seen == default + 56 else Answer.LEAKS, (line,))


def config_patch_leak() -> Finding:
    """Whether a temporary setting of one thread is seen by another one."""
    from torch._dynamo import config

    gate = Gate()
    default = config.recompile_limit

    def patched() -> None:
        with config.patch(recompile_limit=default + 1):
            gate.stop_here()

    with parked(patched, gate):
        seen = config.recompile_limit
    line = f"another thread's config.patch(recompile_limit={default + 1}) makes this thread read {seen}"
    return Finding(Answer.SAFE if seen == default else Answer.LEAKS, (line,))


def fx_patcher() -> Finding:
    """Two traces that overlap and do not end in reverse order: the second finds the patcher gone."""
    gates = (Gate(), Gate())

    def trace(gate: Gate) -> object:
        def traced(x: torch.Tensor) -> torch.Tensor:
            gate.stop_here()
            return x + 1

        return torch.fx.symbolic_trace(traced)

    workers = [start_parked(lambda gate=gate: trace(gate), gate) for gate in gates]
    for gate, worker in zip(gates, workers, strict=True):
        gate.opened.set()
        worker.join()
    errors = [worker.error for worker in workers if worker.error is not None]
    if not errors:
        return Finding(Answer.SAFE, ("two overlapping traces both succeeded",))
    if not isinstance(errors[0], AssertionError):
        raise CouldNotForceError(f"another failure than the patcher's: {describe(errors[0])}")
    return Finding(Answer.LEAKS, (describe(errors[0]), "raised by the trace that began second and ended second"))


def mask_metadata() -> Finding:
    """Eager `create_block_mask` annotates graph metadata that a compilation of another thread replaces.

    The compilation stops inside its trace, where the metadata is its own; the mask builder writes its note there
    and stops; the compilation ends and puts the old metadata back; the builder looks for its note.
    """
    from torch.nn.attention.flex_attention import create_block_mask
    from torch.utils._python_dispatch import TorchDispatchMode

    compile_gate, mask_gate = Gate(), Gate()

    class StopInAnnotation(TorchDispatchMode):
        def __torch_dispatch__(self, func, _types, args=(), kwargs=None) -> object:  # noqa: ANN001
            if "custom" in torch.fx.traceback.current_meta and not mask_gate.entered.is_set():
                mask_gate.stop_here()
            return func(*args, **(kwargs or {}))

    def build() -> object:
        with StopInAnnotation():
            return create_block_mask(lambda _b, _h, q, k: q >= k, None, None, 256, 256, device="cpu")

    compiler = start_parked(compile_parked(compile_gate), compile_gate)
    builder = Worker(build)
    while builder.alive and not mask_gate.entered.wait(0.01):
        pass
    compile_gate.opened.set()
    compiler.join()
    mask_gate.opened.set()
    builder.join()
    if builder.error is None:
        noted = "with" if mask_gate.entered.is_set() else "without"
        return Finding(Answer.SAFE, (f"the mask was built {noted} an annotation while another thread compiled",))
    if not isinstance(builder.error, KeyError):
        raise CouldNotForceError(f"another failure than the metadata's: {describe(builder.error)}")
    return Finding(Answer.LEAKS, (describe(builder.error), "create_block_mask, called eagerly beside a compilation"))


def metrics_context() -> Finding:
    """Two backward compilations at once write to one record of metrics where threads share it."""
    from functorch.compile import nop
    from torch._dynamo.backends.common import aot_autograd

    gate = Gate()

    def parked_nop(graph: torch.fx.GraphModule, inputs: object) -> object:
        gate.stop_here()
        return nop(graph, inputs)

    def lazy_backward(bw_compiler: object) -> torch.Tensor:
        backend = aot_autograd(fw_compiler=nop, bw_compiler=bw_compiler)
        return torch.compile(lambda x: (x.sin() * 2).sum(), backend=backend)(torch.ones(4, requires_grad=True))

    first, second = lazy_backward(parked_nop), lazy_backward(nop)
    with parked(first.backward, gate) as worker:
        error = error_of(second.backward)
    for found in (error, worker.error):
        if found is not None and METRICS_SYMPTOM in str(found):
            return Finding(
                Answer.LEAKS,
                (describe(found, about=METRICS_SYMPTOM), "two threads compiled their backward at the same time"),
            )
    if error is not None or worker.error is not None:
        raise CouldNotForceError(f"another failure: {describe(error or worker.error)}")
    return Finding(Answer.SAFE, ("two threads compiled their backward at the same time without a conflict",))


def cudagraph_thread() -> Finding:
    """CUDA graph trees keep their containers in thread-local storage that only the importing thread has filled."""
    if not torch.version.cuda:
        return Finding(Answer.NOT_APPLICABLE, ("a build without CUDA",))
    from torch._inductor import cudagraph_trees

    looked_up = Worker(lambda: cudagraph_trees.get_obj(cudagraph_trees.local, "tree_manager_locks")).join()
    if looked_up.error is None:
        return Finding(Answer.SAFE, ("a fresh thread finds the containers of the CUDA graph trees",))
    return Finding(Answer.LEAKS, (describe(looked_up.error), "mode='reduce-overhead' in a fresh Python thread"))


def first_concurrent_compile() -> Finding:
    """The first compilations of a process, begun in several threads at once. A crash of the process is the answer.

    Without a GPU, entering a fake tensor mode replaces the CUDA device guard, the first time in the process. Where
    two threads do so at once the process dies. It is a race inside C++, so it is run again in fresh forks. One fork
    crashed, on two cores, in 33 of 40 tries on 2.11.0 and 38 of 40 on 2.10.0, and in none of 40 on 2.12.1.
    With a GPU the guard is left alone: there the compilations themselves are what can be tried.
    """
    if torch.cuda.is_available():
        return _compile_first_in_threads()
    crash = first_crash(_enter_fake_modes, times=CRASH_ATTEMPTS, deadline_s=ATTEMPT_DEADLINE_S)
    if crash is None:
        line = f"{CRASH_ATTEMPTS} fresh processes each entered their first fake tensor modes in 8 threads at once"
        return Finding(Answer.SAFE, (line,))
    line = f"attempt {crash.attempt} of {CRASH_ATTEMPTS}: the process died: signal {crash.signal.name}"
    return Finding(Answer.LEAKS, (line, *crash_frame(crash.log)))


def _enter_fake_modes() -> None:
    """What every compilation does first, in 8 threads at once and often enough that they meet."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    barrier = threading.Barrier(8)

    def enter() -> None:
        barrier.wait()
        for _ in range(100):
            with FakeTensorMode():
                pass

    for worker in [Worker(enter) for _ in range(8)]:
        if error := worker.join().error:
            raise error


def _compile_first_in_threads() -> Finding:
    barrier = threading.Barrier(4)

    def compile_first(index: int) -> None:
        x = torch.ones(4 + index, requires_grad=True)
        barrier.wait()
        torch.compile(lambda x: x.sin() + index, backend="aot_eager")(x)

    workers = [Worker(lambda index=index: compile_first(index)) for index in range(4)]
    errors = [worker.join().error for worker in workers]
    failures = [describe(error) for error in errors if error is not None]
    if failures:
        return Finding(Answer.LEAKS, tuple(dict.fromkeys(failures)))
    return Finding(Answer.SAFE, ("four threads made the first compilations of the process at once",))
