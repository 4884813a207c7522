"""The directory of a command that makes a fixed number of runs: taken up by the same command after a kill."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from .files import make_run_directory, write_atomically
from .shapes import COMMAND, TEXT, fault
from .state import run_number

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_NAME = "command.json"
ANSWER = "answer.json"


def take_up(directory: Path, *, command: str, argv: Sequence[str], identity: str) -> bool:
    """Make the directory; True where it holds an unanswered beginning of the same command, which goes on.

    Args:
        directory: the run directory.
        command: the command's name.
        argv: its options, without the directory; `resume` gives them again.
        identity: what must not differ between a beginning and its going on.
    """
    path = directory / FILE_NAME
    if not path.exists() or (directory / ANSWER).exists():
        make_run_directory(directory)
        header = {"schema": 1, "command": command, "argv": list(argv), "cwd": str(Path.cwd()), "identity": identity}
        write_atomically(path, json.dumps(header, indent=1) + "\n")
        return False
    begun = command_in(path)
    if begun["identity"] != identity:
        raise UsageError(
            f"{directory} holds the runs of another command: {begun['identity']}",
            hint="give another --out, or the same options",
        )
    return True


def command_in(path: Path) -> dict[str, Any]:
    """What the file says of the command that made its directory; UsageError where it is damaged."""
    hint = "remove the directory if nobody needs its evidence, or give another --out"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: the disk is damaged or it was changed by hand", hint=hint) from error
    wrong = fault(header, {**COMMAND, "identity": TEXT}) if isinstance(header, dict) else "it is not an object"
    if wrong:
        raise UsageError(f"{path} is damaged: {wrong}", hint=hint)
    return dict(header)


def last_run_in(directory: Path) -> int:
    """The highest number of a run that left a directory, or a file for its job; 0 for none."""
    left = chain(directory.iterdir(), (directory / "slurm").glob("run-*"))
    return max((run_number(path.name) for path in left), default=0)
