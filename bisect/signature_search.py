"""Look for a person's regular expression in a log, in a process of its own: one that backtracks without end is ended.

The expression engine of Python hears no signal while it matches, so nothing but another process can give it a deadline.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs import process
from envs.errors import CannotRunError

if TYPE_CHECKING:
    import threading
    from pathlib import Path

PATIENCE_S = 60.0
"""Far more than any log that is kept takes with an expression that does not backtrack without end."""
MAX_LINES = 4
MAX_CHARACTERS = 500
_PROGRAM = """
import json, re, sys
path, pattern, lines, characters = sys.argv[1], re.compile(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
found = []
with open(path, encoding="utf-8", errors="replace") as log:
    while len(found) < lines and (line := log.readline(1 << 20)):
        if pattern.search(line.rstrip("\\n")):
            found.append(line.strip()[:characters])
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The first lines that match, and why nobody can say (empty where somebody can)."""

    lines: tuple[str, ...] = ()
    fault: str = ""


def search_log(
    path: Path, pattern: str, *, patience_s: float = PATIENCE_S, stop: threading.Event | None = None
) -> Matches:
    """The first lines of the log at `path` that match; KeyboardInterrupt when `stop` was set before the end."""
    told: list[str] = []
    python = (sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM)
    ended = process.run(
        (*python, str(path), pattern, str(MAX_LINES), str(MAX_CHARACTERS)),
        cwd=path.parent,
        env={"PATH": os.defpath},
        timeout_s=patience_s,
        on_line=told.append,
        watch=lambda _: stop is not None and stop.is_set(),
        grace_s=1.0,
    )
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt
    if ended.timed_out:
        return Matches(fault=f"the signature {pattern!r} did not come to an end in {patience_s:.0f} s on one log")
    if ended.returncode != 0 or not told:
        raise CannotRunError(f"the signature {pattern!r} could not be looked for in {path}: {' '.join(told[-1:])}")
    return Matches(lines=tuple(json.loads(told[-1])))
