"""Everything the renderers print, put together once: cells, recommendation, findings, comparison, origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .factors import Point, islands, platform_differences, separations
from .offers import offers
from .recommend import Recommendation, recommend
from .state import assess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import Cell, Rules
    from .compare import Change
    from .state import Machine, View
    from .throughput import Noise

FEWEST_DEGREES = 3.0
"""Degrees of freedom below which a large noise is the want of runs, not the machine."""

CRASHING = frozenset(
    {
        "fx_flag_trace",
        "fx_flag_make_fx",
        "fx_flag_flex",
        "fx_flag_compile",
        "fx_flag_stuck",
        "fx_patcher",
        "mask_metadata",
        "metrics_context",
        "first_concurrent_compile",
    }
)
"""Hazards that end a run; the others (configuration not seen in a thread, ...) are shown, and decide nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardAnswer:
    """What a deterministic probe said about one environment; `run` is its run directory."""

    environment: str
    hazard: str
    answer: str
    meaning: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a matrix comes from.

    Attributes:
        created: when the report was made, ISO 8601 in UTC.
        command: the command that repeats it.
        axes: the axes file, as given.
        benchmark: digest of the benchmark's source code.
        current: the build in use today.
        left: what is left to run, in words; empty when every cell is good enough.
    """

    created: str
    command: str
    axes: str
    benchmark: str
    current: str
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One matrix, judged. `findings` are sentences; `points` gives each build's torch release and CUDA variant."""

    origin: Origin
    view: View
    points: Mapping[str, Point]
    recommendations: tuple[tuple[Machine, Recommendation], ...]
    findings: tuple[str, ...]
    hazards: tuple[HazardAnswer, ...] = ()
    old: str = ""
    changes: tuple[Change, ...] = field(default=())


def too_noisy(view: View) -> tuple[str, ...]:
    """Machines whose runs differ among themselves by more than the slowdown that is asked about."""
    limit = view.rules.max_slowdown
    return tuple(_noise_line(machine, noise, limit) for machine, noise in view.noise if noise.band > 2 * limit)


def _noise_line(machine: Machine, noise: Noise, limit: float) -> str:
    where = " ".join(part for part in machine[:2] if part)
    if noise.degrees < FEWEST_DEGREES:
        return (
            f"the A/A noise of {where} is known from {noise.baseline_runs} runs of the baseline only: two runs of one "
            f"cell may differ by up to {noise.band:.0%}, more than the allowed slowdown ({limit:.0%}); go on for more"
        )
    return (
        f"the A/A noise of {where} (up to {noise.band:.0%} between two runs of one cell) is larger than the allowed "
        f"slowdown ({limit:.0%}): use an idle machine, or longer runs (--steps among the `arguments` of the axes)"
    )


def make_report(
    cells: Sequence[Cell],
    *,
    rules: Rules,
    origin: Origin,
    points: Mapping[str, Point],
    hazards: Sequence[HazardAnswer] = (),
) -> Report:
    """Judge the cells: one recommendation a machine, and what the axes explain."""
    view = assess(cells, rules)
    leaks = tuple(
        (answer.environment, answer.hazard)
        for answer in hazards
        if answer.answer == "leaks" and answer.hazard in CRASHING
    )
    return Report(
        origin=origin,
        view=view,
        points=dict(points),
        recommendations=tuple(
            (machine, recommend(view, current=origin.current, machine=machine, leaks=leaks))
            for machine in view.machines
        ),
        findings=(
            *(f"{item.where}: {item.text}" for item in separations(view, points)),
            *(item.text for item in islands(view, points)),
            *platform_differences(view),
            *offers(view, points),
            *too_noisy(view),
        ),
        hazards=tuple(hazards),
    )
