"""The commands that are printed to be pasted do what they say, and leave the evidence alone."""

import json
import subprocess
from bisect.again import repeat_run, resume_command
from bisect.probe import RunKind, RunRequest, run_once
from bisect.record_file import record_in
from pathlib import Path

import pytest

from .fake_python import CLEAN, fake_environment


def pasted(command, **more):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.subprocess
@pytest.mark.parametrize("out", ["runs/out", "absolute"])
@pytest.mark.parametrize("kind", [RunKind.TRAIN, RunKind.HAZARDS])
def test_a_repeated_run_runs_as_printed_and_leaves_its_evidence_alone(tmp_path, monkeypatch, out, kind):
    """It ended in FileNotFoundError, or wrote over the result that the verdict rests on."""
    monkeypatch.chdir(tmp_path)
    body = CLEAN if kind is RunKind.TRAIN else "result(golden)"
    built = fake_environment(tmp_path, body, kind="train" if kind is RunKind.TRAIN else "hazards")
    run = (tmp_path / out if out == "absolute" else Path(out)) / "run-0001"
    run_once(built, RunRequest(kind=kind, arguments=("--threads", "3"), timeout_s=30.0), run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}

    done = pasted(repeat_run(record_in(run), run, cwd=str(tmp_path)), cwd="/")

    assert done.returncode == 0, done.stderr
    assert json.loads((run / "again" / "result.json").read_text())["schema"] == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.subprocess
def test_a_repeated_command_runs_in_the_environment_it_ran_in(tmp_path):
    """`python -c ...` alone would ask the Python of the shell it is pasted into, and answer about another torch."""
    built = fake_environment(tmp_path, "print('the environment of the run', here)")
    request = RunRequest(kind=RunKind.COMMAND, command=("python", "-c", "1 + 1"), cwd=str(tmp_path), timeout_s=30.0)
    run_once(built, request, tmp_path / "run-0001")
    told = repeat_run(record_in(tmp_path / "run-0001"), tmp_path / "run-0001", cwd=str(tmp_path))

    assert pasted(told, cwd="/").stdout == f"the environment of the run {tmp_path}\n"
    assert "the environment was removed" not in told
    built.python.unlink()
    built.python.parent.rmdir()
    gone = repeat_run(record_in(tmp_path / "run-0001"), tmp_path / "run-0001", cwd=str(tmp_path))
    assert gone.endswith("  # the environment was removed: run the search's command again for it")


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({}, "python -m bisect resume 'my runs/a'"),
        ({"UV": "/bin/uv"}, "uv run python -m bisect resume 'my runs/a'"),
        ({"NOX_CURRENT_SESSION": "bisect", "UV": "/bin/uv"}, "nox -s bisect -- resume 'my runs/a'"),
    ],
)
def test_what_goes_on_works_where_the_search_was_started(environ, command):
    """`python -m bisect` in the shell of somebody who used uv or nox is the standard library's, and prints nothing."""
    assert resume_command(Path("my runs/a"), environ) == command
