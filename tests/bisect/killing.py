"""Kills searches with SIGKILL at random instants and checks what must hold afterwards."""

from __future__ import annotations

import multiprocessing
import random
import time
from bisect.journal import read
from typing import TYPE_CHECKING

from .killed_search import main as killed_search

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.bisect.killed_search"])


def size(path: Path) -> int:
    """Bytes of a file that may not be there yet."""
    return path.stat().st_size if path.exists() else 0


def wait_until(condition, child=None):
    """Wait for a condition; fails after a minute, or when the child ended before."""
    deadline = time.monotonic() + 60
    while not condition():
        assert child is None or child.poll() is None, "the child ended early"
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def search(directory: Path, *, kill_after: float | None = None) -> str | None:
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


def kill_searches(root: Path, *, kills: int, seed: int) -> tuple[int, int]:
    """Kill so often, over as many searches as it takes: (searches ended, runs). AssertionError for a difference."""
    calm = root / "calm"
    calm.mkdir()
    expected = search(calm)
    assert expected is not None
    assert expected.startswith(("Narrowed n06 n07", "Found n06 n07"))
    rng = random.Random(seed)
    killed, runs, number = 0, 0, 0
    directory = root / "search-0"
    while killed < kills or (directory / "journal.jsonl").exists():
        directory.mkdir(exist_ok=True)
        verdict = search(directory, kill_after=rng.uniform(0.0, 0.1) if killed < kills else None)
        if verdict is None:
            killed += 1
            continue
        assert verdict == expected, f"{verdict} after kills, {expected} without"
        runs += check_nothing_is_repeated(directory)
        number += 1
        directory = root / f"search-{number}"
    return number, runs


def check_nothing_is_repeated(directory: Path) -> int:
    """Every finished run is in the journal exactly once; how many there are."""
    observed = [entry["run"] for entry in read(directory / "journal.jsonl").of("observed") if entry["run"]]
    on_disk = sorted(path.name.split(".")[0] for path in directory.glob("run-*.json"))
    assert sorted(observed) == on_disk
    return len(observed)
