"""The hazard probes: the answers every release is known to give, and how a child's death is read."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dflash.config import ConfigError
from dflash.hazards.forced import Answer, CouldNotForceError, Gate, describe, parked
from dflash.hazards.isolate import judge
from dflash.hazards.registry import PROBES, select
from dflash.hazards.repeat import first_crash

ROOT = Path(__file__).parents[2]
FIRST, LAST = (2, 7, 1), (2, 15, 0)

# Measured on the release wheels for CUDA, Python 3.11, without a GPU, 2026-11: first and last release that leaks.
LEAKS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "fx_flag_trace": (FIRST, (2, 13, 0)),
    "fx_flag_make_fx": (FIRST, (2, 13, 0)),
    "fx_flag_flex": (FIRST, (2, 13, 0)),
    "fx_flag_compile": (FIRST, (2, 12, 1)),
    "fx_flag_stuck": (FIRST, (2, 13, 0)),
    "mask_flag": ((99,), (99,)),  # in none: a suspicion that the probe clears
    "is_compiling_leak": ((2, 13, 0), LAST),
    "config_thread_local": ((2, 12, 1), LAST),
    "config_patch_leak": (FIRST, (2, 11, 0)),
    "fx_patcher": (FIRST, LAST),
    "recompile_limit": (FIRST, LAST),
    "mask_metadata": ((2, 13, 0), LAST),
    "metrics_context": (FIRST, (2, 10, 0)),
    "cudagraph_thread": (FIRST, (2, 12, 1)),
    "first_concurrent_compile": ((2, 10, 0), (2, 11, 0)),
}


def release() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:3])


def probe(output: Path, *arguments: str) -> dict:
    argv = [sys.executable, "-m", "dflash.hazards", "--output", str(output), *arguments]
    subprocess.run(argv, cwd=ROOT, check=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return probe(tmp_path_factory.mktemp("hazards") / "hazards.json")


@pytest.fixture(scope="module")
def answers(result):
    return {hazard["name"]: hazard for hazard in result["hazards"]}


@pytest.mark.torch
@pytest.mark.parametrize("name", LEAKS)
def test_the_release_answers_as_measured(answers, name):
    """A probe that answers otherwise makes a search over releases end at the wrong build."""
    if "dev" in torch.__version__ or not FIRST <= release() <= LAST:
        pytest.skip(f"no measured answer for torch {torch.__version__}")
    if name == "first_concurrent_compile" and (torch.version.cuda is None or torch.cuda.is_available()):
        pytest.skip("measured on CUDA wheels without a GPU")
    if name == "cudagraph_thread" and torch.version.cuda is None:
        assert answers[name]["answer"] == "not-applicable"
        return
    first, last = LEAKS[name]

    expected = "leaks" if first <= release() <= last else "safe"

    assert expected == answers[name]["answer"], answers[name]["evidence"]


@pytest.mark.torch
def test_every_answer_shows_its_evidence(answers):
    """An answer without evidence cannot be judged by the person who has to believe it."""
    assert set(LEAKS) == set(answers)
    assert all(hazard["evidence"] and hazard["meaning"] and hazard["title"] for hazard in answers.values())


@pytest.mark.torch
def test_only_runs_the_named_probes(tmp_path):
    """`--only` is how a search asks one question in seconds; it must not run, or report, anything else."""
    result = probe(tmp_path / "hazards.json", "--only", "config_thread_local")

    assert [hazard["name"] for hazard in result["hazards"]] == ["config_thread_local"]
    assert result["finished"] is True


@pytest.mark.torch
def test_the_file_has_the_shape_of_the_golden_file(result):
    """The reader of the other package is written against the golden file."""
    golden = json.loads((ROOT / "tests" / "golden" / "hazards.json").read_text())

    assert golden.keys() == result.keys()
    assert golden["environment"].keys() == result["environment"].keys()
    assert golden["hazards"][0].keys() == result["hazards"][0].keys()


def crash_probe():
    return next(probe for probe in PROBES if probe.crash_is_the_hazard)


def harmless_probe():
    return next(probe for probe in PROBES if not probe.crash_is_the_hazard)


def test_a_crash_is_the_answer_only_of_the_probe_that_hunts_it():
    """A segfault somewhere else must not be booked as a leak of the flag."""
    assert judge(crash_probe(), b"", -11, "").answer is Answer.LEAKS
    assert judge(harmless_probe(), b"", -11, "").answer is Answer.COULD_NOT_TEST
    assert judge(crash_probe(), b"", 1, "").answer is Answer.COULD_NOT_TEST


def test_a_crash_names_the_frame_it_died_in():
    """Without the frame nobody can tell which crash it was."""
    log = 'Fatal Python error\n\nCurrent thread 0x00007f (most recent call first):\n  File "fake.py", line 7 in enter\n'

    assert 'File "fake.py", line 7 in enter' in judge(crash_probe(), b"", -11, log).evidence


@pytest.mark.torch
def test_a_race_that_crashes_late_is_still_found(tmp_path):
    """One clean attempt at a race proves little: the crash of a later one is the answer, and ends the attempts."""
    made = tmp_path / "made"

    def crash_the_third_time() -> None:
        with made.open("a") as file:
            file.write("x")
        if made.read_text() == "xxx":
            os.kill(os.getpid(), signal.SIGSEGV)

    crash = first_crash(crash_the_third_time, times=8, deadline_s=30.0)

    assert crash is not None
    assert (crash.attempt, crash.signal, made.read_text()) == (3, signal.SIGSEGV, "xxx")
    assert "Segmentation fault" in crash.log


@pytest.mark.torch
def test_only_attempts_that_end_well_clear_a_build():
    """Attempts that hang or fail have not looked: to call them clean would be a false all-clear."""
    assert first_crash(lambda: None, times=2, deadline_s=30.0) is None
    with pytest.raises(CouldNotForceError, match=r"2 of 2 attempts.*did not end"):
        first_crash(lambda: time.sleep(60), times=2, deadline_s=0.1)
    with pytest.raises(CouldNotForceError, match=r"1 of 1 attempts.*ZeroDivisionError"):
        first_crash(lambda: 1 / 0, times=1, deadline_s=30.0)


def test_an_answer_of_the_child_is_taken_as_it_is():
    """The child's own evidence must reach the file."""
    finding = judge(harmless_probe(), b'{"answer": "safe", "evidence": ["seen"]}', 0, "")

    assert (finding.answer, finding.evidence) == (Answer.SAFE, ("seen",))


def test_work_that_never_reaches_the_gate_is_no_answer():
    """`safe` because the interleaving was never reached would be a false all-clear."""

    def fail() -> None:
        raise ValueError("not traced")

    with pytest.raises(CouldNotForceError, match="not traced"), parked(fail, Gate()):
        pass


def test_the_body_runs_while_the_work_stands_at_the_gate():
    """The forced order: inside the dangerous place, look, go on."""
    order = []
    gate = Gate()

    def work() -> None:
        gate.stop_here()
        order.append("work ends")

    with parked(work, gate):
        order.append("looked")

    assert order == ["looked", "work ends"]


def test_an_unknown_probe_name_is_refused():
    """A misspelled `--only` must not silently probe nothing."""
    with pytest.raises(ConfigError, match="fx_flag_tracee"):
        select("fx_flag_tracee")


def test_an_error_without_a_message_is_described_by_its_place():
    """Older releases raise a bare AssertionError; an empty evidence line proves nothing."""
    with pytest.raises(AssertionError) as caught:
        assert not ROOT

    caught.value.args = ()
    assert "test_hazards.py" in describe(caught.value)
