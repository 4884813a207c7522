"""Damaged journals and records: one line and a hint, never a traceback, and never a run that counts twice."""

import json
import os
import subprocess
import sys
from bisect.cli import main
from bisect.journal import read
from bisect.matrix import CellRun
from bisect.matrix.key import CellKey
from bisect.matrix.store import MatrixDirectory
from bisect.packages.search import observations_of
from bisect.probe import load_record
from bisect.run_directory import last_run_in
from bisect.state import State
from pathlib import Path

import pytest

from envs.errors import UsageError

from .searches import HEADER

ROOT = Path(__file__).parent.parent.parent
FIRST = {"schema": 1, "kind": "bisect-journal", **HEADER}
PLAN = {
    "event": "plan", "candidates": [{"id": name, "date": "", "version": name} for name in ("1", "2", "3")],
    "good": "1", "bad": "3", "equal": [], "cached": [], "hunted": "x", "certain": False, "throughput": False,
    "min_effect": 0.01, "excluded": [],
}  # fmt: skip
ASKED = {"event": "asked", "confidence": 0.95, "max_runs": 500}
FACTS = {"torch": "2", "cuda": "13.0", "git_version": "a" * 40, "code": ""}
BUILT = {
    "event": "built", "candidate": "3", "seconds": 1.0, "outcome": "", "reason": "", "hint": "", "facts": FACTS,
}  # fmt: skip


def started(candidate, number, **more):
    return {"event": "started", "candidate": candidate, "run": f"run-{number:04d}", **more}


def observed(candidate, number, conclusion, **more):
    return {
        "event": "observed", "candidate": candidate, "conclusion": conclusion, "outcome": "ok",
        "run": f"run-{number:04d}", "seconds": 1.0, "value": None, "drift": None, "stalled": 0.0, "node": "n",
        "evidence": [], "reason": "", **more,
    }  # fmt: skip


SEEN = [observed("3", 1, "bad"), observed("1", 2, "good")]
BEGUN = [PLAN, ASKED, BUILT, started("3", 1), SEEN[0], started("1", 2), SEEN[1]]
ITEM = {"id": "a", "kind": "package", "name": "a", "good": "1", "bad": "2", "weight": 1.0, "why": ""}
SETS = {
    "event": "plan", "items": [ITEM], "needs": [], "families": [], "candidates": ["a"], "good": "g", "bad": "b",
    "hunted": "x", "throughput": False, "min_effect": 0.01, "warnings": [], "unreproducible": [],
}  # fmt: skip


def write(directory, entries, header=FIRST):
    directory.mkdir(exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in (header, *entries)]
    (directory / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return directory


def but(entry, **change):
    """The entry with these keys changed; those that are `...` are left out."""
    return {key: value for key, value in {**entry, **change}.items() if value is not ...}


@pytest.mark.parametrize(
    ("words", "code"), [(("log",), 0), *(((("report", *form)), 130) for form in ((), ("--json",), ("--markdown",)))]
)
def test_a_whole_journal_is_read(words, code, capsys, tmp_path):
    """The journals below would be refused for another reason than their damage."""
    directory = write(tmp_path / "out", BEGUN)

    assert main([words[0], str(directory), *words[1:]]) == code
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", ["log", "report", "resume"])
@pytest.mark.parametrize(
    ("header", "entries", "message"),
    [
        pytest.param(but(FIRST, command=...), [], "line 1 of", id="no command"),
        pytest.param(but(FIRST, argv=...), [], "'argv' is missing", id="no options"),
        pytest.param(but(FIRST, argv="--good 1"), [], "'argv' is not a list of texts", id="options are text"),
        pytest.param(but(FIRST, cwd=...), [], "'cwd' is missing", id="no directory"),
        pytest.param(but(FIRST, command="resume"), [], "'command' is not one of", id="a command that is no search"),
        pytest.param({"schema": 1, "kind": "bisect-journal", "command": "matrix"}, [], "of a matrix", id="a matrix"),
        pytest.param(FIRST, [{"event": "plan"}], "line 2 of", id="a plan that is empty"),
        pytest.param(FIRST, [but(PLAN, good="9")], "'9' is not among its 3 names", id="a plan without its end"),
        pytest.param(FIRST, [but(PLAN, candidates=["1", "3"])], "'candidates' is not", id="candidates are text"),
        pytest.param(FIRST, [but(PLAN, throughput=True, min_effect=...)], "'min_effect' is missing", id="no effect"),
        pytest.param(FIRST, [PLAN, "[" * 100_000], "line 3 of", id="nested beyond all bounds"),
        pytest.param(FIRST, [PLAN, {"event": 5}], "is not a journal entry", id="an event that is a number"),
        pytest.param(FIRST, [PLAN, {"event": "observed"}], "'candidate' is missing", id="an empty observation"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], conclusion="maybe")], "'conclusion' is not one of", id="maybe"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], conclusion=["bad"])], "'conclusion' is not one of", id="a list"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], candidate="9")], "'9' is not in the plan", id="a stranger"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], run="../x")], "'run' is not like run-0001", id="no run's name"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], seconds=float("nan"))], "'seconds' is not", id="no number"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], value=10**400)], "'value' is not", id="a number beyond a float"),
        pytest.param(FIRST, [PLAN, but(SEEN[0], value=1e308)], "'value' is not", id="a ratio beyond a float"),
        pytest.param(FIRST, [PLAN, but(BUILT, facts=[])], "'facts' is not", id="facts are a list"),
        pytest.param(FIRST, [PLAN, *SEEN, observed("3", 1, "good")], "run-0001 was observed before", id="two answers"),
    ],
)
def test_a_damaged_journal_is_refused_by_whoever_reads_it(command, header, entries, message, capsys, tmp_path):
    """A traceback would say nothing of the line, and half of a journal be believed."""
    directory = write(tmp_path / "out", entries, header)

    told = refused(capsys, command, str(directory))
    assert message in told
    assert told.count("\n") == 2


def refused(capsys, *words):
    """What is said, where it is a usage error and nothing else is printed."""
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert "\nhint: " in output.err
    return output.err


@pytest.mark.parametrize("entries", [[SEEN[0]], [ASKED], [started("3", 1)]])
def test_runs_without_their_plan_are_not_searched_again(entries, capsys, tmp_path):
    """A plan made anew may have other candidates than the runs that are there."""
    assert "has lost the plan" in refused(capsys, "report", str(write(tmp_path / "out", entries)))


def test_a_search_killed_before_its_first_question_says_how_to_go_on(capsys, tmp_path):
    """The report would end with a traceback for want of a confidence."""
    assert "resume" in refused(capsys, "report", str(write(tmp_path / "out", [PLAN])))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param([but(SETS, items=[but(ITEM, kind="moon")])], "'items' is not", id="an unknown kind"),
        pytest.param([but(SETS, needs=[["a", "z"]])], "'z' is not among its 1 names", id="needs a stranger"),
        pytest.param([SETS, observed("bad", 1, "bad")], "'items' is missing", id="a run of no mix"),
        pytest.param([SETS, observed("bad", 1, "bad", items=["z"])], "'z' is not in the plan", id="of a stranger"),
    ],
)
def test_a_damaged_package_search_is_refused(entries, message, capsys, tmp_path):
    """Its entries have another shape, and its report another reader."""
    directory = write(tmp_path / "out", entries, {**FIRST, "command": "packages"})

    assert message in refused(capsys, "report", str(directory))


def test_keys_and_events_of_a_newer_version_are_let_through(capsys, tmp_path):
    """A colleague's newer version on the same directory would make it unreadable here."""
    newer = [{**entry, "colour": "blue"} for entry in BEGUN]
    sets = [{**SETS, "items": [{**ITEM, "colour": "blue"}]}, {"event": "painted"}]

    assert main(["report", str(write(tmp_path / "out", [*newer, {"event": "painted"}]))]) == 130
    assert State.replay(newer) == State.replay(BEGUN)
    assert main(["report", str(write(tmp_path / "sets", sets, {**FIRST, "command": "packages"}))]) == 130
    assert capsys.readouterr().err == ""


def test_a_line_that_is_there_twice_is_one_run(capsys, tmp_path):
    """A doubled line would raise the confidence by a run that nobody made."""
    twice = [copy for entry in BEGUN for copy in (entry, entry)]
    for name, entries in (("once", BEGUN), ("twice", twice)):
        main(["report", str(write(tmp_path / name, entries)), "--json"])
    reports = [json.loads(line) for line in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0")]

    assert [report["runs"] for report in reports] == [2, 2]
    assert reports[0]["candidates"] == reports[1]["candidates"]
    assert read(tmp_path / "twice" / "journal.jsonl").of("started") == (BEGUN[3], BEGUN[5])


def test_a_doubled_line_of_a_package_search_is_one_run(tmp_path):
    """As above, where mixes are counted."""
    entries = [SETS, *[observed("bad", 1, "bad", items=["a"])] * 3, observed("bad", 2, "bad", items=["a"])]
    directory = write(tmp_path / "out", entries, {**FIRST, "command": "packages"})

    assert len(observations_of(read(directory / "journal.jsonl").entries)) == 2


def test_a_doubled_line_of_a_matrix_is_one_run(tmp_path):
    """A cell would be settled by half of the runs that its rules ask for."""
    key = CellKey(build="cu130")
    matrix = MatrixDirectory(tmp_path / "m")
    matrix.add_run(key, CellRun(cell=key.digest, run="runs/0001-x", outcome="ok"))
    matrix.close()
    path = tmp_path / "m" / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in (*lines, lines[-1])))

    assert len(read(path).of("ran")) == 1


@pytest.mark.parametrize("event", ["started", "ran", "hazards", "control"])
def test_a_damaged_matrix_is_refused_as_well(event, tmp_path):
    """It is read by `matrix` alone, when hours of runs are in it."""
    header = {"schema": 1, "kind": "bisect-journal", "command": "matrix"}
    directory = write(tmp_path / "m", [{"event": event}], header)

    with pytest.raises(UsageError, match=r"line 2 of .* is damaged"):
        MatrixDirectory(directory)


def test_a_run_that_the_journal_forgot_keeps_its_directory(tmp_path):
    """After a restored backup the next run would meet the directory of the last one, or write into it."""
    for name in ("run-0002", "run-0007-baseline", "environments", "run-x"):
        (tmp_path / name).mkdir()
    assert last_run_in(tmp_path) == 7

    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "run-0012.task").touch()
    assert last_run_in(tmp_path) == 12


def test_the_number_of_a_lost_line_is_not_given_again():
    """With the line of run-0001 gone, a count of the lines would name the next run run-0002 a second time."""
    assert State.replay([started("1", 2), observed("1", 2, "good")]).last_run == 2


@pytest.mark.parametrize("kept", ["command.json", "journal.jsonl"])
def test_a_directory_that_is_gone_is_told_with_the_command_to_give(kept, capsys, tmp_path):
    """On a cluster the directory of a search is often another one than that of the next login."""
    header = {**FIRST, "cwd": str(tmp_path / "gone"), "argv": ["--good", "1", "--", "x"]}
    directory = write(tmp_path / "out", BEGUN, header)
    if kept == "command.json":
        (directory / kept).write_text(json.dumps({**header, "command": "train", "identity": "x"}))
    told = refused(capsys, "resume", str(directory))

    assert f"is gone: {tmp_path / 'gone'}" in told
    assert f"--good 1 --out {directory} -- x" in told


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000, '{"command": "train", "argv": [], "cwd": 5}'])
def test_a_damaged_command_file_is_refused(text, capsys, tmp_path):
    """`resume` of a `train` would end with a traceback."""
    (tmp_path / "command.json").write_text(text)

    assert "command.json" in refused(capsys, "resume", str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", '{"environment": "e", "argv": [], "ended": {"returncode": 0}}'])
def test_a_damaged_record_of_a_run_names_its_file(text, tmp_path):
    """It would end a search with a traceback, or be taken for a run that has not ended."""
    (tmp_path / "record.json").write_text(text)

    with pytest.raises(UsageError, match=r"record\.json"):
        load_record(tmp_path)


def test_a_report_needs_no_run_directory(capsys, tmp_path):
    """A journal that was sent alone could not be read."""
    seen = [observed(name, 10 * int(name) + at, word) for name, word in (("1", "good"), ("2", "bad"), ("3", "bad"))
            for at in range(9)]  # fmt: skip
    directory = write(tmp_path / "out", [PLAN, ASKED, *seen])

    assert main(["report", str(directory)]) == 0
    assert "first bad 2" in capsys.readouterr().out


@pytest.mark.subprocess
def test_what_no_terminal_shows_is_printed_escaped(tmp_path):
    """A directory or an option that is not UTF-8 would end the report with a traceback."""
    directory = write(tmp_path / "out", BEGUN, {**FIRST, "argv": ["--store", "/\udcff"]})
    argv = [sys.executable, "-m", "bisect", "log", directory]
    variables = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(argv, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert r"--store /\udcff" in done.stdout
