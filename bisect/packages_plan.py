"""What a search for packages would take, before anything is built: the differences, the environments, the disk."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, TYPE_CHECKING

from envs.build import estimate
from envs.history import base_of
from envs.machine import free_bytes
from envs.resolve import lock_for

from . import packages_report as reports
from .packages_differences import items
from .packages_pair import sizes
from .plan import no_room

if TYPE_CHECKING:
    from envs.settings import Settings

    from .packages_pair import Sides
    from .packages_sides import NotBuiltError


def to_build_first(unbuilt: NotBuiltError, here: Settings, *, as_json: bool, stdout: IO[str]) -> int:
    """As much of a plan as there is before the side with a history is built: what that build takes."""
    needs = estimate(lock_for(base_of(unbuilt.definition), here), here)
    download, disk, free = needs.download_bytes, needs.disk_bytes, free_bytes(here.store)
    if as_json:
        told = {
            "schema": reports.SCHEMA,
            "kind": "packages",
            "differences": None,
            "build_first": unbuilt.definition.name,
        }
        print(json.dumps({**told, "download_bytes": download, "disk_bytes": disk, "free_bytes": free}), file=stdout)
        return 0
    print(f"{unbuilt.message}: the differences and the rest of the plan are known then", file=stdout)
    print(f"  {unbuilt.hint}", file=stdout)
    sizes_told = f"at most {download / 1e9:.1f} GB to download, about {disk / 1e9:.1f} GB of disk"
    print(f"  {sizes_told}, before what its history installs; {free / 1e9:.1f} GB are free", file=stdout)
    return 0


def dry_run(sides: Sides, here: Settings, *, keep: int, as_json: bool, stdout: IO[str]) -> int:
    """The differences and what a search over them would take; nothing is built."""
    good, bad = sides.both
    found = items(good.facts, bad.facts)
    builds = min(2 ** len(found), len(found).bit_length() + 4) if found else 0
    lists = sides.unreproducible
    needs, free = sizes(sides, here), free_bytes(here.store)
    disk = min(builds, keep) * needs.environment_bytes
    download = needs.download_bytes if builds else 0
    if as_json:
        rows = [{**asdict(item), "kind": str(item.kind)} for item in found]
        gone = [{"side": name, "name": item.name, "reason": item.reason} for name, item in lists]
        told = {"schema": reports.SCHEMA, "kind": "packages", "differences": rows, "unreproducible": gone}
        needed = {"environments": builds, "download_bytes": download, "disk_bytes": disk, "free_bytes": free}
        print(json.dumps({**told, "warnings": sides.warnings, **needed}), file=stdout)
        return 0
    if found:
        print(f"{len(found)} differences, about {builds} environments to build, the two ends among them", file=stdout)
        room = f"at most {download / 1e9:.1f} GB to download, about {disk / 1e9:.1f} GB of disk at once"
        print(f"  {room if disk else 'sizes unknown: the index does not tell them'}", file=stdout)
    else:
        print(f"no difference between {good.name} and {bad.name} that could be applied: nothing to search", file=stdout)
    for line in [
        *no_room(disk, free),
        *reports.item_lines(found, shown=len(found)),
        *sides.warnings,
        *(f"cannot be reproduced ({name}): {item.name}: {item.reason}" for name, item in lists),
    ]:
        print(f"  {line}", file=stdout)
    return 0
