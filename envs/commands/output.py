"""What several subcommands print or look up."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from .. import outlook, spec
from ..errors import CannotBuildError
from ..store import Store

if TYPE_CHECKING:
    from ..environment_file import Entry
    from ..settings import Settings

SCHEMA = 1


def entry_row(entry: Entry, chosen: Settings) -> dict[str, Any]:
    """What `--json` says of an entry of the store."""
    return {
        "name": entry.name,
        "torch": entry.fingerprint.torch or entry.torch,
        "cuda": entry.cuda,
        "interpreter": entry.interpreter,
        "digest": entry.digest,
        "path": str(Store(chosen.store).directory(entry.digest)),
        "bytes": entry.bytes,
        "image": entry.image,
        "image_digests": list(entry.image_digests),
    }


def built_entry(name: str, chosen: Settings) -> Entry:
    """A built environment by the name of its definition, or by the start of its digest."""
    entries = Store(chosen.store).entries()
    matching = [entry for entry in entries if entry.name == name or (len(name) >= 6 and entry.digest.startswith(name))]
    if matching:
        return matching[-1]
    entry = outlook.entry_of(spec.load(name), chosen)
    if entry is None:
        raise CannotBuildError(f"{name} is not built", hint=f"python -m envs build {name}")
    return entry


def print_json(value: Any) -> int:  # noqa: ANN401  (anything JSON can spell)
    """Data on stdout; exit code 0."""
    print(json.dumps(value, indent=1, default=str))  # noqa: T201
    return 0


def say(line: str) -> None:
    """A line for a person, on stderr."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def gb(count: int) -> str:
    """`4.8 GB`."""
    return f"{count / 1e9:.1f} GB"
