"""Searches whose runs are jobs of a real Slurm: the same verdict, no job submitted twice, lost ones made again."""

import json
import os
import subprocess
import sys
from bisect.journal import read
from bisect.slurm.launcher import job_prefix
from bisect.slurm.profile import Profile, load_profile
from pathlib import Path

import pytest

from envs.errors import UsageError

from .killing import wait_until
from .real_slurm import NODES, jobs_of
from .stub_index import Stub, served
from .test_matrix_end_to_end import make_world
from .test_search_end_to_end import ROOT, version

CULPRIT = 4
CODE = "import sys, time, torch; time.sleep(1); sys.exit(torch.answer)"


def command(tmp_path, url, *words):
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ncuda = "cu130"\nchannel = "nightly"\npython = "3.11"\n')
    options = ["--index", url, "--default-index", url, "--env", bare, "--store", tmp_path / "store", "--json"]
    ends = ["--good", "oldest", "--bad", "newest", "--out", tmp_path / "out", "--on", "slurm", "--workers", "2"]
    argv = [sys.executable, "-m", "bisect", "torch-nightlies", *options, *ends, "--probe", "command", *words]
    return [*map(str, argv), "--", "python", "-c", CODE]


def stubs(days=7):
    return [
        Stub(version=f"{version(day)}+cu130", commit=f"{day:040x}", code=f"answer = {int(day >= CULPRIT)}")
        for day in range(days)
    ]


def submitted(tmp_path):
    return sorted(path.stem for path in (tmp_path / "out" / "slurm").glob("run-*.json"))


def check(tmp_path, output):
    verdict = json.loads(output)
    assert (verdict["last_good"], verdict["first_bad"]) == (version(CULPRIT - 1), version(CULPRIT))
    contents = read(tmp_path / "out" / "journal.jsonl")
    runs = [entry["run"] for entry in contents.of("observed") if entry["run"]]
    assert len(runs) == len(set(runs))
    assert set(submitted(tmp_path)) == {entry["run"] for entry in contents.of("started")}
    return contents


@pytest.mark.slurm
@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_search_killed_with_jobs_in_flight_finds_them_again(tmp_path, cluster):
    """A driver that submits anew after a kill doubles the bill and mixes two runs in one directory."""
    with served(tmp_path / "index", stubs()) as url:
        argv = command(tmp_path, url)
        child = subprocess.Popen(argv, cwd=ROOT, env=cluster, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: len(submitted(tmp_path)) >= 2, child)
        child.kill()
        child.communicate()
        done = subprocess.run(argv, cwd=ROOT, env=cluster, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stderr
    contents = check(tmp_path, done.stdout)
    assert not contents.of("lost")
    assert {entry["node"] for entry in contents.of("observed")} <= set(NODES)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Stub builds of torch whose benchmark writes a result at once."""
    return make_world(tmp_path_factory.mktemp("world"))


def on_slurm(world, cluster, *words):
    argv = [sys.executable, "-m", "bisect", *map(str, words), "--on", "slurm"]
    argv += ["--wheelhouse", str(world / "house"), "--store", str(world / "store"), "--offline"]
    return subprocess.run(argv, cwd=ROOT, env=cluster, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slurm
@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_train_makes_each_run_a_job_and_answers_as_it_does_here(tmp_path, world, cluster):
    """A GPU node is reached from a login node: without this, only by hand."""
    out = tmp_path / "out"
    done = on_slurm(world, cluster, "train", world / "racy.toml", "--repeat", 2, "--workers", 3, "--out", out, "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "fx_flag_race"
    assert (answer["failed"], len(answer["runs"])) == (2, 2)
    jobs = [job for job in jobs_of(cluster) if job["Name"].startswith(job_prefix(out / "slurm"))]
    assert len(jobs) == 3
    assert {job["ProcCnt"] for job in jobs} == {"2"}, "a run shares its node"
    assert {json.loads(path.read_text())["node"] for path in out.glob("*/record.json")} <= set(NODES)


@pytest.mark.slurm
@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_matrix_runs_cells_side_by_side_and_goes_on_after_a_kill(tmp_path, world, cluster):
    """A cluster's upgrade is decided on its nodes, several at a time, and a login node may be rebooted."""
    out, store = tmp_path / "m", tmp_path / "node-store"
    profile = tmp_path / "cluster.toml"
    profile.write_text(f'store = "{store}"\n')
    axes = tmp_path / "axes.toml"
    builds = f'builds = ["{world / "old.toml"}", "{world / "racy.toml"}"]\nworkarounds = ["none", "lock"]\n'
    rules = "[rules]\nallowed_rate = 0.8\nmax_runs = 3\n"
    axes.write_text(f'{builds}current = "old"\nprofile = "smoke"\nhazards = false\n{rules}')
    words = ["matrix", "--axes", axes, "--out", out, "--workers", 3, "--slurm-profile", profile]
    argv = [sys.executable, "-m", "bisect", *map(str, words), "--on", "slurm", "--wheelhouse", str(world / "house")]
    argv += ["--store", str(world / "store"), "--offline"]
    child = subprocess.Popen(argv, cwd=ROOT, env=cluster, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list((out / "slurm").glob("0*.json"))) >= 2, child)
    child.kill()
    child.wait()
    done = on_slurm(world, cluster, *words)

    assert done.returncode == 0, done.stderr
    assert "Upgrade to racy with workaround lock." in done.stdout
    report = json.loads((out / "matrix.json").read_text())
    runs = [run["run"] for cell in report["cells"] for run in cell["runs"]]
    assert len(runs) == len(set(runs))
    prefix = job_prefix((out / "slurm").absolute())
    jobs = [job["Name"].removeprefix(prefix) for job in jobs_of(cluster) if job["Name"].startswith(prefix)]
    assert len(jobs) == len(set(jobs)), "submitted twice"
    begun = {entry["run"].removeprefix("runs/") for entry in read(out / "journal.jsonl").of("started")}
    finished = {entry["run"]["run"].removeprefix("runs/") for entry in read(out / "journal.jsonl").of("ran")}
    assert finished <= begun
    assert not (begun & set(jobs)) - finished, "a run that was made is missing in the journal"
    assert {cell["key"]["node"] for cell in report["cells"]} == {"slurm"}
    assert list((store / "environments").iterdir()), "the nodes built nothing in their own store"


def test_a_profile_is_read_and_a_wrong_key_is_named():
    """A mistyped partition would send jobs to the default one."""
    text = 'partition = "gpu"\ntime_min = 30\ngpus = 1\nexclude = ["n1"]\n[extra]\nconstraint = "h200"\n'

    assert load_profile(text, origin="p.toml") == Profile(
        partition="gpu", time_min=30, gpus=1, exclude=("n1",), extra=(("constraint", "h200"),)
    )
    for wrong in ('partitoin = "gpu"', "time_min = true", "exclude = 3", "partition = 1", "= 1"):
        with pytest.raises(UsageError, match=r"p\.toml"):
            load_profile(wrong, origin="p.toml")


@pytest.mark.subprocess
def test_without_slurm_it_is_one_sentence_and_exit_6(tmp_path):
    """On a laptop `--on slurm` must not look like a bug."""
    bare = {name: value for name, value in os.environ.items() if name != "PATH"} | {"PATH": str(tmp_path)}
    argv = command(tmp_path, "http://127.0.0.1:9")
    done = subprocess.run(argv, cwd=ROOT, env=bare, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 6
    assert "--on slurm: sbatch, squeue, scancel, flock is not on PATH" in done.stderr
    assert not Path(tmp_path / "out").exists()
