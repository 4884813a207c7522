"""The directory of a command that makes a fixed number of runs: taken up by the same command, read once answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.errors import InterruptedRunError, UsageError

from .again import resume_command
from .exit_codes import kept_code
from .files import make_run_directory, write_atomically
from .record_file import record_in
from .shapes import COMMAND, TEXT, fault
from .state import run_number

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_NAME = "command.json"
ANSWER = "answer.json"
REPORT = "report.txt"
_HINT = "remove the directory if nobody needs its evidence, or give another --out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a finished command said: as JSON, as text, and its exit code."""

    json: str
    report: str
    code: int


def answered(directory: Path, *, identity: str) -> Answered | None:
    """What the same command, finished in this directory, said; None where it did not finish there.

    UsageError where another command finished there, or where what it left is damaged.
    """
    path, answer = directory / FILE_NAME, directory / ANSWER
    if not path.exists() or not answer.exists():
        return None
    _refuse_another(directory, identity)
    try:
        text, report = answer.read_text(encoding="utf-8"), (directory / REPORT).read_text(encoding="utf-8")
        code = kept_code(json.loads(text))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"the answer in {directory} is damaged: {error}", hint=_HINT) from error
    return Answered(json=text.rstrip(), report=report.rstrip(), code=code)


def keep_answer(directory: Path, *, text: str, report: str) -> None:
    """Write what was found out; the answer last, which says that the command is finished."""
    write_atomically(directory / REPORT, report + "\n")
    write_atomically(directory / ANSWER, text + "\n")


def kept_report(directory: Path, *, as_json: bool) -> str | None:
    """What the directory of a command without a journal says: its report or answer, or how far it came; else None."""
    path = directory / (ANSWER if as_json else REPORT)
    if path.exists():
        return path.read_text(encoding="utf-8", errors="replace").rstrip()
    if not (directory / FILE_NAME).exists():
        return None
    command, go_on = command_in(directory / FILE_NAME)["command"], resume_command(directory)
    runs = sum("ended" in (record_in(each) or {}) for each in directory.iterdir() if each.is_dir())
    if as_json:
        told = {"schema": 1, "kind": command, "verdict": "unfinished", "runs": runs, "go_on": go_on}
        return json.dumps(told, indent=1)
    return f"unfinished: {command} has {runs} finished {'run' if runs == 1 else 'runs'}\n  go on with: {go_on}"


def kept_exit_code(directory: Path) -> int:
    """What the command of such a directory exited with; 130 where it did not finish."""
    try:
        return kept_code(json.loads((directory / ANSWER).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return InterruptedRunError.exit_code
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"the answer in {directory} is damaged: {error}", hint=_HINT) from error


def take_up(directory: Path, *, command: str, argv: Sequence[str], identity: str) -> bool:
    """Make the directory; True where it holds a beginning of the same command, which goes on.

    Args:
        directory: the run directory.
        command: the command's name.
        argv: its options, without the directory; `resume` gives them again.
        identity: what must not differ between a beginning and its going on.
    """
    path = directory / FILE_NAME
    if not path.exists():
        make_run_directory(directory)
        header = {"schema": 1, "command": command, "argv": list(argv), "cwd": str(Path.cwd()), "identity": identity}
        write_atomically(path, json.dumps(header, indent=1) + "\n")
        return False
    _refuse_another(directory, identity)
    return True


def _refuse_another(directory: Path, identity: str) -> None:
    begun = command_in(directory / FILE_NAME)
    if begun["identity"] != identity:
        raise UsageError(
            f"{directory} holds the runs of another command: {begun['identity']}",
            hint="give another --out, or the same options",
        )


def command_in(path: Path) -> dict[str, Any]:
    """What the file says of the command that made its directory; UsageError where it is damaged."""
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: the disk is damaged or it was changed by hand", hint=_HINT) from error
    wrong = fault(header, {**COMMAND, "identity": TEXT}) if isinstance(header, dict) else "it is not an object"
    if wrong:
        raise UsageError(f"{path} is damaged: {wrong}", hint=_HINT)
    return dict(header)


def last_run_in(directory: Path) -> int:
    """The highest number of a run that left a directory, or a file for its job; 0 for none."""
    left = chain(directory.iterdir(), (directory / "slurm").glob("run-*"))
    return max((run_number(path.name) for path in left), default=0)
