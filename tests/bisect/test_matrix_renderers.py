"""Terminal, Markdown, JSON, JUnit and the gate: dated, with a legend, traceable, and nothing hostile gets through."""

from __future__ import annotations

import json
from bisect.commands.search_options import HAZARDS
from bisect.matrix import Rules, State
from bisect.matrix.as_json import parse_report, parse_run_entry, report_json
from bisect.matrix.as_junit import junit
from bisect.matrix.as_text import markdown, terminal
from bisect.matrix.compare import compare
from bisect.matrix.gate import EXIT_CODE, matched, parse_gate
from bisect.matrix.report import CRASHING, HazardAnswer, Origin, make_report
from bisect.matrix.state import assess
from dataclasses import asdict, replace
from xml.etree import ElementTree as ET

import pytest

from envs import errors
from envs.errors import UsageError

from .matrix_cells import OK, RACE, blocked, cell, session, steps

HOSTILE = '<script>alert(1)</script> | "><img src=x onerror=alert(1)> `rm` \x1b[31m \x00 **b**'


def report(*cells, **others):
    origin = Origin(
        created="2026-11-29T20:00:00Z",
        command="python -m bisect matrix --axes axes.toml",
        axes="",
        benchmark="b" * 64,
        current="cu128",
    )
    points = {"cu128": ("2.10.0", "cu128"), "cu130": ("2.11.0", "cu130"), "cu132": ("2.15.0", "cu132")}
    return replace(make_report(cells, rules=Rules(), origin=origin, points=points), **others)


def sample(**others):
    return report(
        *session({"cu128": 10.0, "cu130": 8.0}, rounds=6, noise=0.01),
        cell("cu130", [OK] * 4 + [RACE] * 2, history="sglang-residue"),
        blocked("cu132", unblock="driver 580.65.06 or newer"),
        cell("cu132", history="sglang-residue"),
        **others,
    )


def test_the_terminal_says_the_advice_first_and_the_noise_under_the_table():
    """The reader would have to find the verdict in forty rows."""
    text = terminal(sample())

    assert text.startswith(("Not enough evidence", "Stay", "Upgrade"))
    assert "A/A noise: two runs of one cell differ by up to" in text
    assert text.index("A/A noise") > text.index("cu130+sglang-residue")
    assert "race (fx_flag_race)" in text
    assert "2/6" in text
    assert "not tested" in text
    assert "driver 580.65.06 or newer" in text


def test_every_row_names_the_run_directory_behind_it():
    """A number nobody can trace is a rumour."""
    entries = sample().view.assessments
    text = terminal(sample())

    for entry in entries:
        if entry.cell.runs:
            assert any(run.run in text for run in entry.cell.runs)


def test_markdown_is_dated_has_a_legend_and_names_every_state_it_uses():
    """A table people link to, years later (G10)."""
    text = markdown(sample())

    assert "2026-11-29T20:00:00Z" in text
    assert "- not tested: nothing is known" in text
    assert "- driver too old:" in text
    assert "python -m bisect matrix --axes axes.toml" in text
    squeezed = " ".join(text.split())
    assert "| environment | torch | CUDA | none, cold |" in squeezed
    assert "| cu130+sglang-residue | 2.11.0 | cu130 | race 2/6 |" in squeezed
    assert "| cu132+sglang-residue | 2.15.0 | cu132 | not tested |" in squeezed


def hostile_report():
    bad = cell("cu130", ["segfault"])
    bad = replace(
        bad, runs=(replace(bad.runs[0], evidence=(HOSTILE,), secondary=(), advice=HOSTILE, run=f"runs/{HOSTILE}"),)
    )
    return report(cell("cu128", [OK]), bad, blocked("cu132", reason=HOSTILE, unblock=HOSTILE))


def test_markdown_neutralises_markup_in_log_lines():
    """A log line would become a tag, a table cell or a code span in somebody's wiki."""
    text = markdown(hostile_report())

    assert "<script" not in text
    assert "<img" not in text
    rows = [line for line in text.splitlines() if line.startswith("| cu132")]
    assert rows
    assert {line.replace("\\|", "").count("|") for line in rows} == {5, 13}


@pytest.mark.parametrize("render", [terminal, markdown])
def test_escape_codes_of_a_log_line_reach_no_terminal(render):
    """A crashed run's output would repaint the reader's screen, or hide a row."""
    text = render(hostile_report())

    assert "\x1b" not in text
    assert "\x00" not in text
    assert "?[31m" in text.replace("\\", "")


def test_junit_counts_failures_and_skips_what_was_not_tested():
    """A dashboard would show an untested cell as passed."""
    root = ET.fromstring(junit(sample()).split("\n", 1)[1])

    cases = root.findall(".//testcase")
    assert len(cases) == 5
    assert len(root.findall(".//failure")) == 2
    assert len(root.findall(".//skipped")) == 2
    assert sum(int(suite.get("tests")) for suite in root) == 5
    assert [
        suite.get("failures") for suite in root if "sglang" in suite.get("name") and "cu130" in suite.get("name")
    ] == ["1"]


def test_junit_survives_control_characters():
    """One escape code in a log line would make the whole file unreadable."""
    root = ET.fromstring(junit(hostile_report()).split("\n", 1)[1])

    assert "<script>" in root.find(".//failure").text


def test_the_json_report_reads_back_to_the_same_states():
    """`--compare OLD` would compare with something else than what was reported."""
    made = sample()

    view = parse_report(report_json(made), source="matrix.json")

    assert [entry.label for entry in view.assessments] == [entry.label for entry in made.view.assessments]
    assert json.loads(report_json(made))["schema"] == 1


def test_the_json_holds_noise_baseline_recommendation_and_runs():
    """Scripts build on these names."""
    document = json.loads(report_json(sample()))

    (machine,) = document["machines"]
    assert machine["noise"]["baseline_runs"] == 7
    assert machine["baseline"] == document["cells"][0]["id"]
    assert machine["recommendation"]["advice"] in ("upgrade", "stay", "not enough evidence")
    assert document["cells"][2]["count"] == "2/6"
    assert document["cells"][2]["runs"][0]["run"].startswith("runs/")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object"),
        ('{"kind": "train", "schema": 1}', "is not a matrix file"),
        ('{"kind": "matrix", "schema": 99}', "schema 99"),
        ('{"kind": "matrix", "schema": 1, "cells": [{}], "rules": {}}', "not the JSON report"),
        ('{"kind": "matrix", "schema": 1}', "not the JSON report"),
    ],
)
def test_an_old_report_that_cannot_be_read_is_an_error(text, words):
    """A traceback, or a comparison with nothing."""
    with pytest.raises(UsageError) as caught:
        parse_report(text, source="old.json")

    assert words in caught.value.message


def test_a_run_reads_back_from_its_journal_entry():
    """A resumed matrix would judge other runs than those that were made."""
    one = cell("cu128", [OK, RACE])
    run = replace(one.runs[0], traces=(steps(1.0, 0.5),), facts=(("torch", "2.10.0"),))
    entry = json.loads(json.dumps({"key": asdict(one.key), "run": asdict(run)}))

    assert parse_run_entry(entry, "journal") == (one.key, run)
    for broken in ({"key": entry["key"]}, {**entry, "key": {"nonsense": 1}}, {**entry, "run": {}}):
        with pytest.raises(UsageError, match="not a run of a cell"):
            parse_run_entry(broken, "journal")


def test_the_gate_matches_races_and_large_losses_only():
    """A scheduled job would be red for a percent, or green for a crash."""
    view = sample().view

    assert [entry.state for entry in matched(view, parse_gate("race"))] == [State.RACE]
    assert [entry.state for entry in matched(view, parse_gate("slower:5%"))] == [State.SLOWER]
    assert matched(view, parse_gate("slower:50%")) == ()
    assert len(matched(view, parse_gate("race, slower:5, not-tested, driver-too-old"))) == 4


@pytest.mark.parametrize("text", ["rase", "ok", "slower:x", "race:5%", "???"])
def test_a_wrong_gate_is_an_error(text):
    """A mistyped gate never fails."""
    with pytest.raises(UsageError):
        parse_gate(text)


def test_the_gates_exit_code_is_its_own():
    """A job could not tell a race from a broken index."""
    codes = {
        error.exit_code for error in vars(errors).values() if isinstance(error, type) and issubclass(error, Exception)
    }

    assert EXIT_CODE not in codes | {0, 4, 130}


def test_changes_and_hazards_are_printed():
    """`--compare` would change nothing in the report."""
    new = sample()
    old = assess((cell("cu128", [RACE] * 6),), Rules())
    answer = HazardAnswer(environment="cu130", hazard="fx_flag_trace", answer="leaks", meaning="crashes", run="runs/h")
    text = terminal(
        replace(new, old="old.json", changes=compare(old.assessments, new.view.assessments), hazards=(answer,))
    )

    assert "Compared with old.json" in text
    assert "noise does not explain it" in text
    assert "fx_flag_trace" in text


def test_a_session_too_noisy_for_the_question_says_so():
    """A reader would wait for a hundred runs on a busy machine."""
    noisy = report(*session({"cu128": 10.0, "cu130": 9.4}, rounds=6, noise=0.4))
    quiet = report(*session({"cu128": 10.0, "cu130": 9.0}, rounds=4, noise=0.001))

    assert any("is larger than the allowed slowdown (5%)" in finding for finding in noisy.findings)
    assert not any("allowed slowdown" in finding for finding in quiet.findings)
    assert "or more, for the noise is large" in noisy.recommendations[0][1].sentence


def test_a_noise_bound_from_a_few_runs_is_no_measured_noise():
    """`81 % between two runs` after one pair sends a person to look for what keeps the machine busy."""
    early = report(*session({"cu128": 10.0, "cu130": 9.4}, rounds=2, noise=0.03))

    (line,) = (finding for finding in early.findings if "A/A noise" in finding)
    assert "from 3 runs of the baseline only" in line
    assert "idle machine" not in line


def test_hazards_are_a_table_of_environments():
    """Ten environments with fourteen hazards each would be a list of 140 lines."""
    answers = tuple(
        HazardAnswer(environment=name, hazard="fx_flag_trace", answer=answer, meaning="crashes", run=f"runs/{name}")
        for name, answer in (("cu128", "leaks"), ("cu132", "safe"))
    )
    lines = [" ".join(line.split()) for line in terminal(replace(sample(), hazards=answers)).splitlines()]

    assert "hazard cu128 cu132 what a leak means" in lines
    assert "fx_flag_trace leaks safe crashes" in lines
    assert "Evidence: runs/cu128, runs/cu132" in lines


def test_only_hazards_that_end_a_run_count_against_a_build():
    """Every build leaks something; a leak of configuration would turn every advice to the workaround."""
    cells = (cell("cu128", [OK] * 6), cell("cu130", [OK] * 6), cell("cu130", [OK] * 6, workaround="lock"))
    origin = sample().origin

    def advice(hazard):
        answer = HazardAnswer(environment="cu130", hazard=hazard, answer="leaks", meaning="", run="runs/h")
        made = make_report(cells, rules=Rules(), origin=origin, points={}, hazards=[answer])
        return made.recommendations[0][1].workaround

    assert set(HAZARDS) >= CRASHING
    assert advice("fx_flag_compile") == "lock"
    assert advice("config_patch_leak") == "none"
