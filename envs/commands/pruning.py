"""`prune`: what killed builds left, and environments on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import place
from ..settings import parse_size
from ..store import Store
from .output import SCHEMA, built_entry, entry_row, gb, print_json, say

if TYPE_CHECKING:
    import argparse

    from ..environment_file import Entry
    from ..settings import Settings


def prune(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Remove leftovers and the named, or least recently used, environments."""
    store = Store(chosen.store)
    entries = store.entries()
    doomed = _doomed(entries, arguments, chosen)
    removed = [entry for entry in doomed if arguments.dry_run or store.remove(entry.digest)]
    for entry in doomed:
        if entry not in removed:
            say(f"kept {entry.name} torch {entry.torch} {entry.cuda}: it is in use")
    containers = images = leftovers = 0
    if not arguments.dry_run:  # containers first: one of a killed build still writes
        used = frozenset(entry.image for entry in store.entries())
        containers, images = place.remove_leftovers(chosen.store, used=used)
        leftovers = store.remove_leftovers()
    kept = sum(entry.bytes for entry in entries) - sum(entry.bytes for entry in removed)
    if arguments.json:
        rows = [entry_row(entry, chosen) for entry in removed]
        return print_json(
            {
                "schema": SCHEMA,
                "removed": rows,
                "leftovers": leftovers,
                "containers": containers,
                "images": images,
                "kept_bytes": kept,
                "dry_run": arguments.dry_run,
            }
        )
    verb = "would remove" if arguments.dry_run else "removed"
    for entry in removed:
        print(f"{verb} {entry.name} torch {entry.torch} {entry.cuda}, {gb(entry.bytes)}")  # noqa: T201
    others = f"{leftovers} unfinished builds, {containers} containers and {images} old base images"
    say(f"{verb} {len(removed)} environments, {others}; {gb(kept)} remain")
    return 0


def _doomed(entries: tuple[Entry, ...], arguments: argparse.Namespace, chosen: Settings) -> list[Entry]:
    """Named ones, all of them, or the least recently used ones until the rest fits."""
    if arguments.all:
        return list(entries)
    named = {built_entry(name, chosen).digest for name in arguments.names}
    doomed = [entry for entry in entries if entry.digest in named]
    if arguments.max_size is not None:
        limit = parse_size(arguments.max_size)
        rest = [entry for entry in entries if entry.digest not in named]
        total = sum(entry.bytes for entry in rest)
        for entry in rest:
            if total <= limit:
                break
            doomed.append(entry)
            total -= entry.bytes
    return doomed
