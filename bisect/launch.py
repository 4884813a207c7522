"""Where runs happen: `Launcher` is the seam between what is asked and the machine that answers.

This machine is the launcher that needs nothing; `slurm.SlurmLauncher` is the other one. Everything above (searches,
`train`, the matrix) is written once, against the protocol.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Mapping  # noqa: TC003  (in a dataclass's fields)
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from envs import machine
from envs.errors import CannotRunError, UsageError

from .probe import RunRecord, RunRequest, load_record, run_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envs.backend import Machine
    from envs.place import Place
    from envs.settings import Settings
    from envs.spec import Definition

    from .probe import Environment

PLACES = ("local", "slurm")


class JobLostError(CannotRunError):
    """A run ended without a record: preempted, cancelled, out of time, or its node failed. `node` may be empty."""

    node = ""


class Progress(Protocol):
    """Is told every sign of life of a run, and closed when it ended."""

    def __call__(self, entry: Mapping[str, object], /) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A built environment as far as a run needs it: small, to be sent elsewhere."""

    name: str
    digest: str
    path: Path
    python: Path
    environment: tuple[tuple[str, str], ...]
    place: Place

    @classmethod
    def of(cls, built: Environment) -> Ready:
        """The same environment."""
        return cls(**{item.name: getattr(built, item.name) for item in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """An environment that is built on the node that runs in it, in a store of that node."""

    definition: Definition
    settings: Settings
    needs_compiler: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run: what, in which environment, and the fresh directory that keeps it."""

    built: Environment | Recipe
    request: RunRequest
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine that runs happen on, and the name its results go by."""

    machine: Machine
    cpus: int
    node: str


@dataclass(slots=True)
class Stop:
    """Tells whoever makes a run to leave it; `for_good` when nobody will ask for it again."""

    event: threading.Event = field(default_factory=threading.Event)
    for_good: bool = False

    def set(self, *, for_good: bool) -> None:
        """Leave it now."""
        self.for_good = for_good
        self.event.set()


class Launcher(Protocol):
    """Makes runs somewhere. Thread-safe: several runs may be under way at once.

    `node_store`: where each node builds the environments it needs; None where they are built once, by this process.
    """

    @property
    def node_store(self) -> Path | None: ...

    def run(self, tasks: Sequence[Task], stop: Stop) -> tuple[RunRecord, ...]:
        """Make the runs on one node, in order where they do not run at the same time.

        JobLostError when they ended without a record; KeyboardInterrupt when `stop` was set before their end;
        CannotBuildError from a node that builds for itself and could not.
        """

    def resume(self, directories: Sequence[Path], stop: Stop) -> tuple[RunRecord, ...]:
        """Wait for runs that `began` before a kill; raises what `run` does."""

    def began(self, directories: Sequence[Path]) -> bool:
        """Whether the runs of these directories ended, or are still under way, after a kill of this process."""

    def drop(self, directory: Path) -> None:
        """End whatever is left of a run that nobody wants any more."""

    def avoid(self, nodes: Iterable[str]) -> None:
        """Give these nodes no more runs."""

    def host(self) -> Host:
        """What the machines are that runs happen on."""

    def objection(self) -> str:
        """For a plan: why a run could not start as things are, or ''; CannotRunError where none ever could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLauncher:
    """Runs here.

    Attributes:
        watch: makes what is told of a run's progress, by its name.
        together: whether the runs of one call are made at the same time: what slows the machine then slows all of
            them. On two virtual cores two runs of one environment, 10 s of steps each, differed by 9 % (standard
            deviation) one after the other and by 1 to 4 % at the same time; beside other work by 7 %.
    """

    watch: Callable[[str], Progress] | None = None
    together: bool = False
    node_store: None = None

    def run(self, tasks: Sequence[Task], stop: Stop) -> tuple[RunRecord, ...]:
        """One child process after the other, or all at once."""
        if not self.together:
            return tuple(self._one(task, stop) for task in tasks)
        with ThreadPoolExecutor(max_workers=len(tasks)) as threads:
            return tuple(threads.map(lambda task: self._one(task, stop), tasks))

    def resume(self, directories: Sequence[Path], stop: Stop) -> tuple[RunRecord, ...]:  # noqa: ARG002
        """What has ended."""
        return ended(directories)

    def _one(self, task: Task, stop: Stop) -> RunRecord:
        assert not isinstance(task.built, Recipe)
        if self.watch is None:
            return run_once(task.built, task.request, task.directory, stop=stop.event)
        with closing(self.watch(task.directory.name)) as progress:
            return run_once(task.built, task.request, task.directory, on_progress=progress, stop=stop.event)

    def began(self, directories: Sequence[Path]) -> bool:
        """A child ends with its parent, so only what has ended is left."""
        return bool(ended(directories))

    def drop(self, directory: Path) -> None:
        """A child ends with its parent."""

    def avoid(self, nodes: Iterable[str]) -> None:
        """There is no other node."""

    def host(self) -> Host:
        """This machine."""
        return Host(machine=machine.ask(), cpus=os.cpu_count() or 1, node=platform.node())

    def objection(self) -> str:
        """There is none: this process runs here."""
        return ""


def ended(directories: Sequence[Path]) -> tuple[RunRecord, ...]:
    """The records of the runs when all of them have ended, else nothing."""
    records = [load_record(directory) for directory in directories]
    return tuple(record for record in records if record) if all(records) else ()


def tell_objection(launcher: Launcher, stderr: IO[str]) -> None:
    """What stands against a plan on the side of whoever runs it."""
    if told := launcher.objection():
        print(f"warning: {told}", file=stderr, flush=True)


def launcher_on(
    where: str,
    *,
    profile: str = "",
    directory: Path,
    say: Callable[[str], None],
    watch: Callable[[str], Progress] | None = None,
    exclusive: bool = False,
    together: bool = False,
) -> Launcher:
    """The launcher for `--on`; refuses a place that is not there before anything is made.

    Args:
        where: one of `PLACES`.
        profile: path of a Slurm profile, or ''.
        directory: run directory; jobs keep their files below it.
        say: told lines for a person.
        watch: see `LocalLauncher`.
        exclusive: whether runs measure throughput and so share their node with nobody.
        together: see `LocalLauncher`.
    """
    if where == "local":
        return LocalLauncher(watch=watch, together=together)
    from .slurm import launcher as slurm  # noqa: PLC0415  (its library is only needed on a cluster)
    from .slurm.profile import load_profile  # noqa: PLC0415

    try:
        text = Path(profile).read_text(encoding="utf-8") if profile else ""
    except OSError as error:
        raise UsageError(f"--slurm-profile {profile}: {error.strerror}") from error
    slurm.available()
    return slurm.SlurmLauncher(
        profile=load_profile(text, origin=profile), folder=directory.absolute() / "slurm", say=say, exclusive=exclusive
    )
