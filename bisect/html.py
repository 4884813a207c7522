"""One self-contained HTML page for a matrix or a search: no network, no data outside the file, everything escaped.

Text reaches the page only through jinja2's autoescaping or through the SVG tree of `plot`. The page's one script
moves and clones nodes that are already there; it never parses a string as markup, and the page's own policy allows
no other script, no connection and no frame.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from . import plot
from .intervals import clopper_pearson
from .matrix import MEANINGS, State
from .matrix.as_text import (
    hazard_environments,
    hazard_rows,
    machine_title,
    mebibytes,
    noise_line,
    number,
    shown_run,
    throughput_text,
)
from .matrix.state import format_ratio
from .matrix.throughput import log_ratios
from .probability import percent
from .report import end_labels, git_range, sentence, verdict_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .matrix import CellRun
    from .matrix.report import Report as MatrixReport
    from .matrix.state import Assessment, Machine
    from .report import Report as SearchReport

MAX_EVIDENCE_LINES = 6
MAX_LINE = 400
MANY_CELLS = 60
"""Cells above which each cell keeps one step trace with fewer points, so that the page stays under 2 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The cells of one machine as a grid: environments (with their builds) down, workaround and cache across."""

    title: str
    noise: str
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str, str, tuple[Assessment | None, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One cell's throughput, drawn."""

    entry: Assessment
    svg: Markup


def matrix_page(report: MatrixReport, *, searches: Sequence[SearchReport] = ()) -> str:
    """The page of a matrix; `searches` adds the posterior of bisections that explain a cell."""
    entries = report.view.assessments
    few = len(entries) <= MANY_CELLS
    return _render(
        "matrix.html",
        report=report,
        entries=entries,
        heat_maps=[_heat_map(report, machine) for machine in report.view.machines],
        recommendations=report.recommendations,
        strips=[(machine, _strips(report, machine)) for machine in report.view.machines],
        states=[(state, count) for state in State if (count := sum(entry.state is state for entry in entries))],
        meanings=MEANINGS,
        traces=lambda entry: _traces(entry, most=2 if few else 1, points=60 if few else 36),
        searches=[(search, _posterior(search)) for search in searches],
        hazard_environments=hazard_environments(report),
        hazard_rows=hazard_rows(report),
        sentence=sentence,
    )


def search_page(report: SearchReport, *, created: str = "") -> str:
    """The page of a search: verdict, posterior, counts of every candidate, proving lines, how to repeat it."""
    return _render(
        "search.html",
        report=report,
        created=created,
        sentence=sentence(report),
        verdict=verdict_name(report.step),
        notes=report.notes,
        posterior=_posterior(report),
        chance=_chance_of(report),
        no_change=report.step.posterior.none,
        between=git_range(report),
        ends={row.name: mark for row, mark in zip(report.neighbours, end_labels(report.step), strict=True) if row},
        interval=lambda row: clopper_pearson(row.bad, row.good + row.bad),
    )


def slug(text: str) -> str:
    """A state or mark as a CSS class: `needs a GPU` -> `needs-a-gpu`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def href(path: str) -> str:
    """A run directory as a relative link; a colon is encoded, so it can never name a scheme."""
    return "./" + quote(path.lstrip("/"))


def _render(template: str, **values: object) -> str:
    environment = _environment()
    script, style = (_asset(environment, name) for name in ("page.js", "page.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        script=Markup(script),  # noqa: S704  (a file of this package, not data)
        style=Markup(style),  # noqa: S704
        script_digest=digest,
        **values,
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "slug": slug,
        "href": href,
        "number": number,
        "mebibytes": mebibytes,
        "ratio": format_ratio,
        "throughput": throughput_text,
        "shown_run": shown_run,
        "strength": _strength,
        "evidence": _evidence,
        "machine_title": machine_title,
    }
    return environment


def _asset(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _heat_map(report: MatrixReport, machine: Machine) -> HeatMap:
    entries = report.view.on(machine)
    profiles = {entry.cell.key.profile for entry in entries}

    def column_of(entry: Assessment) -> tuple[str, ...]:
        key = entry.cell.key
        return (key.workaround, f"{key.cache} cache", *((key.profile,) if len(profiles) > 1 else ()))

    columns = tuple(dict.fromkeys(column_of(entry) for entry in entries))
    environments = dict.fromkeys((entry.cell.key.environment, entry.cell.key.build) for entry in entries)
    by_place = {(entry.cell.key.environment, column_of(entry)): entry for entry in entries}
    return HeatMap(
        title=machine_title(machine),
        noise=noise_line(report, machine),
        columns=columns,
        rows=tuple(
            (name, build, tuple(by_place.get((name, column)) for column in columns)) for name, build in environments
        ),
    )


def _strips(report: MatrixReport, machine: Machine) -> list[Strip]:
    baseline, noise = report.view.baseline(machine), report.view.noise_on(machine)
    if baseline is None:
        return []
    ratios = {
        entry.cell.key.digest: [math.exp(value) for value in log_ratios(entry.cell, baseline.cell)]
        for entry in report.view.on(machine)
        if not entry.is_baseline
    }
    span = plot.ratio_span([value for values in ratios.values() for value in values])
    return [
        Strip(entry=entry, svg=_strip(entry, ratios[entry.cell.key.digest], noise.band if noise else 0.0, span))
        for entry in report.view.on(machine)
        if ratios.get(entry.cell.key.digest)
    ]


def _strip(entry: Assessment, values: Sequence[float], band: float, span: tuple[float, float]) -> Markup:
    ratio = entry.ratio
    interval = (ratio.low, ratio.value, ratio.high) if ratio is not None else None
    return Markup(plot.throughput_strip(values, interval=interval, band=band, span=span))  # noqa: S704  (an SVG tree)


def _traces(entry: Assessment, *, most: int, points: int) -> list[tuple[CellRun, Markup]]:
    """The runs worth drawing: failures first, then the one with the longest steady step, then the rest."""
    drawable = [run for run in entry.cell.runs if any(trace.step_times_s for trace in run.traces)]
    drawable.sort(key=lambda run: (not run.is_failure, -_longest(run)))
    return [
        (run, Markup(plot.trace_plot(run.traces, warmup=run.warmup_steps, points=points)))  # noqa: S704  (an SVG tree)
        for run in drawable[:most]
    ]


def _longest(run: CellRun) -> float:
    return max((seconds for trace in run.traces for seconds in trace.step_times_s[run.warmup_steps :]), default=0.0)


def _posterior(report: SearchReport) -> Markup:
    marks = {row.name: mark for row, mark in zip(report.neighbours, end_labels(report.step), strict=True) if row}
    bars = [
        plot.Bar(
            name=row.name,
            probability=row.probability,
            good=row.good,
            bad=row.bad,
            skipped=row.skipped,
            mark=marks.get(row.name, ""),
        )
        for row in report.rows
    ]
    svg = plot.posterior_plot(bars, none=report.step.posterior.none, chance=_chance_of(report))
    return Markup(svg)  # noqa: S704  (an SVG tree)


def _chance_of(report: SearchReport) -> Callable[[float], str]:
    """How a probability is told: where one run settles a build, a candidate is ruled out or it is not."""
    return _possible if report.certain else percent


def _possible(share: float) -> str:
    return "possible" if share > 0.0 else "ruled out"


def _strength(entry: Assessment) -> str:
    """How strongly an ok cell is coloured: 0.25 for what one clean run says, towards 1 as the bound falls."""
    return "1" if entry.allowed is None else f"{max(0.25, 1 - entry.allowed):.2f}"


def _evidence(run: CellRun) -> list[str]:
    """The proving lines of a run, cut to a readable size; the whole log is in the run directory."""
    lines = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} ..." for line in run.evidence]
    more = len(lines) - MAX_EVIDENCE_LINES
    return lines[:MAX_EVIDENCE_LINES] + ([f"... {more} more lines in {run.run}"] if more > 0 else [])
