"""The runs of a search as Slurm jobs: each in its own run directory on the shared file system, judged by this process.

A run's result is the record in its directory, never what Slurm says of the job; Slurm is only asked whether a job is
still there. So a search that was killed finds its jobs again, by the id it wrote down or else by the job's name, and
never submits twice for one run. Building stays here, in the shared store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import submitit

from envs import process
from envs.errors import CannotRunError, UsageError

from .driver import Finding
from .executor import LocalRunner
from .files import write_atomically
from .model import Conclusion, Observation
from .probe import RunRequest, load_record, run_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .probe import Environment, RunRecord

ROOT = Path(__file__).resolve().parent.parent
POLL_S = 1.0
GONE_S = 15.0
"""How long a job may be gone from the queue before its record is given up: shared file systems show files late."""
LOST_ON_NODE = 2
"""Runs lost on a node that ended none, after which it gets no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a cluster wants to be told, from a small TOML file.

    Attributes:
        partition: where jobs go; empty for the default.
        account: who pays; empty for the default.
        time_min: time limit of a job in minutes.
        gpus: GPUs of a job.
        cpus: CPUs of a job.
        exclude: nodes that get no job.
        setup: shell lines run before the job (module loads).
        extra: further `#SBATCH` options by name (container options of a plugin).
    """

    partition: str = ""
    account: str = ""
    time_min: int = 60
    gpus: int = 0
    cpus: int = 1
    exclude: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


class JobLostError(CannotRunError):
    """A job is gone and left no record: preempted, cancelled, out of time, or its node failed."""


def load_profile(text: str, *, origin: str) -> Profile:
    """Read a profile; UsageError names the key that is unknown or of another type."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is not TOML: {error}") from error
    defaults = {item.name: getattr(Profile(), item.name) for item in dataclasses.fields(Profile)}
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in defaults:
            raise UsageError(f"{origin}: unknown key {key!r}", hint=f"the keys are: {', '.join(defaults)}")
        wanted = {"extra": dict, "exclude": list, "setup": list}.get(key, type(defaults[key]))
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(f"{origin}: {key} must be a {wanted.__name__}, not {value!r}")
        values[key] = tuple(sorted(value.items())) if isinstance(value, dict) else value
        values[key] = tuple(value) if isinstance(value, list) else values[key]
    return Profile(**values)  # type: ignore[arg-type]  # checked against the defaults' types above


def run_job(built: Environment, request: RunRequest, directory: Path) -> None:
    """What a job does, on its node. A requeued job keeps what its first life left, beside the run directory."""
    if directory.exists():
        directory.rename(directory.with_name(f"{directory.name}.requeued-{int(time.time())}"))
    run_once(built, request, directory)


@dataclass(slots=True, kw_only=True)
class SlurmRunner(LocalRunner):
    """Runs a search's probes as jobs; the threads of `LocalRunner.run` only submit and wait."""

    profile: Profile
    _lost: Counter[str] = field(default_factory=Counter)
    _ended: Counter[str] = field(default_factory=Counter)

    def recover(self, candidate: str, run: str) -> Finding | None:
        """Judge a run whose job ended, wait for one that is still there; None for one that was never submitted."""
        directory = self.directory / run
        if load_record(directory) is None and self._known_job(directory) is None:
            return None
        try:
            record = self._wait(directory, self._known_job(directory) or "")
        except JobLostError:
            return None
        return self._judged(candidate, run, record)

    def _one(self, candidate: str, run: str, built: Environment) -> Finding:
        try:
            return LocalRunner._one(self, candidate, run, built)  # noqa: SLF001  (super() has no slots cell here)
        except JobLostError as error:
            node = _node_of(self.directory / run)
            self._lost[node] += 1
            observation = Observation(
                candidate=candidate, conclusion=Conclusion.RETRY, outcome="harness_error", run=run, node=node
            )
            return Finding(observation=observation, reason=error.message)

    def _run(self, built: Environment, request: RunRequest, directory: Path) -> RunRecord:
        job = self._known_job(directory) or self._submit(built, request, directory)
        record = self._wait(directory, job)
        self._ended[_node_of(directory)] += 1
        return record

    def _submit(self, built: Environment, request: RunRequest, directory: Path) -> str:
        folder = self._job_file(directory).parent
        executor = submitit.SlurmExecutor(folder=folder / "logs", python=sys.executable)
        executor.update_parameters(job_name=self._job_name(directory), **self._parameters())
        try:
            job = executor.submit(run_job, built, request, directory.absolute())
        except (submitit.core.utils.FailedJobError, FileNotFoundError) as error:
            raise CannotRunError(
                f"Slurm does not take the job: {str(error).strip().splitlines()[-1]}",
                hint="try the partition, account and time of the profile with sbatch by hand",
            ) from error
        write_atomically(self._job_file(directory), json.dumps({"id": job.job_id}))
        return str(job.job_id)

    def _parameters(self) -> dict[str, object]:
        given = self.profile
        bad = [node for node, lost in self._lost.items() if node and lost >= LOST_ON_NODE and not self._ended[node]]
        extra = dict(given.extra) | ({"account": given.account} if given.account else {})
        parameters: dict[str, object] = {
            "time": given.time_min,
            "cpus_per_task": given.cpus,
            "setup": [f"export PYTHONPATH={ROOT}", *given.setup],
            "additional_parameters": extra,
        }
        if given.partition:
            parameters["partition"] = given.partition
        if given.gpus:
            parameters["gpus_per_node"] = given.gpus
        if given.exclude or bad:
            parameters["exclude"] = ",".join([*given.exclude, *bad])
        return parameters

    def _known_job(self, directory: Path) -> str | None:
        """The id of the run's job: written down, or found in the queue by its name after a kill in between."""
        try:
            return str(json.loads(self._job_file(directory).read_text(encoding="utf-8"))["id"])
        except FileNotFoundError:
            found = _queue("--name", self._job_name(directory))
            return found[0] if found else None

    def _wait(self, directory: Path, job: str) -> RunRecord:
        """Until the record is there; JobLostError when the job is gone without one."""
        gone_since: float | None = None
        while True:
            record = load_record(directory)
            if record is not None:
                return record
            if self._stop.is_set():
                raise KeyboardInterrupt
            if job and _queue("--jobs", job):
                gone_since = None
            elif gone_since is None:
                gone_since = time.monotonic()
            elif time.monotonic() - gone_since > GONE_S:
                raise JobLostError(f"job {job} is gone and left no record: {_state(job)}")
            time.sleep(POLL_S)

    def _job_file(self, directory: Path) -> Path:
        folder = self.directory / "slurm"
        folder.mkdir(exist_ok=True)
        return folder / f"{directory.name}.json"

    def _job_name(self, directory: Path) -> str:
        """One name for one run of one search, on the whole cluster."""
        search = hashlib.sha256(str(self.directory.absolute()).encode()).hexdigest()[:10]
        return f"bisect-{search}-{directory.name}"


def _queue(*which: str) -> list[str]:
    """Ids of the jobs of ours that are pending or running."""
    asked = process.capture(
        ["squeue", "--me", "--noheader", "--format=%i", *which], cwd=Path.cwd(), env=dict(os.environ)
    )
    return asked.stdout.split() if asked.returncode == 0 else []


def _state(job: str) -> str:
    asked = process.capture(["scontrol", "--oneliner", "show", "job", job], cwd=Path.cwd(), env=dict(os.environ))
    fields = dict(part.split("=", 1) for part in asked.stdout.split() if "=" in part)
    return fields.get("JobState", "no longer known to Slurm")


def _node_of(directory: Path) -> str:
    try:
        return str(json.loads((directory / "record.json").read_text(encoding="utf-8")).get("node", ""))
    except FileNotFoundError:
        return ""


def available(which: Sequence[str] = ("sbatch", "squeue")) -> None:
    """Refuse where Slurm's commands are not there."""
    from shutil import which as find  # noqa: PLC0415  (the one use)

    missing = [name for name in which if find(name) is None]
    if missing:
        raise CannotRunError(
            f"--on slurm: {', '.join(missing)} is not on PATH", hint="run this on a login node of the cluster"
        )
