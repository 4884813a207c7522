"""Why a training run was slow, in sentences, from its result alone.

Pure. Each sentence states a measured number and what it means; what cost most comes first. Shares are of the time the
drafter threads spent in steps. A run in which nothing stands out yields no sentence, which is an answer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .result import ProcessRecord, TrainResult

WORTH_SAYING = 0.1
"""Share of the drafters' time below which waiting is not worth a sentence."""
IDLE_GPU = 50.0
"""Percent busy below which a drafter's GPU counts as idle."""
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One cause: a name for machines, a sentence for people, and the share of time it is known to have cost."""

    name: str
    sentence: str
    share: float


def explain(result: TrainResult) -> tuple[Reason, ...]:
    """Every cause that stands out, the costliest first; a cause that explains the others before what it explains."""
    process = result.process
    if process is None:
        return ()
    found = [*_dense(result, process), *_limit(result, process), *_compiling(result, process), *_autotuning(process)]
    found += [*_waiting(result), *_dead(result), *_idle(result, process)]
    return tuple(sorted(found, key=lambda reason: -reason.share))


def compare(result: TrainResult, baseline: TrainResult) -> str:
    """One line: how fast against how fast, and the causes by name."""
    ours, theirs = (run.throughput.ktok_s if run.throughput else 0.0 for run in (result, baseline))
    names = ", ".join(reason.name for reason in explain(result)) or "nothing that stands out"
    ratio = f"{ours / theirs:.2f}x" if theirs > 0 else "no ratio"
    return f"{ours:.3g} Ktok/s against {theirs:.3g} ({ratio}): {names}"


def _dense(result: TrainResult, process: ProcessRecord) -> Iterator[Reason]:
    if not process.dense_calls:
        return
    first = process.dense_first
    since = f" since step {first.step} of {first.thread}" if first and first.step is not None else ""
    size = f", a score matrix of {_size(first.score_bytes)} each" if first and first.score_bytes else ""
    asked = {"dense": "forced by --force dense", "recompile-limit": "forced by --force recompile-limit"}
    why = asked.get(result.force, "")
    if result.workaround.name == "no-compile":
        why = "the workaround no-compile asks for it"
    elif not why and process.recompile_limit_hits:
        why = "the recompile limit was reached"
    because = f": {why}" if why else ""
    text = f"{process.dense_calls} attention calls ran dense instead of fused{since}{size}{because}"
    # It multiplies the work of every step it touches, which no timer shows: it is put before whatever was timed.
    yield Reason(name="dense_fallback", sentence=text, share=1.0)


def _limit(result: TrainResult, process: ProcessRecord) -> Iterator[Reason]:
    if not process.recompile_limit_hits:
        return
    where = ", ".join(
        f"{hit.thread or '?'} at step {'?' if hit.step is None else hit.step} (limit {hit.limit})"
        for hit in process.recompile_limit_hits[:6]
    )
    text = f"the recompile limit was reached in {where}: later variants run uncompiled, without an error"
    asked = result.config.get("recompile_limit")
    smaller = {hit.limit for hit in process.recompile_limit_hits if isinstance(asked, int) and hit.limit != asked}
    if smaller and result.force != "recompile-limit":
        text += f"; {asked} was configured, but the setting did not reach the thread that read it"
    yield Reason(name="recompile_limit", sentence=text, share=0.95)


def _compiling(result: TrainResult, process: ProcessRecord) -> Iterator[Reason]:
    steps = sum(thread.steps for thread in result.drafters)
    speed = result.throughput
    late = sum(sum(count > 0 for count in thread.step_compiles[_warmup(result) :]) for thread in result.drafters)
    if not steps or not process.recompiles or not late:
        return
    most = max(process.recompile_reasons, key=lambda reason: reason.count, default=None)
    guard = f"; the guard that failed most ({most.count}x, {most.function}): {most.reason}" if most else ""
    spent = f", {speed.compile_s:.1f} s of compiling in all" if speed and speed.compile_s > 0 else ""
    text = (
        f"{late} of {steps} steps still compiled after the warm-up: {process.recompiles} recompilations{spent}{guard}"
    )
    yield Reason(name="recompiles", sentence=text, share=late / steps)


def _autotuning(process: ProcessRecord) -> Iterator[Reason]:
    texts = [warning.text for warning in process.warnings if "autotun" in warning.text.lower()]
    if texts:
        yield Reason(name="autotuning", sentence=f"kernels were tuned during the run: {texts[0]}", share=WORTH_SAYING)


def _waiting(result: TrainResult) -> Iterator[Reason]:
    """Starvation, lock and averaging: each drafter's own waiting over its own time in steps."""
    kinds = (
        ("data_starvation", "queue_wait_s", "waited for data (the target was slower than the drafters)"),
        ("lock_waiting", "lock_wait_s", "waited for the workaround's lock"),
        ("replica_waiting", "average_wait_s", "waited for the other replicas"),
    )
    drafters = [thread for thread in result.drafters if thread.step_times_s]
    busy = sum(sum(thread.step_times_s) for thread in drafters)
    for name, attribute, words in kinds:
        waits = [(thread.name, float(getattr(thread, attribute))) for thread in drafters]
        share = sum(wait for _, wait in waits) / busy if busy else 0.0
        if share >= WORTH_SAYING:
            each = ", ".join(f"{thread} {wait:.1f} s" for thread, wait in waits)
            yield Reason(name=name, sentence=f"{share:.0%} of the drafters' time {words}: {each}", share=share)


def _dead(result: TrainResult) -> Iterator[Reason]:
    dead = [thread.name for thread in result.drafters if not thread.completed]
    if dead and len(dead) < len(result.drafters):
        share = len(dead) / len(result.drafters)
        text = (
            f"{len(dead)} of {len(result.drafters)} drafters did not finish ({', '.join(dead)}): the rate is the rest's"
        )
        yield Reason(name="dead_drafters", sentence=text, share=share)


def _idle(result: TrainResult, process: ProcessRecord) -> Iterator[Reason]:
    """GPUs of drafters that had little to do; a consequence, so it comes after its causes."""
    indexes = {int(number) for thread in result.drafters for number in [thread.device.partition(":")[2]] if number}
    busy = {index: process.gpu_utilization[index] for index in indexes if index < len(process.gpu_utilization)}
    idle = {index: share for index, share in busy.items() if share < IDLE_GPU}
    if idle:
        each = ", ".join(f"GPU {index} {share:.0f} %" for index, share in sorted(idle.items()))
        text = f"the drafters' GPUs were near idle: {each} busy"
        yield Reason(name="gpu_idle", sentence=text, share=0.0)


def _warmup(result: TrainResult) -> int:
    return result.throughput.warmup_steps if result.throughput else 0


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB / 10 else f"{count / 2**20:.1f} MiB"
