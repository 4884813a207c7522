"""Whether a finished environment was changed since it was built: what `verify` finds, for about the price of a listing.

Only files modified after the environment was finished are read; one replaced by a file with an older time is found by
`verify` alone.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from . import build, expected, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SHOWN = 2


def warn(built: build.Built, say: Callable[[str], None]) -> None:
    """Say in one line what is not as it was built; silent for an image as it is and for what was just built."""
    line = told(built.path) if built.cached and (built.path / "venv").exists() else ""
    if line:
        say(f"warning: {built.name} was changed after it was built: {line}")


def told(directory: Path) -> str:
    """What was changed in the finished environment of this directory, or ''."""
    found = verify.verify(
        directory / "venv",
        memory=directory / expected.MEMORY,
        pins=build.pins_of(directory),
        left=expected.read(directory),
        since_ns=(directory / "environment.json").stat().st_mtime_ns,
    )
    faults = [f"{item.kind} {item.path}" for item in found.findings if item.fault]
    if not faults:
        return ""
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    where = shlex.quote(str(directory / "venv"))
    return f"{', '.join(faults[:_SHOWN])}{more}; see `python -m envs verify {where}`"
