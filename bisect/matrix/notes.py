"""What stands beside a cell's state: failures of the machine, findings beside a run, memory, confounders."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..pace import MIN_STEADY_STEPS
from . import EXTERNAL
from .throughput import steady_steps

if TYPE_CHECKING:
    from . import Cell

MEMORY_CHANGE = 0.03
"""Relative change of peak memory from which it is said."""
CONFOUNDERS = ("attention", "backend", "dtype", "native_overrides", "threads", "warmed_in_main")
"""Facts of a run that explain a difference in throughput without any difference in torch."""


def notes_on(cell: Cell, baseline: Cell | None) -> tuple[str, ...]:
    """Every note, external failures first."""
    notes = [
        f"{count} run(s) ended by something outside the build, not counted: {outcome}"
        for outcome, count in Counter(run.outcome for run in cell.runs if run.name in EXTERNAL).items()
    ]
    notes += [f"beside it: {text}" for text in dict.fromkeys(text for run in cell.runs for text in run.secondary)]
    short = [run for run in cell.telling if not run.is_failure and run.traces and steady_steps(run) < MIN_STEADY_STEPS]
    if short:
        notes.append(f"too few steps after warm-up for a rate in {short[0].run}")
    return (*notes, *_memory(cell, baseline), *_confounders(cell, baseline))


def _memory(cell: Cell, baseline: Cell | None) -> list[str]:
    """Peak memory is a question of its own: it may grow at another build than the step time does."""
    mine, theirs = peak_of(cell), peak_of(baseline) if baseline is not None else None
    if mine is None or theirs is None or baseline is None or baseline.key == cell.key:
        return []
    change = mine / theirs - 1
    return [f"peak memory {change:+.1%} against the baseline"] if abs(change) >= MEMORY_CHANGE else []


def peak_of(cell: Cell) -> int | None:
    """Largest peak memory of the telling runs, in bytes."""
    return max((run.peak_bytes for run in cell.telling if run.peak_bytes), default=None)


def _confounders(cell: Cell, baseline: Cell | None) -> list[str]:
    if baseline is None or baseline.key == cell.key or not cell.telling or not baseline.telling:
        return []
    here, there = dict(cell.telling[-1].facts), dict(baseline.telling[-1].facts)
    return [
        f"{name} differs from the baseline ({there[name] or 'none'} -> {here[name] or 'none'}): "
        "throughput is not torch's alone"
        for name in CONFOUNDERS
        if name in here and name in there and here[name] != there[name]
    ]
