"""Single runs as jobs of a real Slurm: what happens to jobs, a queue that never starts, pairs, kills of the driver."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from bisect.builds import Builder
from bisect.executor import ProbeRunner
from bisect.journal import read
from bisect.judge import Question
from bisect.launch import JobLostError, Ready, Stop, Task
from bisect.model import Conclusion
from bisect.pool import Pool
from bisect.probe import RunKind, RunRequest
from bisect.slurm.launcher import SlurmLauncher, job_prefix
from bisect.slurm.profile import Profile
from functools import partial
from pathlib import Path

import pytest

from envs.errors import CannotRunError
from envs.place import HOST
from envs.settings import Settings

from .fake_python import fake_environment
from .killing import wait_until
from .real_slurm import jobs_of
from .slurm_killing import check, kill_drivers
from .test_executor import SPEED

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.slurm, pytest.mark.subprocess, pytest.mark.socket]
GATED = "#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.1; done\necho $SLURM_JOB_NODELIST\n"


def launcher(folder, **profile):
    said = []
    made = SlurmLauncher(profile=Profile(**{"grace_s": 1, **profile}), folder=folder / "slurm", say=said.append)
    return made, said


def gated(folder, name):
    """A run that ends once a file `gate-NAME` is there."""
    scripts = folder / "environment" / name / "bin"
    scripts.mkdir(parents=True)
    (scripts / "probe").write_text(GATED.format(gate=folder / f"gate-{name}"))
    (scripts / "probe").chmod(0o755)
    built = Ready(name=name, digest="", path=scripts.parent, python=scripts / "python", environment=(), place=HOST)
    request = RunRequest(kind=RunKind.COMMAND, command=("probe",), timeout_s=600)
    return Task(built=built, request=request, directory=folder / name)


def scontrol(*words):
    subprocess.run(["scontrol", *words], check=True, capture_output=True)


def number_of(folder, name):
    path = folder / "slurm" / f"{name}.json"
    return json.loads(path.read_text())["id"] if path.exists() else ""


def attempt(launcher, task, stop):
    """The node of the record, or the words and the blamed node of what went wrong."""
    try:
        (record,) = launcher.run((task,), stop)
    except JobLostError as error:
        return task.directory.name, (error.message, error.node)
    return task.directory.name, (record.log().strip(), record.node)


def test_what_a_cluster_does_to_jobs_is_told_apart(tmp_path, slurm_here):
    """Each is no vote and another try; only a node that failed is to blame, and a time limit says what to raise."""
    places = {"requeued": "n1", "preempted": "n2", "limit": "n1", "broken": "n3", "cancelled": "n3"}
    pool = Pool()
    for name, node in places.items():
        made, _ = launcher(tmp_path, extra=(("nodelist", node), ("no-requeue", name == "broken")), time_min=1)
        pool.start(name, partial(attempt, made, gated(tmp_path, name)))
    here, _ = launcher(tmp_path)

    def states():
        return {job.name.removeprefix(job_prefix(here.folder)): job.state for job in here.queue.jobs() or ()}

    wait_until(lambda: states() == dict.fromkeys(places, "RUNNING"))
    wait_until((tmp_path / "requeued" / "record.json").exists)
    job = {name: number_of(tmp_path, name) for name in places}
    subprocess.run(["scancel", job["cancelled"]], check=True)
    scontrol("requeue", job["requeued"])
    scontrol("update", f"JobId={job['limit']}", "TimeLimit=0")
    scontrol("update", "NodeName=n3", "State=DOWN", "Reason=test")
    urgent = ["sbatch", "--partition=urgent", "--nodelist=n2", "--exclusive", "--output=/dev/null", "--wrap", "true"]
    subprocess.run(urgent, check=True, capture_output=True)
    wait_until(lambda: list(tmp_path.glob("requeued.requeued-*")) and (tmp_path / "requeued/record.json").exists())
    (tmp_path / "gate-requeued").touch()
    found = dict(pool.take() for _ in places)

    assert found["requeued"] == ("n1", "n1")
    assert found["preempted"] == (f"job {job['preempted']} is gone and left no record: PREEMPTED on n2", "")
    assert found["cancelled"][0] == f"job {job['cancelled']} is gone and left no record: CANCELLED on n3"
    assert found["cancelled"][1] == ""
    assert found["limit"][0].endswith("TIMEOUT on n1; raise time_min of the profile")
    assert found["limit"][1] == ""
    assert found["broken"] == (f"job {job['broken']} is gone and left no record: NODE_FAIL on n3", "n3")
    subprocess.run(["scontrol", "update", "NodeName=n3", "State=RESUME"], capture_output=True, check=False)


def test_a_job_that_never_starts_ends_with_slurms_reason_and_stays_in_the_queue(tmp_path, slurm_here):
    """A search that waits for ever looks like one that works."""
    here, _ = launcher(tmp_path, extra=(("hold", True),), pending_min=0)
    task = gated(tmp_path, "held")

    with pytest.raises(CannotRunError, match=r"\(held\) waits in the queue since 0 min.*: JobHeldUser") as raised:
        here.run((task,), Stop())

    assert "scontrol release" in raised.value.hint
    again, _ = launcher(tmp_path)
    assert again.began([task.directory])
    again.drop(task.directory)
    wait_until(lambda: not [job for job in again.queue.jobs() or () if job.is_under_way])


def test_a_partition_that_does_not_exist_is_one_sentence(tmp_path, slurm_here):
    """A mistyped profile must not look like a bug, nor like a run that was lost."""
    here, _ = launcher(tmp_path, partition="gpuu")

    with pytest.raises(CannotRunError, match=r"Slurm does not take the job: .*partition"):
        here.run((gated(tmp_path, "nowhere"),), Stop())


def test_a_plan_says_what_slurm_says_to_such_a_job_and_submits_none(tmp_path, slurm_here):
    """The plan would promise a week of runs that no partition takes."""
    (tmp_path / "wrong.toml").write_text('partition = "gpuu"\n')
    argv = [sys.executable, "-m", "bisect", "train", "cu130", "--dry-run", "--on", "slurm"]
    argv += ["--store", str(tmp_path / "store"), "--slurm-profile", str(tmp_path / "wrong.toml")]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    willing, _ = launcher(tmp_path)
    too_large, _ = launcher(tmp_path, cpus=64)

    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("error: Slurm does not take the job: invalid partition specified: gpuu")
    assert willing.objection() == ""
    assert too_large.objection().startswith("as things are, Slurm would not start the jobs: allocation failure: ")
    assert not [job for job in willing.queue.jobs() or () if job.name == "trial"]
    assert not (tmp_path / "slurm").exists()


def test_an_avoided_node_gets_no_job(tmp_path, slurm_here):
    """A node that swallows jobs would swallow them all."""
    here, said = launcher(tmp_path)
    here.avoid(("n1", "n2"))
    (tmp_path / "gate-run").touch()
    (record,) = here.run((gated(tmp_path, "run"),), Stop())

    assert record.node == "n3"
    assert said == [f"node {node} fails everything: it gets no more jobs" for node in ("n1", "n2")]


class Ended(Builder):
    """Environments are there already."""

    environments = None

    def built(self, candidate):
        return self.environments[candidate]


def test_a_throughput_pair_is_one_job_that_shares_its_node_with_nobody(tmp_path, slurm_here):
    """Halves on two nodes compare the nodes; a neighbour's job halves whoever it meets."""
    builder = Ended(
        names=("base", "slow"), define=None, settings=Settings(store=tmp_path), directory=tmp_path, say=repr
    )
    bodies = {"base": SPEED.format(ktok_s=2.0), "slow": SPEED.format(ktok_s=1.0)}
    builder.environments = {name: fake_environment(tmp_path / "env" / name, body) for name, body in bodies.items()}
    here, _ = launcher(tmp_path)
    here.exclusive = True
    runner = ProbeRunner(
        builder=builder,
        launcher=here,
        request=RunRequest(kind=RunKind.TRAIN, timeout_s=60),
        question=Question(kind=RunKind.TRAIN, throughput=True),
        directory=tmp_path,
        say=repr,
        baseline="base",
    )
    names = ("run-0001", "run-0002")
    for name in names:
        runner.start("slow", name)
    found = [runner.take(), runner.take()]

    assert [item.observation.value for item in found] == [pytest.approx(math.log(0.5))] * 2
    assert [item.observation.conclusion for item in found] == [Conclusion.GOOD] * 2
    nodes = {name: json.loads((tmp_path / name / "record.json").read_text())["node"] for name in names}
    baselines = {name: json.loads((tmp_path / f"{name}-baseline/record.json").read_text())["node"] for name in names}
    assert nodes == baselines
    prefix = job_prefix(here.folder)
    jobs = [job for job in jobs_of(slurm_here) if job["Name"].startswith(prefix)]
    assert sorted(job["Name"] for job in jobs) == [f"{prefix}run-0001", f"{prefix}run-0002"]
    assert [job["ProcCnt"] for job in jobs] == ["2", "2"]
    runner.close()


def test_kills_of_the_driver_submit_nothing_twice_and_lose_nothing(tmp_path, cluster):
    """In Slurm's own accounting; `nox -s bench -- slurm-kills` kills 50 times."""
    found = kill_drivers(tmp_path, cluster, kills=3, seed=20261129)

    assert found.kills == 3
    assert found.jobs >= 12


SLOW_SBATCH = '#!/bin/sh\ntouch {folder}/at-work\nwhile [ ! -e {folder}/go ]; do sleep 0.1; done\nexec {sbatch} "$@"\n'


def test_an_sbatch_that_outlives_its_driver_is_waited_for_and_its_job_found_by_name(tmp_path, cluster):
    """The driver that goes on sees no job yet; submitting then would run the probe twice."""
    real = subprocess.run(["which", "sbatch"], check=True, capture_output=True, text=True).stdout.strip()
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "sbatch").write_text(SLOW_SBATCH.format(folder=tmp_path, sbatch=real))
    (slow / "sbatch").chmod(0o755)
    directory = tmp_path / "search"
    directory.mkdir()
    argv = [sys.executable, "-m", "tests.bisect.slurm_search", str(directory), "3"]
    first = subprocess.Popen(argv, cwd=ROOT, env={**cluster, "PATH": f"{slow}{os.pathsep}{cluster['PATH']}"})
    wait_until((tmp_path / "at-work").exists, first)
    first.kill()
    first.wait()
    begun = {entry["run"] for entry in read(directory / "journal.jsonl").of("started")}
    assert not any(number_of(directory, run) for run in begun)
    second = subprocess.Popen(argv, cwd=ROOT, env=cluster, stdout=subprocess.PIPE, text=True)
    assert "going on" in second.stdout.readline()
    (tmp_path / "go").touch()
    second.communicate(timeout=300)
    assert second.returncode == 0

    assert check(directory, cluster)["lost"] == len(begun) - 1
    (kept,) = begun & {entry["run"] for entry in read(directory / "journal.jsonl").of("observed")}
    assert number_of(directory, kept)


def test_a_killed_train_leaves_jobs_that_the_same_command_takes_over(tmp_path, cluster):
    """Every kill of the driver would leave jobs to nobody, and the same command would submit all of them again."""
    directory = tmp_path / "train"
    argv = [sys.executable, "-m", "tests.bisect.slurm_train", str(directory)]
    names = ("control", "run-0001", "run-0002")
    first = subprocess.Popen(argv, cwd=ROOT, env=cluster)
    wait_until(lambda: all(number_of(directory, name) for name in names), first)
    first.kill()
    first.wait()
    submitted = {name: number_of(directory, name) for name in names}

    second = subprocess.Popen(argv, cwd=ROOT, env=cluster, stdout=subprocess.PIPE, text=True)
    assert second.stdout.readline() == "going on: True\n"
    (tmp_path / "gate").touch()
    second.communicate(timeout=300)

    assert second.returncode == 0
    assert json.loads((directory / "answer.json").read_text()) == [str(directory / name) for name in names[1:]]
    assert {name: number_of(directory, name) for name in names} == submitted
    prefix = job_prefix(directory / "slurm")
    jobs = [job["Name"] for job in jobs_of(cluster) if job["Name"].startswith(prefix)]
    assert sorted(jobs) == [f"{prefix}{name}" for name in names]
