"""Speed of a run from its workers' records, warm-up and compilation apart. Pure.

A step is steady when it comes after the warm-up and nothing was compiled anywhere in the process during it. When no
step is steady, all steps after the warm-up count and `steady_includes_compiles` says so. Each thread's rate
is its own tokens by its own time; the rates add up, and `steady_s` is the time in which that sum would have done
`steady_tokens`. Tokens are context tokens; block tokens and anchors per context token are given beside them
because a rate means little without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Steps(Protocol):
    """What is read of a worker; the lists run in parallel, one entry per finished step."""

    step_times_s: list[float]
    step_tokens: list[int]
    step_anchors: list[int]
    step_compiles: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Rates over all drafter threads; zero where nothing was measured (`steady_tokens` is zero too)."""

    warmup_steps: int
    warmup_s: float
    compile_s: float
    steady_s: float
    steady_tokens: int
    steady_steps: int
    steady_includes_compiles: bool
    ktok_s: float
    steps_s: float
    block_tokens_s: float
    mean_context: float
    anchors_per_token: float


def measure(
    workers: Sequence[Steps], *, warmup_steps: int, block_size: int, batch_size: int, compile_s: float
) -> Throughput:
    """Throughput of the drafter threads together."""
    late = [range(warmup_steps, len(worker.step_times_s)) for worker in workers]
    chosen = [[i for i in steps if not worker.step_compiles[i]] for worker, steps in zip(workers, late, strict=True)]
    compiles = not any(chosen)
    if compiles:
        chosen = [list(steps) for steps in late]
    token_rate = step_rate = block_rate = 0.0
    tokens = anchors = steps_done = 0
    for worker, steps in zip(workers, chosen, strict=True):
        seconds = sum(worker.step_times_s[i] for i in steps)
        if seconds <= 0:
            continue
        own_tokens, own_anchors = sum(worker.step_tokens[i] for i in steps), sum(worker.step_anchors[i] for i in steps)
        tokens, anchors, steps_done = tokens + own_tokens, anchors + own_anchors, steps_done + len(steps)
        token_rate += own_tokens / seconds
        step_rate += len(steps) / seconds
        block_rate += own_anchors * block_size / seconds
    return Throughput(
        warmup_steps=warmup_steps,
        warmup_s=max((sum(worker.step_times_s[:warmup_steps]) for worker in workers), default=0.0),
        compile_s=compile_s,
        steady_s=tokens / token_rate if token_rate else 0.0,
        steady_tokens=tokens,
        steady_steps=steps_done,
        steady_includes_compiles=compiles and steps_done > 0,
        ktok_s=token_rate / 1000,
        steps_s=step_rate,
        block_tokens_s=block_rate,
        mean_context=tokens / (steps_done * batch_size) if steps_done else 0.0,
        anchors_per_token=anchors / tokens if tokens else 0.0,
    )
