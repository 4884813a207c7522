"""What a command needs of its surroundings, looked at before anything is listed, downloaded or made.

The options of the benchmark are shown to the benchmark itself, which knows them and needs no torch for that.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from envs import machine, process, room
from envs.errors import CannotRunError, UsageError
from envs.place import refuse_unavailable

from .commits import refuse_no_repository
from .probe import RunKind
from .workload import WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envs.settings import Settings
    from envs.spec import Definition

    from .commands.search_options import Asked

_REFUSED = 2
_OWN_COMMANDS = ("python", "pip", "torchrun")
"""Beginnings of commands that every environment has."""
_INTERPRETERS = ("python", "bash", "sh")


def refuse_unusable(settings: Settings, *, image: str = "", on: str = "local") -> None:
    """A container engine that does not answer, an image that is not to be had, and a store that cannot be written.

    Nodes of a cluster may hold an image that this machine does not: only what is built here is looked for here.
    """
    refuse_unavailable(settings, image, builds_here=on == "local")
    room.refuse_unwritable(settings.store)


def refuse_no_room(wanted_bytes: int, store: Path) -> None:
    """A disk that not even the two endpoints of a search fit on."""
    free = machine.free_bytes(store)
    if wanted_bytes > free:
        raise CannotRunError(
            f"the two endpoints need about {wanted_bytes / 1e9:.1f} GB at {store}, and {free / 1e9:.1f} GB are free",
            hint="free some space with `python -m envs prune`, or choose another place with --store",
            outcome="disk_full",
        )


def refuse_missing(asked: Asked, settings: Settings, *, base: Definition, torch_repo: str) -> None:
    """Whatever a search names or needs that is not there."""
    if torch_repo:
        refuse_no_repository(torch_repo)
    match asked.question.kind:
        case RunKind.COMMAND:
            refuse_no_command(asked.request.command, requirements=base.requirements)
        case RunKind.TRAIN:
            refuse_options(asked.request.arguments)
        case RunKind.HAZARDS:
            pass  # its one name is checked with the question
    refuse_unusable(settings, image=base.image, on=asked.on)


def refuse_options(arguments: Sequence[str]) -> None:
    """Options that the benchmark would refuse once an environment is built."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    argv = [sys.executable, "-m", WORKLOAD.name, "--check", "--output", os.devnull, *arguments]
    done = process.capture(argv, cwd=WORKLOAD.parent, env=environ)
    if done.returncode == _REFUSED:
        told = done.stderr.strip().splitlines() or ["it does not say why"]
        hints = [line.removeprefix("hint: ") for line in told if line.startswith("hint: ")]
        reason = next((line for line in reversed(told) if not line.startswith("hint: ")), told[-1])
        reason = reason.removeprefix("dflash: ").removeprefix("python -m dflash: error: ")
        raise UsageError(f"the benchmark refuses this: {reason}", hint=hints[0] if hints else "see train --help")


def refuse_no_command(command: Sequence[str], *, requirements: Sequence[str] = ()) -> None:
    """A command that is not there; an environment has its own Python and the scripts of its packages first on PATH."""
    program, *rest = command
    if "/" in program:
        found = os.access(program, os.X_OK) and Path(program).is_file()
    else:
        brought = {Requirement(text).name for text in requirements}
        found = program.startswith(_OWN_COMMANDS) or program in brought or shutil.which(program) is not None
    if not found:
        raise UsageError(f"there is no command {program!r}", hint="like: --probe command -- python repro.py")
    script = rest[0] if rest and program.startswith(_INTERPRETERS) else "-"
    if not script.startswith("-") and not Path(script).exists():
        raise UsageError(f"there is no file {script!r} for {program} to run", hint="the command runs in this directory")
