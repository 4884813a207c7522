"""`list` and `lock`: what is defined, locked and built."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import history, lock, outlook, pylock, resolve, spec
from ..errors import UsageError
from ..store import Store
from .output import SCHEMA, entry_row, gb, print_json, say

if TYPE_CHECKING:
    import argparse

    from ..settings import Settings


def list_all(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Definitions, histories and what else is built."""
    from tabulate import tabulate  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    rows = [_definition_row(definition, chosen) for definition in spec.shipped()]
    told = [_definition_row(definition, chosen) for definition in history.definitions()]
    entries = [entry_row(entry, chosen) for entry in Store(chosen.store).entries()]
    if arguments.json:
        return print_json({"schema": SCHEMA, "definitions": rows, "histories": told, "environments": entries})
    table = [(row["name"], row["torch"] or "newest", row["cuda"], row["state"], row["summary"]) for row in rows]
    print(tabulate(table, headers=("name", "torch", "cuda", "state", "what")))  # noqa: T201
    done = [(row["name"], row["state"], row["summary"].partition(", then ")[2]) for row in told]
    print(f"\n{tabulate(done, headers=('with a history', 'state', 'what was done to it'))}")  # noqa: T201
    own = {row["digest"] for row in (*rows, *told)}
    others = [
        (item["name"], item["torch"], item["cuda"], gb(item["bytes"]), item["path"])
        for item in entries
        if item["digest"] not in own
    ]
    if others:
        print(f"\n{tabulate(others, headers=('also built', 'torch', 'cuda', 'size', 'path'))}")  # noqa: T201
    return 0


def _definition_row(definition: spec.Definition, chosen: Settings) -> dict[str, Any]:
    entry = outlook.entry_of(definition, chosen)
    locked = (resolve.LOCKS / f"pylock.{history.base_of(definition).name}.toml").exists()
    return {
        "name": definition.name,
        "summary": definition.summary,
        "torch": definition.torch,
        "cuda": definition.cuda,
        "channel": str(definition.channel),
        "python": list(definition.pythons),
        "state": "built" if entry else "locked" if locked else "not locked",
        "digest": entry.digest if entry else "",
        "path": str(Store(chosen.store).directory(entry.digest)) if entry else "",
        "bytes": entry.bytes if entry else 0,
    }


def lock_again(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Resolve and write locks, or check the committed ones."""
    if arguments.output and len(arguments.names) > 1:
        raise UsageError("--output takes the lock of one definition", hint="give one NAME")
    rows = []
    for name in arguments.names:
        definition = spec.load(name)
        if definition.as_it_is:
            raise UsageError(f"{name} is an image as it is: there is nothing to lock", hint="build it")
        if arguments.check:
            resolved, path = _checked(definition)
        else:
            say(f"resolving {definition.name}")
            resolved, path = _resolved(definition, chosen, arguments.output)
        rows.append({"name": definition.name, "path": path, "digest": resolved.digest, "lock": asdict(resolved)})
    if arguments.json:
        return print_json({"schema": SCHEMA, "locks": rows})
    for row in rows:
        print(row["path"])  # noqa: T201
    return 0


def _checked(definition: spec.Definition) -> tuple[lock.Lock, str]:
    found = resolve.committed_lock(definition)
    if found is None:
        raise UsageError(f"{definition.name} has no committed lock", hint=f"python -m envs lock {definition.name}")
    return found, str(resolve.LOCKS / f"pylock.{definition.name}.toml")


def _resolved(definition: spec.Definition, chosen: Settings, output: str | None) -> tuple[lock.Lock, str]:
    """Resolve and write: beside the shipped definitions for a shipped release, else to the file, else to the store."""
    shipped = definition.name in {item.name for item in spec.shipped()}
    replaced = chosen.index or chosen.wheelhouse
    if shipped and definition.torch and not output and not replaced:
        resolved = resolve.lock_universal(definition, chosen)
        path = resolve.LOCKS / f"pylock.{definition.name}.toml"
    else:
        resolved = resolve.lock_now(resolve.pinned(definition, chosen), chosen)
        path = Path(output) if output else resolve.resolved_path(resolve.pinned(definition, chosen), chosen)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pylock.to_toml(resolved), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the lock to {path}: {error.strerror}", hint="choose another --output"
        ) from error
    return resolved, str(path)
