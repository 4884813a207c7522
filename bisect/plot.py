"""Inline SVG for the HTML pages: posterior of a search, throughput strips, step-time traces.

Geometry only: colours come from the page's CSS through class names, so that light, dark and print need no second
drawing. Elements are built as a tree, so text from a log cannot become markup.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from .pace import stall_limit
from .probability import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .matrix import Trace

TRACE_WIDTH, TRACE_HEIGHT = 420, 120
STRIP_WIDTH, STRIP_HEIGHT = 400, 22
MOST_STALLS = 24
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 8, 10, 22
_WIDE_LEFT = 72
_LABEL_PITCH = 30
_NIGHTLY = re.compile(r"\.dev(\d{8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One candidate of a search: its probability, its runs, and a mark (`last good`, `first bad` or empty)."""

    name: str
    probability: float
    good: int = 0
    bad: int = 0
    skipped: int = 0
    mark: str = ""


def posterior_plot(bars: Sequence[Bar], *, none: float, chance: Callable[[float], str] = percent) -> str:
    """Probability of the change at each candidate, oldest left, with `no change` apart at the right.

    Under each bar: the runs without (round) and with the failure (cross), or a dash where the build was unusable.
    `chance` tells a probability in words.
    """
    width = max(480, min(960, 24 * (len(bars) + 2) + _WIDE_LEFT + _RIGHT))
    height, base = 245, 150
    svg = _svg(width, height, label="Posterior probability of each candidate, and of no change")
    slots = len(bars) + 2
    pitch = (width - _WIDE_LEFT - _RIGHT) / slots
    top = max([bar.probability for bar in bars] + [none, 1e-9])
    scale = (base - _TOP - 8) / top
    _grid_lines(svg, width=width, base=base, top=top, scale=scale)
    labelled = _labelled(bars, pitch)
    for number, bar in enumerate(bars):
        x = _WIDE_LEFT + number * pitch
        group = ET.SubElement(svg, "g", {"class": f"bar {bar.mark.replace(' ', '-')}".strip()})
        ET.SubElement(group, "title").text = _bar_title(bar, chance(bar.probability))
        _rect(group, x + pitch * 0.15, base - bar.probability * scale, pitch * 0.7, bar.probability * scale)
        _runs_mark(group, bar, x + pitch / 2, base)
        if number in labelled:
            _tilted(group, x + pitch / 2, base + 30, bar.name, bold=bool(bar.mark))
    x = _WIDE_LEFT + (len(bars) + 1) * pitch
    group = ET.SubElement(svg, "g", {"class": "bar none"})
    ET.SubElement(group, "title").text = f"no change in the range: {chance(none)}"
    _rect(group, x + pitch * 0.15, base - none * scale, pitch * 0.7, none * scale)
    _tilted(group, x + pitch / 2, base + 30, "no change", bold=False)
    return _text_of(svg)


def throughput_strip(
    values: Sequence[float], *, interval: tuple[float, float, float] | None, band: float, span: tuple[float, float]
) -> str:
    """One cell's runs as dots on the ratio to the baseline, its interval as a bar, the A/A noise as a band.

    `interval` is (low, value, high); `band` the relative A/A difference; `span` the range of ratios drawn.
    """
    svg = _svg(STRIP_WIDTH, STRIP_HEIGHT, label="Throughput of each run relative to the baseline")
    low, high = span

    def at(ratio: float) -> float:
        share = (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low))
        return round(4 + min(1.0, max(0.0, share)) * (STRIP_WIDTH - 8), 1)

    left, right = at(1 / (1 + band)), at(1 + band)
    _rect(svg, left, 1, max(0.5, right - left), STRIP_HEIGHT - 2, kind="noise")
    _line(svg, at(1.0), 0, at(1.0), STRIP_HEIGHT, kind="one")
    if interval is not None:
        _line(svg, at(interval[0]), STRIP_HEIGHT / 2, at(interval[2]), STRIP_HEIGHT / 2, kind="interval")
        _line(svg, at(interval[1]), 4, at(interval[1]), STRIP_HEIGHT - 4, kind="mean")
    for value in values:
        dot = ET.SubElement(
            svg, "circle", {"cx": f"{at(value)}", "cy": f"{STRIP_HEIGHT / 2}", "r": "3.2", "class": "dot"}
        )
        ET.SubElement(dot, "title").text = f"{value:.3f}x"
    return _text_of(svg)


def trace_plot(traces: Sequence[Trace], *, warmup: int, points: int = 60) -> str:
    """Seconds of each step by thread on a logarithmic axis: a recompilation stands out as a spike with a dot.

    Long traces are thinned to `points` groups that keep their longest step, so no stall disappears.
    """
    svg = _svg(TRACE_WIDTH, TRACE_HEIGHT, label="Seconds of each step, one line a thread")
    times = [seconds for trace in traces for seconds in trace.step_times_s if seconds > 0]
    if not times:
        return _text_of(svg)
    low, high = min(times) * 0.9, max(times) * 1.1
    steps = max(len(trace.step_times_s) for trace in traces)
    floor, ceiling = TRACE_HEIGHT - _BOTTOM, _TOP

    def x_of(step: float) -> float:
        return round(_LEFT + step / max(1, steps - 1) * (TRACE_WIDTH - _LEFT - _RIGHT), 1)

    def y_of(seconds: float) -> float:
        share = (math.log(max(seconds, low)) - math.log(low)) / (math.log(high) - math.log(low))
        return round(floor - share * (floor - ceiling), 1)

    if warmup:
        _rect(svg, _LEFT, ceiling, x_of(min(warmup, steps) - 0.5) - _LEFT, floor - ceiling, kind="warmup")
    for tick in _log_ticks(low, high):
        _line(svg, _LEFT, y_of(tick), TRACE_WIDTH - _RIGHT, y_of(tick), kind="grid")
        _label(svg, _LEFT - 4, y_of(tick) + 3, f"{tick:g} s", anchor="end")
    _label(svg, _LEFT, TRACE_HEIGHT - 6, "step 1", anchor="start")
    _label(svg, TRACE_WIDTH - _RIGHT, TRACE_HEIGHT - 6, f"{steps}", anchor="end")
    for number, trace in enumerate(traces):
        coordinates = " ".join(f"{x_of(step)},{y_of(seconds)}" for step, seconds in thinned(trace.step_times_s, points))
        line = ET.SubElement(svg, "polyline", {"points": coordinates, "class": f"trace t{number % 6}"})
        ET.SubElement(line, "title").text = trace.thread
    for trace, step in stalled_steps(traces, warmup=warmup):
        seconds = trace.step_times_s[step]
        place = {"cx": f"{x_of(step)}", "cy": f"{y_of(seconds)}", "r": "3.5", "class": "stall"}
        dot = ET.SubElement(svg, "circle", place)
        ET.SubElement(dot, "title").text = f"stall: {trace.thread}, step {step + 1}, {seconds:.2g} s"
    _key(svg, [trace.thread for trace in traces])
    return _text_of(svg)


def stalled_steps(traces: Sequence[Trace], *, warmup: int) -> list[tuple[Trace, int]]:
    """The steady steps that took far longer than the median one, the same that make a cell degraded."""
    limit = stall_limit([seconds for trace in traces for seconds in trace.step_times_s[warmup:]])
    return [
        (trace, step)
        for trace in traces
        for step, seconds in enumerate(trace.step_times_s)
        if step >= warmup and seconds > limit
    ][:MOST_STALLS]


def thinned(times: Sequence[float], points: int) -> list[tuple[int, float]]:
    """(step, seconds) of the longest step of each of at most `points` equal groups; 5 of [1, 9, 1, 1, 1] stay 5."""
    size = max(1, math.ceil(len(times) / points))
    groups = [range(start, min(start + size, len(times))) for start in range(0, len(times), size)]
    longest = (max(group, key=lambda step: times[step]) for group in groups)
    return [(step, times[step]) for step in longest]


def ratio_span(values: Sequence[float]) -> tuple[float, float]:
    """A range of ratios that holds all values and is never narrower than a tenth around 1."""
    low, high = min([*values, 1.0]), max([*values, 1.0])
    return min(low / 1.02, 0.9), max(high * 1.02, 1.1)


def _bar_title(bar: Bar, chance: str) -> str:
    runs = f"{bar.bad}/{bar.good + bar.bad} runs failed" if bar.good + bar.bad else "not run"
    skipped = f", {bar.skipped} unusable" if bar.skipped else ""
    return f"{bar.name}: {chance}, {runs}{skipped}" + (f" ({bar.mark})" if bar.mark else "")


def _runs_mark(group: ET.Element, bar: Bar, x: float, base: float) -> None:
    y = base + 12
    if bar.bad:
        cross = f"M{x - 4:.1f},{y - 4:.1f}l8,8m0,-8l-8,8"
        ET.SubElement(group, "path", {"d": cross, "class": "bad"})
    elif bar.good:
        ET.SubElement(group, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "4", "class": "good"})
    elif bar.skipped:
        _line(group, x - 4, y, x + 4, y, kind="skipped")


def _grid_lines(svg: ET.Element, *, width: float, base: float, top: float, scale: float) -> None:
    for share in (0.0, 0.5, 1.0):
        y = base - share * top * scale
        _line(svg, _WIDE_LEFT, y, width - _RIGHT, y, kind="grid")
        _label(svg, _WIDE_LEFT - 4, y + 3, f"{share * top:.0%}", anchor="end")


def _labelled(bars: Sequence[Bar], pitch: float) -> set[int]:
    """Positions that get a name: the marked ones, and others where there is room beside them."""
    marked = {number for number, bar in enumerate(bars) if bar.mark}
    step = max(1, math.ceil(_LABEL_PITCH / pitch))
    free = (n for n in range(0, len(bars), step) if all(abs(n - other) >= step for other in marked))
    return marked | set(free)


def _short(name: str) -> str:
    """A nightly's date, or a name cut in its middle."""
    nightly = _NIGHTLY.search(name)
    if nightly is not None:
        return nightly[1]
    return name if len(name) <= 18 else f"{name[:8]}..{name[-8:]}"


def _key(svg: ET.Element, names: Sequence[str]) -> None:
    """The names of the first threads in their colours, under the plot."""
    width = (TRACE_WIDTH - _LEFT - _RIGHT - 70) / max(1, min(4, len(names)))
    for number, name in enumerate(names[:4]):
        attributes = {"x": f"{_LEFT + 45 + number * width:.1f}", "y": f"{TRACE_HEIGHT - 6}", "class": f"k{number}"}
        ET.SubElement(svg, "text", attributes).text = name[:14]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [10.0**decade * factor for decade in decades for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside[:: max(1, math.ceil(len(inside) / 4))]


def _svg(width: float, height: float, *, label: str) -> ET.Element:
    return ET.Element("svg", {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria-label": label})


def _rect(parent: ET.Element, x: float, y: float, width: float, height: float, *, kind: str = "") -> None:
    sides = {"x": x, "y": y, "width": max(0.0, width), "height": max(0.0, height)}
    attributes = {name: f"{value:.1f}" for name, value in sides.items()}
    ET.SubElement(parent, "rect", attributes | ({"class": kind} if kind else {}))


def _line(parent: ET.Element, x1: float, y1: float, x2: float, y2: float, *, kind: str) -> None:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    ET.SubElement(parent, "line", {name: f"{value:.1f}" for name, value in ends.items()} | {"class": kind})


def _label(parent: ET.Element, x: float, y: float, text: str, *, anchor: str) -> None:
    ET.SubElement(parent, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}).text = text


def _tilted(parent: ET.Element, x: float, y: float, text: str, *, bold: bool) -> None:
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "end", "transform": f"rotate(-40 {x:.1f} {y:.1f})"}
    label = ET.SubElement(parent, "text", attributes | ({"class": "strong"} if bold else {}))
    label.text = _short(text)


def _text_of(svg: ET.Element) -> str:
    return ET.tostring(svg, encoding="unicode")
