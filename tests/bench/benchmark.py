"""The training benchmark itself: the drafter's step against dense attention, and a container against the host."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from bisect.probe import stage
from pathlib import Path
from typing import TYPE_CHECKING

from envs import build, process, settings, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAIRS = 3


def step(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """One drafter step on this CPU against the same mathematics in dense attention, interleaved in one process."""
    yield ["environment", "flex", "dense", "ratio", "target"]
    built = build.build(spec.load("cu130"), settings.from_environ(os.environ), report=_say)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        stage(scratch / "staged")
        env = process.child_environment(
            os.environ, python=built.python, home=scratch / "home", caches=scratch / "caches", extra=[_SAFE_PATH_OFF]
        )
        argv = [str(built.python), "-m", "dflash.bench", "--output", str(scratch / "found.json")]
        process.run(argv, cwd=scratch / "staged", env=env, output=scratch / "log.txt")
        found = json.loads((scratch / "found.json").read_text(encoding="utf-8"))
    yield [
        f"cu130, {found['steps']} steps each",
        f"{found['flex_step_s'] * 1e3:.1f} ms",
        f"{found['dense_step_s'] * 1e3:.1f} ms",
        f"{found['ratio']:.2f}",
        f"{found['target_ratio']}",
    ]


def container(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """Steady throughput of one drafter thread in a container against the host, in alternating order."""
    yield ["environment", "host", "container", "container/host", "start of a cached run"]
    rates: dict[str, list[float]] = {"venv": [], "container": []}
    wall: dict[str, list[float]] = {"venv": [], "container": []}
    for pair in range(PAIRS):
        order = ["venv", "container"] if pair % 2 == 0 else ["container", "venv"]
        for backend in order:
            run = _train(backend, seed)
            rates[backend].append(run["ktok_s"])
            wall[backend].append(run["outside_s"])
    host, inside = (statistics.median(rates[name]) for name in ("venv", "container"))
    later = statistics.median(wall["container"]) - statistics.median(wall["venv"])
    yield [
        f"cu130, {PAIRS} pairs",
        f"{host:.3f} Ktok/s",
        f"{inside:.3f} Ktok/s",
        f"{inside / host:.3f}",
        f"{later:+.1f} s",
    ]


_SAFE_PATH_OFF = ("PYTHONSAFEPATH", "")


def _train(backend: str, seed: int) -> dict[str, float]:
    """Rate of a one-thread run, and the seconds that are neither in the benchmark nor in its start."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        argv = [sys.executable, "-m", "bisect", "train", "cu130", "--threads", "1", "--steps", "40"]
        argv += ["--backend", backend, "--seed", str(seed), "--out", str(out)]
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
        result = json.loads((out / "run-0001" / "result.json").read_text(encoding="utf-8"))
        record = json.loads((out / "run-0001" / "record.json").read_text(encoding="utf-8"))
    return {"ktok_s": result["throughput"]["ktok_s"], "outside_s": record["ended"]["seconds"] - result["wall_s"]}


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
