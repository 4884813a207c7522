"""Kills the driver of searches on a real Slurm at random instants, and checks what must hold afterwards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from bisect.journal import read
from bisect.probe import load_record
from bisect.slurm.launcher import job_prefix
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .killing import size
from .real_slurm import jobs_of

ROOT = Path(__file__).parent.parent.parent
WORKERS = 3
LONGEST_S = 1.5
"""Seconds of life after the first line of the journal that a killed driver has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What happened: figures of Slurm's own accounting but for `lost`, which is the journal's."""

    kills: int
    searches: int
    jobs: int
    cancelled: int
    lost: int
    with_jobs_in_flight: int


def kill_drivers(root: Path, environ: dict[str, str], *, kills: int, seed: int) -> Kills:
    """Kill so often, over as many searches as it takes. AssertionError for a job too many or a result too few."""
    rng = random.Random(seed)
    killed, in_flight, totals = 0, 0, Counter()
    for number in range(10**6):
        directory = root / f"search-{number}"
        directory.mkdir()
        while not (directory / "verdict.json").exists():
            wanted = killed < kills
            ended = _drive(directory, environ, kill_after=rng.uniform(0.0, LONGEST_S) if wanted else None)
            if not ended:
                killed += 1
                in_flight += _open_runs(directory) > 0
        totals += Counter({**check(directory, environ), "searches": 1})
        if killed >= kills:
            break
    return Kills(
        kills=killed,
        searches=totals["searches"],
        jobs=totals["jobs"],
        cancelled=totals["cancelled"],
        lost=totals["lost"],
        with_jobs_in_flight=in_flight,
    )


def _drive(directory: Path, environ: dict[str, str], *, kill_after: float | None) -> bool:
    """Start or go on with a search; False when it was killed so many seconds after its first line."""
    journal = directory / "journal.jsonl"
    before = size(journal)
    argv = [sys.executable, "-m", "tests.bisect.slurm_search", str(directory), str(WORKERS)]
    child = subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if kill_after is not None:
        while child.poll() is None and size(journal) == before:
            time.sleep(0.01)
        time.sleep(kill_after)
        child.kill()
    _, errors = child.communicate(timeout=300)
    assert child.returncode in (0, -9), errors
    return child.returncode == 0


def _open_runs(directory: Path) -> int:
    contents = read(directory / "journal.jsonl")
    closed = {entry["run"] for event in ("observed", "lost", "cancelled") for entry in contents.of(event)}
    return len({entry["run"] for entry in contents.of("started")} - closed)


def check(directory: Path, environ: dict[str, str]) -> dict[str, int]:
    """One job for each run that was not lost, in Slurm's view; every result taken; the right verdict."""
    verdict = json.loads((directory / "verdict.json").read_text())
    assert (verdict["last_good"], verdict["first_bad"]) == ("n06", "n07")
    contents = read(directory / "journal.jsonl")
    started = [entry["run"] for entry in contents.of("started")]
    observed = [entry["run"] for entry in contents.of("observed")]
    cancelled = {entry["run"] for entry in contents.of("cancelled")}
    lost = {entry["run"] for entry in contents.of("lost")}
    assert len(observed) == len(set(observed))
    assert sorted(started) == sorted({*observed, *cancelled, *lost})
    mine = job_prefix(directory / "slurm")
    names = Counter(job["Name"] for job in jobs_of(environ) if job["Name"].startswith(mine))
    jobs = {name.removeprefix(mine): count for name, count in names.items()}
    assert set(jobs.values()) <= {1}, f"submitted twice: {jobs}"
    assert set(observed) <= set(jobs) <= {*observed, *cancelled}, "a job that the journal calls lost"
    ended = {path.name for path in directory.glob("run-*") if load_record(path) is not None}
    assert ended <= {*observed, *cancelled}, "a result was lost"
    return {"jobs": len(jobs), "cancelled": len(cancelled), "lost": len(lost)}
