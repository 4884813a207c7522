"""What happens when one compiled flex attention meets more variants than Dynamo's recompile limit.

The incident's axes are devices x mask kinds x grad modes. Three devices exist here only as three dtypes: a guard on
the dtype costs one cache entry per variant exactly as a guard on the device index does.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING

import torch

from .forced import Answer, CouldNotForceError, Finding, describe, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUM_DEVICES = 3
LENGTH = 16


class CountingBackend:
    """Counts compilations and the calls that ran compiled code."""

    def __init__(self) -> None:
        self.num_compiles = 0
        self.num_compiled_calls = 0

    def __call__(self, graph: torch.fx.GraphModule, _inputs: object) -> Callable[..., object]:
        self.num_compiles += 1

        def run(*args: object) -> object:
            self.num_compiled_calls += 1
            return graph.forward(*args)

        return run


def variants() -> Iterator[tuple[torch.dtype, Callable[..., object], bool]]:
    """Device stand-ins x {full, sliding} masks x {grad, no grad}: 12, above the default limit of 8."""

    def full(_b: object, _h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return q >= k

    def sliding(_b: object, _h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (q >= k) & (q - k < 8)

    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    return itertools.product(dtypes, (full, sliding), (False, True))


def call_all_variants(compiled: Callable[..., object]) -> Iterator[BaseException | None]:
    """Call every variant once; yields the error of each, or None."""
    from torch.nn.attention.flex_attention import create_block_mask

    for dtype, mask_mod, grad in variants():
        block_mask = create_block_mask(mask_mod, None, None, LENGTH, LENGTH, device="cpu")
        query, key, value = (torch.ones(1, 1, LENGTH, 16, dtype=dtype) for _ in range(3))
        with torch.set_grad_enabled(grad):
            yield error_of(compiled, query, key, value, None, block_mask)


def recompile_limit() -> Finding:
    from torch._dynamo import config
    from torch.nn.attention.flex_attention import flex_attention

    def strict() -> Callable[..., object]:
        return torch.compile(flex_attention, backend="eager", fullgraph=True)

    backend = CountingBackend()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        errors = list(call_all_variants(torch.compile(flex_attention, backend=backend)))
    failed = next((error for error in errors if error is not None), None)
    if failed is not None:
        raise CouldNotForceError(f"a variant failed: {describe(failed)}")
    limit = config.recompile_limit
    torch.compiler.reset()
    with config.patch(recompile_limit=1):  # the same refusal, sooner
        refusals = list(itertools.islice(call_all_variants(strict()), 2))
    return judge(len(errors), backend, refusals[-1], limit, [str(entry.message) for entry in caught])


def judge(
    num_calls: int,
    backend: CountingBackend,
    refusal: BaseException | None,
    limit: int,
    messages: list[str],
) -> Finding:
    """Silent dense calls beyond the limit are the hazard; an error instead of them is safe."""
    dense = num_calls - backend.num_compiled_calls
    said = any("without torch.compile" in message for message in messages)
    reached = f"{num_calls} variants ({NUM_DEVICES} devices x 2 masks x 2 grad modes), limit {limit}"
    outcome = f"{backend.num_compiles} compilations, then {dense} calls ran as dense attention, without an error"
    evidence = [f"{reached}: {outcome}", f"the only sign is a warning: {said}"]
    if refusal is not None:
        evidence.append(f"with fullgraph=True the call beyond the limit fails instead: {describe(refusal)}")
    return Finding(Answer.LEAKS if dense else Answer.SAFE, tuple(evidence))
