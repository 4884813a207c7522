"""The command line of the matrix: what is wrong is said in one line with exit code 2, before anything is made."""

from __future__ import annotations

import argparse
import sys
from bisect.cli import main
from bisect.commands.matrix import BUDGET, DEFAULT_AXES, _exit_code, add_arguments
from bisect.matrix import State
from bisect.matrix.axes import parse_axes, parse_budget
from bisect.matrix.gate import parse_gate
from bisect.matrix.recommend import Advice
from dataclasses import replace

import pytest

from .matrix_cells import OK, blocked, cell
from .test_matrix_renderers import report, sample


@pytest.fixture
def axes(tmp_path):
    path = tmp_path / "axes.toml"
    path.write_text('builds = ["cu128", "cu130"]\n')
    return str(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--resume", "--out", "nowhere"), "nothing to resume"),
        (("--fail-on", "rase"), "did you mean 'race'"),
        (("--budget", "much"), "not a budget"),
        (("--compare", "nowhere.json"), "cannot read the older matrix"),
        (("--axes", "nowhere.toml"), "cannot read the axes file"),
        (("--index", "nowhere"), "not a directory"),
        (("--out", "README.md", "--dry-run"), "--out README.md is not a directory"),
    ],
)
def test_a_wrong_command_line_is_two_and_one_line(axes, capsys, words, message):
    """A traceback, or a matrix directory made for nothing."""
    code = main(["matrix", "--axes", axes, *words])

    said = capsys.readouterr()
    assert code == 2
    assert message in said.err
    assert said.out == ""


def test_an_axes_file_with_a_mistake_names_the_file_and_the_key(tmp_path, capsys):
    """The reader would look for the mistake on the command line."""
    path = tmp_path / "mine.toml"
    path.write_text('bilds = ["cu128"]\n')

    assert main(["matrix", "--axes", str(path)]) == 2
    assert "mine.toml: unknown key 'bilds'" in capsys.readouterr().err


class Asked:
    """What `_exit_code` reads of a request."""

    command = "python -m bisect matrix --out m"

    def __init__(self, gate=""):
        self.gate = parse_gate(gate)


def test_the_exit_code_says_answered_gate_or_unsettled(capsys):
    """A scheduled job sees nothing else."""
    settled, made = report(cell("cu128", [OK] * 6), cell("cu130", [OK] * 6)), sample()
    open_ = report(cell("cu128", [OK] * 6), cell("cu130", [OK]))
    left = replace(open_, origin=replace(open_.origin, left="5 runs, about 2 minutes"))
    assert _exit_code(Asked(), settled, stderr=sys.stderr) == 0
    assert _exit_code(Asked("race"), made, stderr=sys.stderr) == 7
    assert _exit_code(Asked("slower:50%"), settled, stderr=sys.stderr) == 0
    assert left.recommendations[0][1].advice is Advice.NOT_ENOUGH_EVIDENCE
    assert _exit_code(Asked(), left, stderr=sys.stderr) == 4
    assert "go on with: python -m bisect matrix --out m" in capsys.readouterr().err
    changed = report(cell("cu128", [OK] * 6), blocked("cu130", State.INCONSISTENT, unblock="prune it"))
    assert _exit_code(Asked(), changed, stderr=sys.stderr) == 4
    assert capsys.readouterr().err == "prune it; go on with: python -m bisect matrix --out m\n"


def test_the_help_names_the_default_budget():
    """A night's matrix would stop after 18 minutes, and nobody had been told."""
    axes = parse_axes(DEFAULT_AXES.read_text(), shipped=["cu128", "cu130"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    assert parse_budget(BUDGET) == axes.budget
    assert f"{BUDGET} in ours)" in " ".join(parser.format_help().split())
