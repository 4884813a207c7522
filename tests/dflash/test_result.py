"""The result file: its keys are a contract, and a killed run leaves one behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dflash.result import Progress, plain, write_atomically

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "train.json").read_text())


def _dflash(tmp_path, *argv, timeout=240):
    """Run the benchmark as its user does; the completed process and the result."""
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "dflash", "--output", str(output), *argv]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    found = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    return found, json.loads(output.read_text()) if output.exists() else None


def _keys(document, prefix=""):
    """Every key path of a document; of a list the keys of all its entries together."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield prefix + key
            if key not in ("variables", "compiles_by_thread"):  # their keys are data
                yield from _keys(value, f"{prefix}{key}.")
    elif isinstance(document, list):
        for value in document:
            yield from _keys(value, prefix)


def test_a_run_writes_every_key_of_the_golden_file_and_no_other(tmp_path):
    """The reader would miss what the writer renamed."""
    progress = tmp_path / "progress.jsonl"
    found, result = _dflash(
        tmp_path, "--profile", "smoke", "--threads", "1", "--steps", "3", "--progress", str(progress),
        "--force", "recompile-limit", "--import", "json",
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    lines = [json.loads(line) for line in progress.read_text().splitlines()]

    # What only appears when something went wrong, or on a machine with GPUs.
    absent = {key for key in _keys(GOLDEN) if ".exceptions." in key or key.startswith(("hang.", "environment.gpus."))}
    absent |= {"process.warnings.text", "process.warnings.count", "process.warnings.thread"}
    absent |= {f"process.dense_first.{key}" for key in ("thread", "step", "score_bytes")}
    written = set(_keys(result)) - absent
    assert sorted(written) == sorted(set(_keys(GOLDEN)) - absent)
    assert (result["schema"], result["kind"], result["finished"], result["phase"]) == (1, "train", True, "finished")
    assert result["config"]["num_drafters"] == 1
    assert result["environment"]["imported"] == ["json"]
    steps = [
        (line["step"], line["steps"]) for line in lines if line["thread"] == "drafter-0" and line["phase"] == "training"
    ]
    assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--profile", "huge"], "huge"),
        (["--profile", "smoke", "--set", "stepz=3"], "stepz"),
        (["--profile", "smoke", "--workaround", "hope"], "hope"),
        (["--profile", "node8"], "cuda:7 is not there"),
    ],
)
def test_what_cannot_run_is_refused_with_a_hint(tmp_path, argv, named):
    """A profile would silently run as a smaller one, or end in a stack trace."""
    found, result = _dflash(tmp_path, *argv)

    assert found.returncode == 2
    assert result is None or (result["phase"], result["error"]["type"]) == ("refused", "ConfigError")
    assert named in found.stderr
    assert "hint: " in found.stderr
    assert "Traceback" not in found.stderr


def test_what_breaks_before_the_threads_start_is_in_the_result(tmp_path):
    """A broken import would leave an empty result that looks like a killed run."""
    found, result = _dflash(tmp_path, "--profile", "smoke", "--import", "no_such_package")

    assert found.returncode == 1
    assert (result["finished"], result["phase"]) == (False, "failed")
    assert (result["error"]["type"], result["error"]["message"]) == (
        "ModuleNotFoundError",
        "No module named 'no_such_package'",
    )
    assert "no_such_package" in found.stderr


def test_a_hang_exits_with_its_own_code_and_leaves_every_stack(tmp_path):
    """A hung run would be indistinguishable from a slow one."""
    found, result = _dflash(tmp_path, "--profile", "smoke", "--threads", "1", "--steps", "3", "--deadline-s", "0.05")

    assert found.returncode == 3
    assert (result["finished"], result["phase"]) == (False, "hung")
    assert sorted(result["hang"]) == sorted(GOLDEN_HANG)
    assert "drafter" in found.stderr or "threading" in found.stderr


GOLDEN_HANG = ("deadline_s", "silent_s", "waiting", "stacks")


def test_a_number_json_cannot_hold_is_null():
    """A NaN loss would make the whole result unreadable."""
    assert plain({"losses": (1.0, float("nan"), float("inf"))}) == {"losses": [1.0, None, None]}


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """A run killed while it writes would leave half a result."""
    path = tmp_path / "result.json"
    write_atomically(path, "old")
    write_atomically(path, "new")

    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_progress_is_on_disk_at_once(tmp_path):
    """After a segmentation fault nobody would know which step was the last."""
    path = tmp_path / "progress.jsonl"
    progress = Progress(path)
    progress.note(phase="training", thread="drafter-0", step=1, steps=10)
    (line,) = path.read_text().splitlines()
    progress.close()

    assert {key: json.loads(line)[key] for key in ("phase", "thread", "step", "steps")} == {
        "phase": "training",
        "thread": "drafter-0",
        "step": 1,
        "steps": 10,
    }
