"""Whether a finished environment was changed since it was built: what `verify` finds, for about the price of a listing.

What its wheels bring about by themselves is no change, and neither is what runs may leave behind: bytecode, compile
caches and data of nobody. Only files that were modified or put there after the environment was finished are read.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from . import expected, outlook, verify
from .findings import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from .build import Built
    from .findings import Finding

_SHOWN = 2
_CHANGES = frozenset({Kind.CHANGED, Kind.MISSING, Kind.UNEXPECTED})
_CODE = (".py", ".so", ".pth")


def of(built: Built) -> str:
    """What was changed in an environment that was there already, or ''; an image as it is holds nothing to compare."""
    return told(built.path) if built.cached and (built.path / "venv").exists() else ""


def rebuild_command(digest: str, store: Path) -> str:
    """What removes an environment, so that the next command builds it anew."""
    return f"python -m envs prune {digest[:12]} --store {shlex.quote(str(store))}"


def told(directory: Path) -> str:
    """What was changed in the finished environment of this directory, or ''."""
    found = verify.verify(
        directory / "venv",
        memory=directory / expected.MEMORY,
        pins=outlook.pins_of(directory),
        left=expected.read(directory),
        since_ns=(directory / "environment.json").stat().st_mtime_ns,
    )
    faults = [_words(item) for item in found.findings if item.fault and _is_change(item)]
    if not faults:
        return ""
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    where = shlex.quote(str(directory / "venv"))
    return f"{', '.join(faults[:_SHOWN])}{more}; see `python -m envs verify {where}`"


def _words(item: Finding) -> str:
    return f"{item.path} ({item.detail})" if item.kind is Kind.UNEXPECTED else f"{item.kind} {item.path}"


def _is_change(item: Finding) -> bool:
    if item.kind is Kind.UNOWNED:
        return item.path.startswith("lib") and item.path.endswith(_CODE) and "cache" not in item.path.lower()
    return item.kind in _CHANGES and not item.path.endswith(".pyc")
