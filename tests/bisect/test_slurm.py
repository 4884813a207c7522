"""Searches whose runs are jobs of a real Slurm: the same verdict, no job submitted twice, lost ones made again."""

import json
import os
import subprocess
import sys
from bisect.journal import read
from bisect.slurm_profile import Profile, load_profile
from pathlib import Path

import pytest

from envs.errors import UsageError

from .killing import wait_until
from .real_slurm import NODES, missing, slurm
from .stub_index import Stub, served
from .test_search_end_to_end import ROOT, version

CULPRIT = 4
CODE = "import sys, time, torch; time.sleep(1); sys.exit(torch.answer)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One Slurm for this module; skipped, with the reason, where none can be started."""
    why = missing()
    if why:
        pytest.skip(why)
    with slurm(tmp_path_factory.mktemp("cluster") / "slurm") as variables:
        yield {**os.environ, **variables}


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


@pytest.mark.slurm
@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_job_cancelled_by_hand_is_made_again(tmp_path, cluster):
    """A preempted or cancelled job says nothing of the build: no vote, and another try."""
    with served(tmp_path / "index", stubs(days=6)) as url:
        child = subprocess.Popen(
            command(tmp_path, url), cwd=ROOT, env=cluster, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        first = tmp_path / "out" / "slurm" / "run-0001.json"
        wait_until(first.exists, child)
        job = json.loads(first.read_text())["id"]
        subprocess.run(["scancel", job], env=cluster, check=True)
        output, errors = child.communicate(timeout=600)

    assert child.returncode == 0, errors
    contents = check(tmp_path, output)
    retried = [entry for entry in contents.of("observed") if entry["conclusion"] == "retry"]
    assert [entry["run"] for entry in retried] == ["run-0001"]
    assert "left no record: CANCELLED" in retried[0]["reason"]


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
