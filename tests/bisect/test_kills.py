"""Searches killed with SIGKILL at random instants: the verdict of an undisturbed one, and nothing finished repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from bisect.journal import read

import pytest

from .killing import kill_searches, wait_until
from .stub_index import served
from .test_search_end_to_end import CULPRIT, EQUAL, ROOT, stubs, version

pytestmark = pytest.mark.subprocess


def test_a_search_killed_at_random_instants_ends_like_an_undisturbed_one(tmp_path):
    """The promise of the journal, on the real loop, engine and files; `nox -s bench -- kills` kills 200 times."""
    searches, runs = kill_searches(tmp_path, kills=40, seed=20261129)

    assert searches >= 1
    assert runs >= 10


def command(tmp_path, url):
    environment = tmp_path / "bare.toml"
    environment.write_text('summary = "torch alone"\ncuda = "cu130"\nchannel = "nightly"\npython = "3.11"\n')
    options = ["--index", url, "--env", str(environment), "--store", str(tmp_path / "store"), "--probe", "command"]
    ends = ["--good", version(EQUAL - 4), "--bad", version(CULPRIT + 4), "--out", str(tmp_path / "out")]
    code = "import sys, time, torch; time.sleep(0.3); sys.exit(torch.answer)"
    return [sys.executable, "-m", "bisect", "torch-nightlies", *options, *ends, "--json", "--", "python", "-c", code]


@pytest.mark.uv
@pytest.mark.socket
def test_the_command_itself_goes_on_after_kills_and_after_ctrl_c(tmp_path):
    """G06: the same command with the same --out goes on; Ctrl-C prints what to paste and exits 130."""
    journal = tmp_path / "out" / "journal.jsonl"

    def observations():
        return journal.read_bytes().count(b'"event": "observed"') if journal.exists() else 0

    with served(tmp_path / "index", list(stubs())) as url:
        argv = command(tmp_path, url)
        for stop in (signal.SIGKILL, signal.SIGINT):
            before = observations()
            child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until(lambda before=before: observations() > before, child)
            child.send_signal(stop)
            time.sleep(0.05)
            child.send_signal(stop)  # `uv run` sends on what its child got already
            _, errors = child.communicate(timeout=60)
            assert child.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
        assert f"run directory: {tmp_path / 'out'}\n" in errors
        assert f" resume {tmp_path / 'out'}\n" in errors
        resume = [sys.executable, "-m", "bisect", "resume", str(tmp_path / "out"), "--json"]
        done = subprocess.run(resume, cwd=tmp_path, env=elsewhere(), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["last_good"], verdict["first_bad"]) == (version(CULPRIT - 1), version(CULPRIT))
    runs = [entry["run"] for entry in read(journal).of("observed") if entry["run"]]
    assert len(runs) == len(set(runs))
    ended = [path for path in (tmp_path / "out").glob("run-*/record.json") if '"ended"' in path.read_text()]
    assert len(ended) == len(runs)


def elsewhere():
    """The environment of someone who resumes from another directory."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
