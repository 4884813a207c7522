"""Searches killed with SIGKILL at random instants: the verdict of an undisturbed one, and nothing finished repeated."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from bisect.journal import read

import pytest

from .killed_search import main as killed_search
from .stub_index import served
from .test_search_end_to_end import CULPRIT, EQUAL, ROOT, stubs, version

pytestmark = pytest.mark.subprocess
KILLS = int(os.environ.get("KILLS", "40"))
"""How many kills; the bench makes 200."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.bisect.killed_search"])


def size(path):
    return path.stat().st_size if path.exists() else 0


def wait_until(condition, child=None):
    """Wait for a condition; fails after a minute, or when the child ended before."""
    deadline = time.monotonic() + 60
    while not condition():
        assert child is None or child.poll() is None, "the child ended early"
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def search(directory, *, kill_after=None):
    """Run the search in a process; its verdict, or None when it was killed so many seconds after its first line."""
    before = size(directory / "journal.jsonl")
    child = CONTEXT.Process(target=killed_search, args=(directory,))
    child.start()
    if kill_after is not None:
        wait_until(lambda: not child.is_alive() or size(directory / "journal.jsonl") != before)
        time.sleep(kill_after)
        child.kill()
    child.join(60)
    return (directory / "verdict").read_text() if child.exitcode == 0 else None


def test_a_search_killed_at_random_instants_ends_like_an_undisturbed_one(tmp_path):
    """The promise of the journal, on the real loop, engine and files."""
    calm = tmp_path / "calm"
    calm.mkdir()
    expected = search(calm)
    assert expected.startswith(("Narrowed n06 n07", "Found n06 n07"))
    rng = random.Random(20261129)
    killed, number = 0, 0
    while killed < KILLS:
        directory = tmp_path / f"search-{number}"
        directory.mkdir(exist_ok=True)
        verdict = search(directory, kill_after=rng.uniform(0.0, 0.1))
        if verdict is None:
            killed += 1
            continue
        assert verdict == expected
        check_nothing_is_repeated(directory)
        number += 1
    directory.mkdir(exist_ok=True)
    assert search(directory) == expected
    check_nothing_is_repeated(directory)


def check_nothing_is_repeated(directory):
    """Every finished run is in the journal exactly once."""
    observed = [entry["run"] for entry in read(directory / "journal.jsonl").of("observed") if entry["run"]]
    on_disk = sorted(path.name.split(".")[0] for path in directory.glob("run-*.json"))
    assert sorted(observed) == on_disk


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
            _, errors = child.communicate(timeout=60)
            assert child.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
        assert f"python -m bisect resume {tmp_path / 'out'}" in errors
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
