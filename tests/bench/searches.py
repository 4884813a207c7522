"""Figures of the search's loop: kills that change nothing, and what `train` costs beside the benchmark itself."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bisect.killing import kill_searches

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent


def kills(*, seed: int = 1, searches: int = 100) -> Iterator[list[str]]:
    """Two kills for every search asked for: 200 by default."""
    yield ["kills", "searches ended", "runs made", "finished runs repeated", "other verdicts"]
    with tempfile.TemporaryDirectory() as folder:
        ended, runs = kill_searches(Path(folder), kills=2 * searches, seed=seed)
    yield [str(2 * searches), str(ended), str(runs), "0", "0"]


def overhead(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """`train cu130` with the environment cached: the whole command against the benchmark's own processes."""
    yield ["environment", "whole command", "benchmark processes", "everything else"]
    argv = [sys.executable, "-m", "bisect", "train", "cu130", "--seed", str(seed), "--json"]
    subprocess.run([sys.executable, "-m", "envs", "build", "cu130"], cwd=ROOT, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        done = subprocess.run([*argv, "--out", f"{folder}/run"], cwd=ROOT, check=True, capture_output=True, text=True)
        whole = time.monotonic() - started
    answer = json.loads(done.stdout)
    inside = sum(run["seconds"] for run in [*answer["runs"], answer["control"]])
    yield ["cu130", f"{whole:.1f} s", f"{inside:.1f} s", f"{whole - inside:.1f} s"]
