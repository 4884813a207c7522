"""What an environment with a history was found to be when it was finished, kept beside it.

A history is meant to leave things behind; written down once, they are told from what was done to the environment since.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from . import verify
from .errors import UsageError
from .findings import Finding, Kind, Left
from .step import Action

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .lock import Pin
    from .step import HistoryStep

FILE_NAME = "expected.json"
MEMORY = "verified.json"
SCHEMA = 1
_UNRECORDED = frozenset({Kind.CHANGED, Kind.DOUBLY_OWNED, Kind.UNOWNED, Kind.SITECUSTOMIZE})
"""Findings about a file whose content no RECORD vouches for."""

_OVERWRITING = frozenset({Action.INSTALL, Action.UNINSTALL, Action.SWAP})


def keep(directory: Path, pins: Sequence[Pin], steps: Sequence[HistoryStep]) -> None:
    """Look at the environment in `directory` and write down what is found, with the hashes that no RECORD has.

    Installed files are read only if one of the steps can have overwritten any.
    """
    venv = directory / "venv"
    contents = any(step.action in _OVERWRITING for step in steps)
    found = verify.verify(venv, memory=directory / MEMORY, pins=pins, contents=contents)
    faults = [item for item in found.findings if item.fault]
    files = [item.path for item in faults if item.kind in _UNRECORDED and (venv / item.path).is_file()]
    table = {
        "schema": SCHEMA,
        "findings": [asdict(item) for item in faults],
        "digests": {path: verify.digest(venv / path) for path in sorted(set(files))},
    }
    (directory / FILE_NAME).write_text(json.dumps(table, indent=1), encoding="utf-8")


def read(directory: Path) -> Left | None:
    """What was found when it was finished; None where nothing was written down (no history)."""
    path = directory / FILE_NAME
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        findings = tuple(
            Finding(**{**item, "kind": Kind(item["kind"]), "owners": tuple(item["owners"])})
            for item in table["findings"]
        )
        return Left(findings=findings, digests=dict(table["digests"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is unreadable: {error}", hint="remove the environment and build it again") from error
