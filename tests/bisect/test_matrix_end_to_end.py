"""The whole command: stub torch wheels, real uv, real environments, real child processes; only torch is not torch."""

from __future__ import annotations

import json
import subprocess
import sys
from bisect.journal import read
from pathlib import Path

import pytest

from .stub_index import Stub, write_wheel

ROOT = Path(__file__).parent.parent.parent
GOLDEN = (ROOT / "tests" / "golden" / "train.json").read_text(encoding="utf-8")
pytestmark = [pytest.mark.uv, pytest.mark.subprocess]

# What the stub does when the benchmark imports it: write a result and end, as a finished or a racing run would.
CODE = """
import sys
if "--output" in sys.argv:
    import json, os
    word = lambda name, default: sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default
    result = json.loads({golden!r})
    races = {races} and word("--workaround", "none") == "none" and "--threads" not in sys.argv
    result["process"]["recompile_limit_hits"], result["process"]["warnings"] = [], []
    for thread in result["threads"][:2]:
        thread["step_times_s"] = [1.9, 0.3, 0.2] + [0.1] * 7
        if not races:
            thread.update(steps=10, completed=True, exceptions=[], losses=[5.61, 5.4])
    result["throughput"]["ktok_s"] = {rate} * (1 + os.getpid() % 7 / 1000)
    result["environment"]["torch"] = __version__
    with open(word("--output", ""), "w") as file:
        json.dump(result, file)
    os._exit(1 if races else 0)
"""
BUILDS = {"old": ("2.10.0", False, 10.0), "racy": ("2.11.0", True, 10.0), "new": ("2.14.1", False, 8.0)}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Definitions, wheels and axes for three builds: today's, one that races, a slower one."""
    return make_world(tmp_path_factory.mktemp("world"))


def make_world(root):
    """The same below a directory; returns it."""
    house = root / "house"
    house.mkdir()
    for name, (torch, races, rate) in BUILDS.items():
        code = CODE.format(golden=GOLDEN, races=races, rate=rate)
        write_wheel(house, Stub(version=f"{torch}+cu130", commit=f"{races:040x}", code=code))
        text = f'summary = "{name}"\ntorch = "{torch}"\ncuda = "cu130"\npython = "3.11"\n'
        (root / f"{name}.toml").write_text(text)
    builds = ", ".join(f'"{root / name}.toml"' for name in BUILDS)
    (root / "axes.toml").write_text(
        f'builds = [{builds}, "2.12.1+cu128"]\nworkarounds = ["none", "lock"]\ncurrent = "old"\n'
        'profile = "smoke"\nhazards = false\n[rules]\nallowed_rate = 0.7\ninterleave = 4\nmax_runs = 4\n'
    )
    return root


def matrix(world, *words):
    argv = [sys.executable, "-m", "bisect", "matrix", "--axes", str(world / "axes.toml")]
    argv += ["--wheelhouse", str(world / "house"), "--store", str(world / "store"), "--offline", "--node", "n1", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def test_the_dry_run_shows_the_plan_and_makes_nothing(world, tmp_path):
    """Nobody starts a job whose cost is unknown (G11)."""
    done = matrix(world, "--dry-run", "--out", str(tmp_path / "m"), "--budget", "2 runs")

    assert done.returncode == 0, done.stderr
    first, *cells, budget = done.stdout.splitlines()
    assert first.startswith("8 cells, 2 of them impossible here")
    assert cells[:3] == [f"  {name}: workaround none, lock (cold cache)" for name in ("old", "racy", "new")]
    assert cells[3].startswith(
        "  2.12.1+cu128: workaround none, lock (cold cache); cannot run: not published: torch 2.12.1 was never built "
        "for cu128; unblock: use one of"
    )
    assert budget.startswith("budget of one invocation (--budget): 2 runs: less than all of it")
    assert not (tmp_path / "m").exists()
    assert not (world / "store" / "environments").exists()


def test_a_matrix_from_the_command_line(world, tmp_path):
    """Plan, builds, runs, control, reports, gate, resumption and comparison, with nothing faked but torch."""
    out = tmp_path / "m"
    first = matrix(world, "--out", str(out), "--budget", "5 runs", "--json")
    assert first.returncode in (0, 4), first.stderr
    partial = json.loads(first.stdout)
    assert sum(len(cell["runs"]) for cell in partial["cells"]) == 5

    done = matrix(world, "--out", str(out), "--resume", "--budget", "20m", "--fail-on", "race,slower:5%")

    assert done.returncode == 7, done.stderr
    assert "fails: racy, workaround none, cold cache: race 2/2 (fx_flag_race)" in done.stderr
    assert "Upgrade to racy with workaround lock." in done.stdout
    report = json.loads((out / "matrix.json").read_text())
    states = {(cell["key"]["build"], cell["key"]["workaround"]): cell["state"] for cell in report["cells"]}
    assert (
        states
        == {
            ("old", "none"): "ok",
            ("old", "lock"): "ok",
            ("racy", "none"): "race",
            ("racy", "lock"): "ok",
            ("new", "none"): "slower",
            ("new", "lock"): "slower",
            ("2.12.1+cu128", "none"): "not published",
            ("2.12.1+cu128", "lock"): "not published",
        }
        or states["racy", "lock"] == "slower"
    )
    assert report["machines"][0]["noise"]["baseline_runs"] >= 2
    runs = [run["run"] for cell in report["cells"] for run in cell["runs"]]
    assert len(runs) == len(set(runs))
    assert all((out / run / "result.json").exists() for run in runs)
    assert sum("control" in entry.name for entry in (out / "runs").iterdir()) == 1
    page = (out / "matrix.html").read_text()
    assert all(run in page for run in runs)

    again = matrix(world, "--out", str(out), "--compare", str(out))
    assert "0 of 8 cells differ" in again.stdout
    assert json.loads((out / "matrix.json").read_text())["cells"][0]["runs"] == report["cells"][0]["runs"]

    begun = next(entry for entry in read(out / "journal.jsonl").of("pairs"))
    otherwise = "alternating" if begun["together"] else "together"
    refused = matrix(world, "--out", str(out), "--resume", "--pairs", otherwise)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "leave --pairs out, or give another --out" in refused.stderr
