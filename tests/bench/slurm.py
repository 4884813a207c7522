"""Figures of a real Slurm of this machine: kills of the driver with jobs in flight, and what a job costs beside Slurm.

Needs Debian's packages slurm-wlm and munge, and root to start them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from bisect.launch import Ready, Stop, Task
from bisect.probe import RunKind, RunRequest
from bisect.slurm.launcher import SlurmLauncher
from bisect.slurm.profile import Profile
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from envs.place import HOST
from tests.bisect.real_slurm import missing, slurm
from tests.bisect.slurm_killing import kill_drivers

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = 50
PAIRS = 20
TARGET_S = 1.0


def kills(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """The driver of searches with three jobs in flight, killed at random instants; counted by Slurm's accounting."""
    yield ["kills", "with jobs in flight", "searches", "jobs", "submitted twice", "results lost", "cancelled", "lost"]
    with _cluster() as (folder, environ):
        found = kill_drivers(folder, environ, kills=KILLS, seed=seed)
    figures = (found.kills, found.with_jobs_in_flight, found.searches, found.jobs, 0, 0, found.cancelled, found.lost)
    yield [str(figure) for figure in figures]


def overhead(*, seed: int = 1, searches: int = 0) -> Iterator[list[str]]:
    """From submission to the record read, against bare `sbatch --wrap` jobs, in alternating order."""
    yield ["pairs", "our job", "bare job", "overhead (median of differences)", "worst", "target"]
    with _cluster() as (folder, environ):
        os.environ.update(environ)
        launcher = SlurmLauncher(profile=Profile(), folder=folder / "out" / "slurm", say=lambda _line: None)
        ours, bare = [], []
        for number in range(PAIRS):
            order = ["ours", "bare"] if number % 2 == 0 else ["bare", "ours"]
            for which in order:
                if which == "ours":
                    ours.append(_our_job(launcher, folder / "out" / f"run-{number:04d}"))
                else:
                    bare.append(_bare_job(folder / f"bare-{number}"))
    differences = [mine - other for mine, other in zip(ours, bare, strict=True)]
    yield [
        str(PAIRS),
        f"{median(ours):.2f} s",
        f"{median(bare):.2f} s",
        f"{median(differences):.2f} s",
        f"{max(differences):.2f} s",
        f"< {TARGET_S:.0f} s",
    ]


def _our_job(launcher: SlurmLauncher, directory: Path) -> float:
    """Seconds of a run of `true`, those of its child process left out."""
    built = Ready(name="", digest="", path=Path("/usr"), python=Path("/bin/python3"), environment=(), place=HOST)
    task = Task(built=built, request=RunRequest(kind=RunKind.COMMAND, command=("true",)), directory=directory)
    started = time.monotonic()
    (record,) = launcher.run((task,), Stop())
    return time.monotonic() - started - record.seconds


def _bare_job(touched: Path) -> float:
    """Seconds until a job that does nothing but leave a file has left it."""
    started = time.monotonic()
    argv = ["sbatch", "--output=/dev/null", "--wrap", f"touch {touched}"]
    subprocess.run(argv, check=True, capture_output=True)
    while not touched.exists():
        time.sleep(0.005)
    return time.monotonic() - started


@contextmanager
def _cluster() -> Iterator[tuple[Path, dict[str, str]]]:
    why = missing()
    if why:
        raise SystemExit(f"no Slurm can be started here: {why}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out").mkdir()
        with slurm(folder / "slurm") as variables:
            yield folder, {**os.environ, **variables}
