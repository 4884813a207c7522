"""What the matrix does to the world: make an environment, make a run in one, here or on a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from envs.build import build

from ..builds import changed_since, refuse_changed
from ..changed import ChangedError
from ..launch import Recipe, Task
from ..probe import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from envs.settings import Settings
    from envs.spec import Definition

    from ..launch import Launcher, Stop
    from ..probe import RunRecord, RunRequest

Room: TypeAlias = Environment | Recipe


class Hands(Protocol):
    """The effects of a matrix; a fake one is a matrix in memory."""

    def build(self, definition: Definition) -> Room:
        """The finished environment, as it was built; CannotBuildError or CannotRunError when there can be none."""

    def refuse_changed(self, environment: Room) -> None:
        """ChangedError for an environment of this matrix that is not as it was built any more."""

    def run(self, environment: Room, request: RunRequest, directory: Path, stop: Stop) -> RunRecord:
        """One run in a fresh directory; JobLostError when it ended without a record."""

    def began(self, directory: Path) -> bool:
        """Whether a run that a killed matrix had started ended, or is still under way."""

    def resume(self, directory: Path, stop: Stop) -> RunRecord:
        """Wait for a run that `began`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchingHands:
    """Builds in the store and runs where the launcher runs."""

    settings: Settings
    launcher: Launcher
    say: Callable[[str], None]

    def build(self, definition: Definition) -> Room:
        """Build it, take it from the store as it was built, or leave it to the nodes."""
        if self.launcher.node_store is not None:
            return Recipe(definition=definition, settings=replace(self.settings, store=self.launcher.node_store))
        built = build(definition, self.settings, report=self.say)
        refuse_changed(built, self.settings.store)
        if built.fingerprint.torch_error:
            self.say(f"{built.name}: torch cannot be imported: {built.fingerprint.torch_error}")
        return built

    def refuse_changed(self, environment: Room) -> None:
        """Look at it again; nodes that build for themselves look at theirs before each run."""
        if isinstance(environment, Recipe):
            return
        changed = changed_since(environment.name, environment.digest, self.settings.store)
        if changed is not None:
            raise ChangedError(changed)

    def run(self, environment: Room, request: RunRequest, directory: Path, stop: Stop) -> RunRecord:
        """Run it, and keep everything but the home directory, which is no evidence."""
        (record,) = self.launcher.run((Task(built=environment, request=request, directory=directory),), stop)
        shutil.rmtree(directory / "home", ignore_errors=True)
        return record

    def began(self, directory: Path) -> bool:
        """Whether anything is left of it."""
        return self.launcher.began([directory])

    def resume(self, directory: Path, stop: Stop) -> RunRecord:
        """Wait for it."""
        (record,) = self.launcher.resume([directory], stop)
        shutil.rmtree(directory / "home", ignore_errors=True)
        return record
