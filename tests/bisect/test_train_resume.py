"""`train` interrupted, gone on with, and finished: real processes, a real environment of a torch that only waits."""

import json
import os
import shlex
import signal
import subprocess
import sys
from bisect.run_directory import kept_exit_code

import pytest

from .killing import wait_until
from .stub_index import Stub, served
from .test_search_end_to_end import ROOT

pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]
WAITS = "import os, time\nwhile any(name in os.getcwd() for name in os.listdir({gates!r})): time.sleep(0.05)\n"


@pytest.fixture
def words(tmp_path):
    """A `train` of two runs in an environment whose import of torch waits below every directory named in `gates`."""
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n')
    (tmp_path / "gates").mkdir()
    code = WAITS.format(gates=str(tmp_path / "gates"))
    with served(tmp_path / "index", [Stub(version="2.11.0+cu130", commit="c", code=code)]) as url:
        places = ("--index", url, "--default-index", url, "--store", str(tmp_path / "store"))
        yield ("train", str(bare), *places, "--out", str(tmp_path / "out"), "--repeat", "2", "--no-control")


def begin(*words):
    argv = [sys.executable, "-m", "bisect", *words]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*words):
    argv = [sys.executable, "-m", "bisect", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def interrupt(child):
    os.kill(child.pid, signal.SIGINT)
    _, stderr = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "Traceback" not in stderr
    return stderr


def test_an_interrupted_train_says_how_to_go_on_and_a_finished_one_says_its_verdict_again(tmp_path, words):
    """Nobody would know that the runs were kept, and the verdict of a night could be had only by making it again."""
    out, gate = tmp_path / "out", tmp_path / "gates" / "run-0002"
    gate.touch()
    child = begin(*words)
    wait_until((out / "run-0002" / "record.json").exists, child)
    told = interrupt(child)
    gate.unlink()
    kept = (out / "run-0001" / "record.json").stat().st_mtime_ns

    assert f"1 finished run is kept in {out}" in told
    command = shlex.split(told.partition("go on with: ")[2])[-2:]
    assert command == ["resume", str(out)]
    unfinished = run("report", str(out))
    assert unfinished.returncode == 130
    assert unfinished.stdout.startswith("unfinished: train has 1 finished run\n  go on with: ")
    assert json.loads(run("report", str(out), "--json").stdout)["verdict"] == "unfinished"
    resumed = run(*command)
    assert resumed.stdout.startswith("import_broken: ")
    assert (out / "run-0001" / "record.json").stat().st_mtime_ns == kept
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    again, as_json, same = run(*command), run(*command, "--json"), run(*words)

    assert [done.returncode for done in (again, as_json, same)] == [resumed.returncode] * 3
    assert again.stdout == same.stdout == resumed.stdout
    assert all(f"answered before, nothing is run again: {out}" in done.stderr for done in (again, as_json, same))
    assert json.loads(as_json.stdout)["verdict"] == "import_broken"
    assert run("report", str(out)).stdout == resumed.stdout
    reported = run("report", str(out), "--json")
    assert (reported.returncode, reported.stdout) == (resumed.returncode, as_json.stdout)
    log = run("log", str(out))
    assert (log.returncode, log.stdout) == (2, "")
    assert f"hint: python -m bisect report {out}" in log.stderr
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    other = run(*words, "--threads", "5")
    assert other.returncode == 2
    assert "holds the runs of another command" in other.stderr


def test_a_train_interrupted_while_its_environment_is_built_keeps_nothing_and_says_so(tmp_path, words):
    """A line that promised kept runs would send a user to a directory that is gone."""
    (tmp_path / "gates" / "building").touch()
    child = begin(*words)
    wait_until(lambda: any((tmp_path / "store" / "building").glob("*/asked")), child)

    told = interrupt(child)

    assert "interrupted before the first run: nothing is kept" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, 130),
        ({"kind": "train", "verdict": "unknown"}, 4),
        ({"kind": "train", "verdict": "fx_flag_race"}, 0),
        ({"kind": "hazards", "exit_code": 4}, 4),
        ({"kind": "workarounds"}, 0),
    ],
)
def test_the_report_of_a_fixed_number_of_runs_exits_as_their_command_did(tmp_path, answer, code):
    """`report DIR` of a training that nobody could judge would say 0 to a script; so would one that was cut off."""
    if answer is not None:
        (tmp_path / "answer.json").write_text(json.dumps(answer))

    assert kept_exit_code(tmp_path) == code
