"""From one finished training run to what its cell keeps of it. Pure: the files are read elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..pace import pace_of
from . import CellRun, Trace

if TYPE_CHECKING:
    from ..classify import Classification
    from ..result import ProcessRecord, ThreadRecord, TrainResult
    from .key import CellKey

_MAX_FACT = 200


def cell_run(
    key: CellKey,
    found: Classification,
    result: TrainResult | None,
    *,
    run: str,
    session: str,
    order: int,
    beside: str,
    at: str,
    seconds: float,
    node: str = "",
) -> CellRun:
    """The run as a line of the journal: outcome and evidence, figures, step times, what it said of itself."""
    pace = pace_of(result)
    process = result.process if result is not None else None
    speed = result.throughput if result is not None else None
    drafters = result.drafters if result is not None else ()
    return CellRun(
        cell=key.digest,
        run=run,
        outcome=str(found.outcome),
        session=session,
        order=order,
        beside=beside,
        at=at,
        secondary=tuple(dict.fromkeys(str(outcome) for outcome in found.secondary)),
        seconds=round(seconds, 3),
        ktok_s=_known(pace.ktok_s) if pace is not None else None,
        warmup_s=_known(speed.warmup_s) if speed is not None else None,
        compile_s=_known(speed.compile_s) if speed is not None else None,
        peak_bytes=_peak(process) if process is not None else None,
        recompiles=process.recompiles if process is not None else 0,
        dense_calls=process.dense_calls if process is not None else 0,
        warmup_steps=speed.warmup_steps if speed is not None else 0,
        facts=(*(_facts(result) if result is not None else ()), *((("node", node),) if node else ())),
        evidence=found.evidence,
        advice=found.advice,
        traces=tuple(_trace(thread) for thread in drafters if thread.step_times_s),
    )


def _known(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) and value >= 0 else None


def _peak(process: ProcessRecord) -> int | None:
    return sum(process.peak_gpu_bytes) or process.peak_rss_bytes or None


def _trace(thread: ThreadRecord) -> Trace:
    return Trace(thread=thread.name, step_times_s=tuple(round(seconds, 4) for seconds in thread.step_times_s))


def _facts(result: TrainResult) -> tuple[tuple[str, str], ...]:
    """Versions for the reader, and what would explain a difference in throughput without any in torch."""
    facts: dict[str, object] = {}
    if result.environment is not None:
        here = result.environment
        names = ("torch", "git_version", "cuda", "triton", "cudnn", "nccl", "driver", "python", "glibc")
        facts |= {name: getattr(here, name) for name in names}
        facts["native_overrides"] = ", ".join(sorted(str(item) for item in here.native_overrides))
    process = result.process
    if process is not None:
        facts["attention"] = "dense" if process.dense_calls else "fused"
        facts["warmed_in_main"] = "yes" if process.warmed_in_main else "no"
    facts |= {name: result.config.get(name, "") for name in ("backend", "dtype")}
    facts["threads"] = result.num_drafters
    facts["amplified"] = "yes" if result.amplified else "no"
    return tuple((name, ("" if value is None else str(value))[:_MAX_FACT]) for name, value in facts.items())
