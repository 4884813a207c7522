"""How the environments of two candidates differ, from the evidence kept of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def difference(directory: Path, before: str, after: str) -> tuple[str, ...]:
    """`triton 3.6.0 -> 3.7.1` for every distribution that differs; nothing when either was never built."""
    old, new = (_distributions(directory / "environments" / f"{name}.json") for name in (before, after))
    if not old or not new:
        return ()
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return tuple(f"{name} {old.get(name, '(absent)')} -> {new.get(name, '(absent)')}" for name in names)


def _distributions(path: Path) -> Mapping[str, str]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["distributions"]
    except FileNotFoundError:
        return {}
    return dict(entry.split("==", 1) for entry in listed)
