"""`hazards`: the table of answers, what was not tested, the exit code, and the files of the run directory."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
from bisect.commands import hazards as command
from bisect.commands.search_options import HAZARDS
from bisect.hazards_report import ProbedEnvironment, as_json, render
from bisect.result_file import parse_hazards

import pytest

from envs.errors import UsageError

from .fake_python import GOLDEN, fake_environment


def result(**answers):
    content = json.loads((GOLDEN / "hazards.json").read_text())
    one = content["hazards"][0]
    content["hazards"] = [one | {"name": name, "answer": answer.replace("_", "-")} for name, answer in answers.items()]
    return parse_hazards(json.dumps(content))


def probed(name, found, *, trouble=""):
    return ProbedEnvironment(name=name, result=found, trouble=trouble, directory=f"runs/x/{name}")


def test_two_environments_stand_side_by_side():
    """Which build has which hole is the question; a cell that was not tested must not look like safe."""
    environments = [
        probed("cu128", result(fx_flag_compile="leaks", mask_metadata="safe")),
        probed("cu130", result(fx_flag_compile="safe")),
    ]

    report = render(environments, reproduce="python -m bisect hazards cu128 cu130")

    table = [line.split() for line in report.splitlines()[3:7]]
    assert table[0] == ["hazard", "cu128", "cu130"]
    assert table[2] == ["fx_flag_compile", "leaks", "safe"]
    assert table[3] == ["mask_metadata", "safe", "not", "tested"]
    assert report.startswith("cu128 (torch 2.11.0+cu130): 1 of 2 hazards leak: fx_flag_compile; 13 not tested\n")
    assert report.endswith("repeat with: python -m bisect hazards cu128 cu130")


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (dict.fromkeys(HAZARDS, "safe"), "no hazard leaks"),
        ({"mask_flag": "safe"}, "none of the 1 tested leaks; 14 not tested"),
        (dict.fromkeys(HAZARDS, "safe") | {"mask_flag": "could_not_test"}, "none of the 14 tested leaks; 1 not tested"),
        ({"mask_flag": "could_not_test"}, "none of the 0 tested leaks; 15 not tested"),
    ],
)
def test_what_was_not_asked_is_never_said_not_to_leak(answers, verdict):
    """`no hazard leaks` after `--only mask_flag` would be read as the word for all fifteen."""
    found = probed("cu130", result(**answers))

    assert render([found], reproduce="").splitlines()[0] == f"cu130 (torch 2.11.0+cu130): {verdict}"
    assert len(as_json([found], reproduce="")["environments"][0]["not_tested"]) == len(found.not_tested)


def test_an_answer_under_a_workaround_is_not_told_of_the_build_alone():
    """Pasted into a ticket, the line would call a leaking build safe."""
    closed = dataclasses.replace(result(mask_flag="safe"), workaround="patch-check")

    assert "+cu130) under patch-check: none" in render([probed("cu130", closed)], reproduce="")


def test_an_environment_without_a_result_is_not_tested():
    """A build that cannot even import torch must be told, not skipped."""
    report = render([probed("cu132", None, trouble="exit code 1: ImportError: libcudnn")], reproduce="")

    assert report.startswith("cu132: not tested: exit code 1: ImportError: libcudnn")


@pytest.mark.parametrize(
    ("answers", "complete"), [({"a": "leaks"}, True), ({"a": "safe", "b": "could_not_test"}, False), ({}, False)]
)
def test_an_answer_that_could_not_be_had_is_not_an_answer(answers, complete):
    """The exit code tells a script whether it may believe the table."""
    assert probed("cu130", result(**answers)).complete is complete


def test_the_json_holds_every_answer_with_its_evidence():
    """The matrix and people's scripts read this."""
    found = as_json([probed("cu130", result(fx_flag_compile="leaks"))], reproduce="again")["environments"]

    assert found[0]["answers"] == {"fx_flag_compile": "leaks"}
    assert found[0]["hazards"][0]["evidence"]


@pytest.mark.subprocess
def test_the_probes_run_in_the_environment_and_leave_their_evidence(tmp_path):
    """The result is read from the file the probes wrote, and kept."""
    built = fake_environment(tmp_path, "result(golden)", kind="hazards")
    request = command.probe_request(["fx_flag_trace"], "none", environment=(), timeout_s=30.0)

    found = command.probe("fake", built, request, tmp_path / "run")

    assert found.result.answer("fx_flag_trace") == "leaks"
    assert "--only" in json.loads((tmp_path / "run" / "record.json").read_text())["argv"]


@pytest.mark.subprocess
def test_a_dead_prober_is_told_by_its_last_words(tmp_path):
    """Without a file there is no answer, and the reason is in the log."""
    built = fake_environment(tmp_path, "print('ImportError: no torch'); sys.exit(1)", kind="hazards")
    request = command.probe_request([], "none", environment=(), timeout_s=30.0)

    found = command.probe("fake", built, request, tmp_path / "run")

    assert found.result is None
    assert "exit code 1: ImportError: no torch" in found.trouble


def parse(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_a_misspelled_hazard_is_refused_before_anything_is_built():
    """A typo must not cost a 5 GB build first."""
    with pytest.raises(UsageError, match="fx_flagg"):
        command.run(parse("cu130", "--only", "fx_flagg"), stdout=io.StringIO(), stderr=io.StringIO())
