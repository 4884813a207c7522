"""What one training run measured, in lines: its threads, throughput, GPUs, compilation, cache, and why it was slow.

Pure: takes the result that the benchmark wrote, draws no conclusion about the build (that is `train_report`).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from tabulate import tabulate

from .explain import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .result import Failure, ProcessRecord, RecompileReason, ThreadRecord, ThroughputRecord, TrainResult


def measurements(result: TrainResult, *, token_budget: float, completed: bool) -> list[str]:
    """The thread table and the figures under it; `token_budget` is the tokens of a whole training, for the ETA."""
    went_on = ["            of the threads that went on; a run that fails says little about speed"]
    return [
        "",
        _thread_table(result),
        "",
        *_speed(result.throughput, token_budget),
        *([] if completed else went_on),
        *_gpu(result),
        *_compilation(result.process),
        *_cache(result.process),
        *_why_slow(result),
    ]


def where_of(error: Failure) -> str:
    """The step and the phase in which a thread failed: `at step 2 in its forward`."""
    step = "before its first step" if error.step is None else f"at step {error.step}"
    return f"{step} in its {error.phase}" if error.phase else step


def duration(seconds: float) -> str:
    """A length of time in the unit a person would use. 90000 -> `25.0 hours`."""
    for unit, size in (("days", 86400.0 * 2), ("hours", 5400.0), ("min", 100.0)):
        if seconds >= size:
            return f"{seconds / {'days': 86400.0, 'hours': 3600.0, 'min': 60.0}[unit]:.1f} {unit}"
    return f"{seconds:.0f} s"


def _thread_table(result: TrainResult) -> str:
    warmup = result.throughput.warmup_steps if result.throughput else 0
    rows = [_thread_row(thread, warmup) for thread in result.threads]
    headers = ["thread", "device", "steps", "loss first", "last", "step (median)", "tokens", "waited", "ended"]
    return tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", "left", *["right"] * 6, "left"))


def _thread_row(thread: ThreadRecord, warmup: int) -> list[str]:
    steady = thread.step_times_s[warmup:] or thread.step_times_s
    first, last = (f"{thread.losses[0]:.3f}", f"{thread.losses[-1]:.3f}") if thread.losses else ("", "")
    return [
        thread.name,
        thread.device,
        str(thread.steps),
        first,
        last,
        f"{median(steady) * 1000:.0f} ms" if steady else "",
        str(thread.tokens),
        f"{thread.queue_wait_s + thread.lock_wait_s:.1f} s",
        _ended(thread),
    ]


def _ended(thread: ThreadRecord) -> str:
    if thread.exceptions:
        return f"{thread.exceptions[0].type} {where_of(thread.exceptions[0])}"
    return "completed" if thread.completed else "did not finish"


def _speed(speed: ThroughputRecord | None, token_budget: float) -> list[str]:
    if speed is None:
        return ["throughput: not measured"]
    warm = f"warm-up {speed.warmup_s:.1f} s ({speed.warmup_steps} steps, compiling {speed.compile_s:.1f} s) excluded"
    if not speed.steady_tokens or not speed.ktok_s > 0:
        return [f"throughput: not measured, no step after the warm-up ({warm})"]
    eta = token_budget / (speed.ktok_s * 1000)
    return [
        f"throughput: {speed.ktok_s:.3g} Ktok/s, {speed.steps_s:.3g} steps/s over {speed.steady_s:.1f} s; {warm}",
        f"            {speed.anchors_per_token:.3g} anchors per token, mean context {speed.mean_context:.0f} tokens",
        f"ETA:        {duration(eta)} for {token_budget:.3g} tokens at this rate",
    ]


def _gpu(result: TrainResult) -> list[str]:
    if result.environment is None or result.process is None or not result.environment.gpus:
        return []
    busy = ", ".join(f"{share:.0f} %" for share in result.process.gpu_utilization) or "not measured"
    peak = ", ".join(f"{size / 2**30:.1f} GiB" for size in result.process.peak_gpu_bytes) or "not measured"
    names = "; ".join(_gpu_name(gpu) for gpu in result.environment.gpus)
    return [f"GPU:        {names}; busy {busy}; peak memory {peak}"]


def _gpu_name(gpu: object) -> str:
    """`NVIDIA H200 (9.0, 140 GiB)` from what the benchmark says of a GPU."""
    if not isinstance(gpu, Mapping):
        return str(gpu)
    return f"{gpu.get('name', 'GPU')} ({gpu.get('capability', '?')}, {int(gpu.get('memory_bytes', 0)) / 2**30:.0f} GiB)"


def _compilation(process: ProcessRecord | None) -> list[str]:
    if process is None:
        return []
    graphs = "?" if process.compiles is None else process.compiles
    hits, peak = len(process.recompile_limit_hits), process.peak_rss_bytes / 2**30
    counted = f"{graphs} graphs, {process.recompiles} recompiles, {hits} at the limit"
    lines = [f"compiled:   {counted}, {process.dense_calls} dense flex calls; peak memory {peak:.1f} GiB"]
    lines += [
        f"            recompiled {reason.count}x: {reason.reason} ({reason.thread})"
        for reason in _most_frequent(process.recompile_reasons)
    ]
    return lines


def _cache(process: ProcessRecord | None) -> list[str]:
    """What the compile cache on disk was worth: how warm it was, what was reused, what was compiled again."""
    if process is None or process.cache is None:
        return []
    cache = process.cache
    reused, again = cache.hits + cache.autograd_hits, cache.misses + cache.autograd_misses
    new = max(0, cache.entries_after - cache.entries_before)
    used = f"{reused} reused, {again} compiled again" if reused or again else "nothing of this run is cached on disk"
    return [f"cache:      {cache.mode}, {cache.entries_before} files before and {new} new; {used}"]


def _why_slow(result: TrainResult) -> list[str]:
    """What cost time, the costliest first; nothing where nothing stands out."""
    return [f"slow:       {reason.sentence}" for reason in explain(result)]


def _most_frequent(reasons: Sequence[RecompileReason]) -> list[RecompileReason]:
    return sorted(reasons, key=lambda reason: -reason.count)[:3]
