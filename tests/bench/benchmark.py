"""The training benchmark itself: the drafter's step against dense attention, and a container against the host."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from bisect.workload import stage
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import t as student

from envs import build, process, scrub, settings, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
Run = dict[str, Any]
ROUNDS = 6
STEPS = 240
"""Of one run, about 10 s of steady steps."""


def step(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """One drafter step on this CPU against the same mathematics in dense attention, interleaved in one process."""
    yield ["environment", "flex", "dense", "ratio", "target"]
    built = build.build(spec.load("cu130"), settings.from_environ(os.environ), report=_say)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        stage(scratch / "staged")
        env = scrub.child_environment(
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

    The two of a pair run at the same time, for what slows the machine then slows both: run after one another, the same
    environment differed by 9 % from itself, at the same time by 1 to 4 %. The Python of the two is not the same unless
    both machines have the same one: it is named, and is part of what is measured.
    """
    yield ["what", "mean ratio", "95 %", "start of a cached run", "target"]
    pairs: dict[str, list[tuple[Run, Run]]] = {"container": [], "venv": []}
    for number in range(ROUNDS):
        for arm, done in pairs.items():
            mine, other = _together((arm, "venv") if number % 2 else ("venv", arm), seed)
            done.append((mine, other) if number % 2 else (other, mine))
    later = statistics.median(mine["outside_s"] - other["outside_s"] for mine, other in pairs["container"])
    mine, other = pairs["container"][0]
    what = f"container ({mine['python']}) / host ({other['python']}), {ROUNDS} pairs"
    yield [what, *_ratio(pairs["container"]), f"{later:+.1f} s", "0.95"]
    yield [f"host / host, {ROUNDS} pairs", *_ratio(pairs["venv"]), "", "1"]


def _ratio(pairs: list[tuple[Run, Run]]) -> list[str]:
    """Geometric mean of the ratios and its interval, from their logarithms."""
    logs = [math.log(mine["ktok_s"] / other["ktok_s"]) for mine, other in pairs]
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    middle, low, high = (math.exp(statistics.fmean(logs) + side * half) for side in (0, -1, 1))
    return [f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]


_SAFE_PATH_OFF = ("PYTHONSAFEPATH", "")


def _together(backends: tuple[str, ...], seed: int) -> list[Run]:
    """One-thread runs at the same time: rate, Python, and the seconds neither in the benchmark nor in its start."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(number) for number in range(len(backends))]
        started = [_start(backend, out, seed) for backend, out in zip(backends, outs, strict=True)]
        codes = [process.wait() for process in started]
        if any(codes):
            raise RuntimeError(f"a run failed: see what `python -m bisect train cu130 --backend {backends}` says")
        return [_read(out / "run-0001") for out in outs]


def _start(backend: str, out: Path, seed: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "bisect", "train", "cu130", "--threads", "1", "--steps", str(STEPS)]
    argv += ["--backend", backend, "--seed", str(seed), "--out", str(out)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _read(run: Path) -> Run:
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    record = json.loads((run / "record.json").read_text(encoding="utf-8"))
    return {
        "ktok_s": result["throughput"]["ktok_s"],
        "python": f"Python {result['environment']['python']}",
        "outside_s": record["ended"]["seconds"] - result["wall_s"],
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
