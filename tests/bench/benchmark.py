"""The training benchmark itself: the drafter's step against dense attention, and a container against the host."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from bisect.probe import stage
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import t as student

from envs import build, process, settings, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ROUNDS = 8
STEPS = 240
"""Of one run: 40 steps take 1.3 s, and differed by 9 % from run to run of the same environment."""


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
    """Steady throughput of one drafter thread in a container against the host, and of the host against itself.

    Each round runs host, container and host again, and compares the container with the mean of both: a machine that
    grows slower or faster at a steady rate cancels. The Python of the two is not the same unless both machines have
    the same one: it is named, and is part of what is measured.
    """
    yield ["what", "median", "95 % of the mean", "start of a cached run", "target"]
    runs: dict[str, list[dict[str, Any]]] = {"host": [], "container": [], "again": []}
    for _ in range(ROUNDS):
        for arm, mine in runs.items():
            mine.append(_train("container" if arm == "container" else "venv", seed))
    later = _median(runs["container"], "outside_s") - _median(runs["host"] + runs["again"], "outside_s")
    hosts, inside = runs["host"][0]["python"], runs["container"][0]["python"]
    yield [
        f"container ({inside}) / host ({hosts}), {ROUNDS} rounds",
        *_ratio(runs["container"], runs["host"], runs["again"]),
        f"{later:+.1f} s",
        "0.95",
    ]
    yield [f"host again / host, {ROUNDS} rounds", *_ratio(runs["again"], runs["host"]), "", "1"]


def _ratio(mine: list[dict[str, Any]], *others: list[dict[str, Any]]) -> list[str]:
    """Median and interval of an arm's ratios to the geometric mean of the others in the same round."""
    rates = [[math.log(run["ktok_s"]) for run in arm] for arm in (mine, *others)]
    logs = [rate - statistics.fmean(base) for rate, *base in zip(*rates, strict=True)]
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = (math.exp(statistics.fmean(logs) + side * half) for side in (-1, 1))
    return [f"{math.exp(statistics.median(logs)):.3f}", f"{low:.3f} to {high:.3f}"]


def _median(runs: list[dict[str, Any]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


_SAFE_PATH_OFF = ("PYTHONSAFEPATH", "")


def _train(backend: str, seed: int) -> dict[str, Any]:
    """Rate of a one-thread run, its Python, and the seconds that are neither in the benchmark nor in its start."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        argv = [sys.executable, "-m", "bisect", "train", "cu130", "--threads", "1", "--steps", str(STEPS)]
        argv += ["--backend", backend, "--seed", str(seed), "--out", str(out)]
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
        result = json.loads((out / "run-0001" / "result.json").read_text(encoding="utf-8"))
        record = json.loads((out / "run-0001" / "record.json").read_text(encoding="utf-8"))
    return {
        "ktok_s": result["throughput"]["ktok_s"],
        "python": f"Python {result['environment']['python']}",
        "outside_s": record["ended"]["seconds"] - result["wall_s"],
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
