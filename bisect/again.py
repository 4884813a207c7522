"""Commands to paste: what goes on with a run directory, and what repeats one of its runs beside the evidence."""

from __future__ import annotations

import os
import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GONE = "  # the environment was removed: run the search's command again for it"
_WRITTEN = ("--output", "--progress")
"""Options of the workload that name a file it writes."""


def resume_command(directory: Path, environ: Mapping[str, str] = os.environ) -> str:
    """What goes on with a run directory, by nox, by uv, or with a Python."""
    return command_again(("resume", str(directory)), environ)


def command_again(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """A command of this program, started the way this process was."""
    told = shlex.join(words)
    if "NOX_CURRENT_SESSION" in environ:
        return f"nox -s bisect -- {told}"
    return f"{'uv run ' if 'UV' in environ else ''}python -m bisect {told}"


def repeat_run(record: Mapping[str, Any], run: Path, *, cwd: str) -> str:
    """A line for a shell that makes a recorded run once more, and writes elsewhere than it did.

    Args:
        record: what the run wrote down of itself.
        run: its directory.
        cwd: where a person's own command is run.
    """
    here, argv = run.absolute(), list(record["argv"])
    if not (here / "staged").is_dir():
        return _repeat_command(record, argv, cwd=cwd)
    fresh = here / "again"
    words = [str(fresh / Path(word).name) if option in _WRITTEN else word for option, word in pairwise(("", *argv))]
    steps = (f"mkdir -p {shlex.quote(str(fresh))}", f"cd {shlex.quote(str(here / 'staged'))}", shlex.join(words))
    return " && ".join(steps) + (GONE if argv[0].startswith("/") and not Path(argv[0]).exists() else "")


def _repeat_command(record: Mapping[str, Any], argv: list[str], *, cwd: str) -> str:
    """A person's own command, with the programs of the environment first on PATH, as it ran."""
    programs = str(record.get("variables", {}).get("PATH", "")).partition(":")[0]
    told = shlex.join(argv)
    if programs:
        told = f"PATH={shlex.quote(programs)}:$PATH {told}"
    told = f"cd {shlex.quote(cwd)} && {told}" if cwd else told
    return told + (GONE if programs and not Path(programs).exists() else "")
