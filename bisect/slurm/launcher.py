"""Runs as Slurm jobs: each with its own run directories on the shared file system, waited for by this process.

A run's result is the record in its directory. So that a search that was killed finds its jobs again and submits none
twice, everything a job needs is on disk before it is submitted, the lock is held by sbatch itself (which outlives a
killed parent) until the job has its number, and a job whose number was not written down is found by its name.

    DIR/slurm/run-0001.task    what the job runs
    DIR/slurm/run-0001.json    the job's number
    DIR/slurm/logs/            what jobs print
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pickle
import shlex
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import submitit
from filelock import FileLock, Timeout

from envs import process
from envs.errors import CannotBuildError, CannotRunError

from ..files import write_atomically
from ..launch import Host, JobLostError, Launcher, Ready, Recipe, Task, ended
from . import trial
from .job import REFUSED
from .profile import Profile, job_parameters
from .queue import Queue
from .watch import Moved, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..launch import Stop
    from ..probe import RunRecord

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.1
SUBMIT_LIMIT_S = 300.0
"""Seconds that one sbatch, also one left by a killed process, may take."""
COMMANDS = ("sbatch", "squeue", "scancel", "flock")


class _Sbatch(submitit.SlurmExecutor):
    """submitit, with sbatch under a lock of its own."""

    lock = ""

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        return ["flock", self.lock, *super()._make_submission_command(submission_file_path)]


@dataclass(slots=True, kw_only=True)
class SlurmLauncher(Launcher):
    """Makes runs as jobs.

    Attributes:
        profile: what the cluster wants to be told.
        folder: where jobs keep their files; on the shared file system.
        say: told lines for a person.
        exclusive: whether a job shares its node with nobody.
        queue: Slurm's queue.
    """

    profile: Profile
    folder: Path
    say: Callable[[str], None]
    exclusive: bool = False
    queue: Queue = field(default_factory=Queue)
    _avoided: tuple[str, ...] = ()
    _submitting: threading.Lock = field(default_factory=threading.Lock)
    _moved: Moved = field(default_factory=lambda: Moved(at=time.monotonic()))

    @property
    def node_store(self) -> Path | None:
        """Where each node builds for itself, if the profile says so."""
        return Path(self.profile.store) if self.profile.store else None

    def run(self, tasks: Sequence[Task], stop: Stop) -> tuple[RunRecord, ...]:
        """Submit one job for the tasks and wait for its records."""
        directories = [task.directory for task in tasks]
        first = _first(directories)
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        slim = [Task(built=_ready(task), request=task.request, directory=task.directory.absolute()) for task in tasks]
        (self.folder / f"{first.name}.task").write_bytes(pickle.dumps(slim))
        job = self._submit(first, str(self.folder / f"{first.name}.task"))
        return self._wait(directories, job, stop)

    def resume(self, directories: Sequence[Path], stop: Stop) -> tuple[RunRecord, ...]:
        """Wait for a job submitted by a process that was killed."""
        return self._wait(directories, self._known_job(_first(directories)), stop)

    def began(self, directories: Sequence[Path]) -> bool:
        """Whether the runs ended, or a job of theirs was submitted; waits for an sbatch that is still at it."""
        return bool(ended(directories)) or self._known_job(_first(directories)) != ""

    def drop(self, directory: Path) -> None:
        """Cancel the run's job."""
        job = self._known_job(directory)
        if job:
            _scancel(job)

    def avoid(self, nodes: Iterable[str]) -> None:
        """Exclude these nodes from jobs submitted from now on."""
        wanted = tuple(nodes)
        for node in wanted:
            if node not in self._avoided:
                self.say(f"node {node} fails everything: it gets no more jobs")
        self._avoided = wanted

    def host(self) -> Host:
        """Ask a node, in a job: what the cluster has, this one may not have. All nodes are taken to be like it."""
        folder = self.folder.parent / ".slurm"
        shutil.rmtree(folder, ignore_errors=True)
        asking = dataclasses.replace(self, folder=folder)
        answer = asking.ask(folder / "host.pickle")
        return Host(machine=answer.machine, cpus=answer.cpus, node=f"slurm {self.profile.partition}".strip())

    def objection(self) -> str:
        """What Slurm says to a job of this profile, none being submitted."""
        return trial.objection(self.profile, root=ROOT, exclusive=self.exclusive)

    def ask(self, answer: Path) -> Host:
        """What the node of a job says of itself, through the file `answer`."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        job = self._submit(answer, "--host", str(answer))
        watch = self._watch(answer.name, job)
        while not answer.exists():
            self._look(watch)
            time.sleep(POLL_S)
        return pickle.loads(answer.read_bytes())  # type: ignore[no-any-return]  # noqa: S301  (our own job wrote it)

    def _submit(self, directory: Path, *arguments: str) -> str:
        """The number of a new job that runs `slurm.job` with the arguments, under the name of the directory."""
        executor = _Sbatch(folder=self.folder / "logs", python=shlex.quote(sys.executable))
        executor.lock = str(self.folder / ".submitting")
        executor.update_parameters(
            **job_parameters(
                self.profile,
                name=self._job_name(directory),
                root=str(ROOT),
                avoid=self._avoided,
                exclusive=self.exclusive,
            )
        )
        command = shlex.join([sys.executable, "-m", "bisect.slurm.job", *arguments])
        try:
            with self._submitting:  # one sbatch at a time, so that a kill leaves one at most
                job = str(executor._submit_command(command).job_id)  # noqa: SLF001  (what it pickles, a kill would lose)
        except (submitit.core.utils.FailedJobError, FileNotFoundError) as error:
            raise CannotRunError(
                f"Slurm does not take the job: {str(error).strip().splitlines()[-1]}",
                hint=trial.HINT,
            ) from error
        self._write_job(directory, job)
        return job

    def _known_job(self, directory: Path) -> str:
        """The number of the run's job: written down, or found by its name and written down; '' without a job."""
        try:
            return str(json.loads((self.folder / f"{directory.name}.json").read_text(encoding="utf-8"))["id"])
        except FileNotFoundError:
            pass
        if not (self.folder / f"{directory.name}.task").exists():
            return ""
        self._wait_for_sbatch()
        jobs = self.queue.jobs(since=time.monotonic())
        if jobs is None:
            raise CannotRunError(
                f"squeue does not answer, so nobody knows whether {directory.name} was submitted",
                hint=f"nothing is lost: when Slurm answers give the same command again with --out {self.folder.parent}",
            )
        found = [job.id for job in jobs if job.name == self._job_name(directory)]
        if found:
            self._write_job(directory, found[-1])
        return found[-1] if found else ""

    def _wait_for_sbatch(self) -> None:
        """An sbatch of a killed process may be at work still; it holds the lock until the job is in the queue."""
        try:
            with FileLock(self.folder / ".submitting", timeout=SUBMIT_LIMIT_S):
                pass
        except Timeout as error:
            raise CannotRunError(
                f"an sbatch has held {self.folder / '.submitting'} for {SUBMIT_LIMIT_S:.0f} s",
                hint=f"nothing is lost: when Slurm answers give the same command again with --out {self.folder.parent}",
            ) from error

    def _write_job(self, directory: Path, job: str) -> None:
        write_atomically(self.folder / f"{directory.name}.json", json.dumps({"id": job}))

    def _job_name(self, directory: Path) -> str:
        return f"{job_prefix(self.folder)}{directory.name}"

    def _wait(self, directories: Sequence[Path], number: str, stop: Stop) -> tuple[RunRecord, ...]:
        """Until the records are there; JobLostError when the job is gone without them."""
        watch = self._watch(_first(directories).name, number)
        while True:
            if records := ended(directories):
                self._moved.at = time.monotonic()
                return records
            if stop.event.is_set():
                if stop.for_good:
                    _scancel(number)
                raise KeyboardInterrupt
            _raise_if_refused(directories)
            try:
                self._look(watch)
            except JobLostError:
                if records := _ended_after_all(directories):
                    return records
                raise
            stop.event.wait(POLL_S)

    def _watch(self, run: str, number: str) -> Watch:
        given = self.profile
        return Watch(
            run=run,
            number=number,
            grace_s=given.grace_s,
            pending_s=60.0 * given.pending_min,
            moved=self._moved,
            say=self.say,
        )

    def _look(self, watch: Watch) -> None:
        """Ask the queue where the job is; no answer is not an answer."""
        jobs = self.queue.jobs()
        if jobs is not None:
            watch.see(next((job for job in jobs if job.id == watch.number), None), time.monotonic())


def _ended_after_all(directories: Sequence[Path]) -> tuple[RunRecord, ...]:
    """The records, looked for anew: a client of NFS that saw no file may go on seeing none until its folder changes."""
    for folder in (directories[0].parent, *directories):
        with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=folder):
            pass
    return ended(directories)


def _first(directories: Sequence[Path]) -> Path:
    """The directory that a job of several runs goes by: `run-0002`, whether or not its baseline runs first."""
    return min(directories)


def _ready(task: Task) -> Ready | Recipe:
    """The environment without what only this process needs of it."""
    return task.built if isinstance(task.built, Recipe) else Ready.of(task.built)


def _scancel(job: str) -> None:
    process.capture(["scancel", "--quiet", job], cwd=Path.cwd(), env=dict(os.environ))


def _raise_if_refused(directories: Sequence[Path]) -> None:
    for directory in directories:
        try:
            told = json.loads((directory / REFUSED).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        raise CannotBuildError(told["message"], hint=told["hint"], outcome=told["outcome"])


def job_prefix(folder: Path) -> str:
    """What the names of the jobs of one run directory begin with: no other on the whole cluster."""
    return f"bisect-{hashlib.sha256(str(folder).encode()).hexdigest()[:10]}-"


def available() -> None:
    """Refuse where Slurm's commands are not there."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise CannotRunError(
            f"--on slurm: {', '.join(missing)} is not on PATH", hint="run this on a login node of the cluster"
        )
