"""Inline SVG: well-formed, hostile names stay text, and thinning loses no stall."""

from __future__ import annotations

from bisect.plot import Bar, posterior_plot, ratio_span, thinned, throughput_strip, trace_plot
from xml.etree import ElementTree as ET

import pytest

from .matrix_cells import steps

HOSTILE = '</svg><script>alert(1)</script>"onload="x'


def texts(svg):
    return [node.text or "" for node in ET.fromstring(svg).iter()]


def test_thinning_keeps_the_longest_step_of_each_group():
    """A recompile stall of one step in a thousand would vanish from the plot."""
    times = [1.0] * 1000
    times[617] = 9.0

    kept = thinned(times, 60)

    assert len(kept) <= 60
    assert (617, 9.0) in kept
    assert thinned([1, 9, 1], 60) == [(0, 1), (1, 9), (2, 1)]


def test_a_stall_is_the_highest_point_of_the_trace():
    """The plot would hide what it is for."""
    root = ET.fromstring(trace_plot([steps(5.0, *[1.0] * 20, 8.0, *[1.0] * 20)], warmup=1))

    points = [tuple(map(float, pair.split(","))) for pair in root.find("polyline").get("points").split()]
    assert min(points, key=lambda point: point[1]) == points[21]
    assert root.find("rect[@class='warmup']") is not None
    (stall,) = root.findall("circle[@class='stall']")
    assert "step 22, 8 s" in stall.find("title").text


def test_empty_traces_and_zero_times_draw_nothing_and_do_not_fail():
    """A run killed before its first step would break the whole report."""
    assert ET.fromstring(trace_plot([], warmup=3)).find("polyline") is None
    assert ET.fromstring(trace_plot([steps(0.0, 0.0)], warmup=0)).find("polyline") is None
    assert ET.fromstring(trace_plot([steps(0.5)], warmup=3)).find("polyline") is not None


def test_names_and_log_lines_stay_text():
    """A candidate's name is data from an index."""
    for svg in (
        posterior_plot([Bar(name=HOSTILE, probability=0.5, bad=1, mark="first bad")], none=0.5),
        trace_plot([steps(1.0, 2.0, thread=HOSTILE)], warmup=0),
    ):
        assert "<script" not in svg
        assert any(HOSTILE in text for text in texts(svg))


@pytest.mark.parametrize("num", [1, 2, 60, 365])
def test_the_posterior_draws_every_candidate_and_no_change(num):
    """A candidate that is not drawn cannot be suspected."""
    bars = [Bar(name=f"b{number}", probability=1 / (num + 1), good=number % 2) for number in range(num)]
    root = ET.fromstring(posterior_plot(bars, none=1 / (num + 1)))

    heights = [float(rect.get("height")) for rect in root.iter("rect")]
    assert len(heights) == num + 1
    assert max(heights) > 0
    assert any("no change in the range" in text for text in texts(posterior_plot(bars, none=0.2)))


def test_runs_are_marked_under_their_candidate():
    """Counts would be lost in the plot."""
    bars = [
        Bar(name="a", probability=0.1, good=3),
        Bar(name="b", probability=0.9, good=1, bad=2, mark="first bad"),
        Bar(name="c", probability=0.0, skipped=1),
    ]
    svg = posterior_plot(bars, none=0.0)
    root = ET.fromstring(svg)

    assert len(root.findall(".//circle")) == 1
    assert len(root.findall(".//path")) == 1
    assert len(root.findall(".//line[@class='skipped']")) == 1
    assert any("b: 90 %, 2/3 runs failed (first bad)" in text for text in texts(svg))


def test_a_strip_shows_every_run_and_its_interval():
    """A mean alone hides a bimodal build."""
    root = ET.fromstring(
        throughput_strip([0.8, 0.82, 0.99], interval=(0.78, 0.86, 0.94), band=0.03, span=ratio_span([0.8, 0.99]))
    )

    assert len(root.findall("circle")) == 3
    assert root.find("line[@class='interval']") is not None
    assert all(0 <= float(dot.get("cx")) <= 400 for dot in root.findall("circle"))
    assert ET.fromstring(throughput_strip([1.0], interval=None, band=0.0, span=ratio_span([]))) is not None
