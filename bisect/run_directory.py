"""The directory of a command that makes a fixed number of runs: taken up by the same command after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from envs.errors import UsageError

from .files import make_run_directory, write_atomically

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
    begun = json.loads(path.read_text(encoding="utf-8"))
    if begun["identity"] != identity:
        raise UsageError(
            f"{directory} holds the runs of another command: {begun['identity']}",
            hint="give another --out, or the same options",
        )
    return True
