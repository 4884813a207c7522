"""What a search for packages would take, before anything is built: the differences, the environments, the disk."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

from envs.history import base_of
from envs.machine import free_bytes
from envs.outlook import estimate
from envs.resolve import lock_for

from ..commands.search_options import RUN_S
from ..plan import (
    BUILD_S,
    BYTES_S,
    LOSSES,
    RATES,
    Cost,
    counted,
    expected_pairs,
    gigabytes,
    no_room,
    runs_told,
    set_runs,
    time_told,
)
from . import report as reports
from .differences import items
from .pair import sizes

if TYPE_CHECKING:
    from envs.settings import Settings

    from ..commands.search_options import Asked
    from .differences import Item
    from .pair import Sides
    from .sides import NotBuiltError


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
    if needs.image:
        print(f"  {needs.image_told}", file=stdout)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan(Cost):
    """The cost of a search over the differences of two sides; `runs` are those for one difference that acts alone.

    Attributes:
        items: the differences.
        environments: to be built, the two ends among them, those that are there already too.
        environment_bytes: size of one; 0 when the index does not tell.
    """

    items: tuple[Item, ...]
    environments: int
    environment_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The plan as data."""
        return {"environments": self.environments, **self.cost_json()}

    def lines(self) -> list[str]:
        """The plan for a person."""
        room = (
            f"at most {gigabytes(self.download_bytes)} to download, about {gigabytes(self.disk_bytes)} of disk at once"
        )
        differences = counted(len(self.items), "difference")
        return [
            f"{differences}, about {self.environments} environments to build, the two ends among them",
            f"  {room if self.disk_bytes else 'sizes unknown: the index does not tell them'}",
            f"  {runs_told(self.runs, self.pairs)}; at most {self.max_runs}; up to twice that if two act together",
            f"  {time_told(self.seconds)}",
            *(f"  {line}" for line in no_room(self.disk_bytes, self.free_bytes)),
        ]


def make_plan(sides: Sides, here: Settings, asked: Asked) -> SetPlan:
    """Estimate a search; nothing is built, and no index is asked."""
    found = items(sides.good.facts, sides.bad.facts)
    builds = min(2 ** len(found), len(found).bit_length() + 4) if found else 0
    needs = sizes(sides, here)
    speed = asked.question.throughput
    runs = () if speed or not found else tuple((rate, set_runs(len(found), rate)) for rate in RATES)
    pairs = tuple((ratio, expected_pairs(len(found), ratio)) for ratio in LOSSES) if speed and found else ()
    download = needs.download_bytes if builds else 0
    run_s = RUN_S[asked.question.kind] * (2 if speed else 1)
    return SetPlan(
        items=found,
        environments=builds,
        download_bytes=download,
        environment_bytes=needs.environment_bytes,
        disk_bytes=min(builds, asked.keep) * needs.environment_bytes,
        free_bytes=free_bytes(here.store),
        runs=runs,
        pairs=pairs,
        seconds=tuple(builds * BUILD_S + download / BYTES_S + count * run_s for _, count in (*runs, *pairs)),
        max_runs=asked.max_runs,
    )


def dry_run(sides: Sides, plan: SetPlan, *, as_json: bool, stdout: IO[str]) -> int:
    """The differences and what a search over them would take; nothing is built."""
    lists = sides.unreproducible
    if as_json:
        rows = [{**asdict(item), "kind": str(item.kind)} for item in plan.items]
        gone = [{"side": name, "name": item.name, "reason": item.reason} for name, item in lists]
        told = {"schema": reports.SCHEMA, "kind": "packages", "differences": rows, "unreproducible": gone}
        print(json.dumps({**told, "warnings": sides.warnings, **plan.as_json()}), file=stdout)
        return 0
    print("\n".join(plan_lines(sides, plan)), file=stdout)
    return 0


def plan_lines(sides: Sides, plan: SetPlan) -> list[str]:
    """The differences and what they take, for a person."""
    good, bad = sides.both
    nothing = f"no difference between {good.name} and {bad.name} that could be applied: nothing to search"
    rest = [
        *reports.item_lines(plan.items, shown=len(plan.items)),
        *sides.warnings,
        *(f"cannot be reproduced ({name}): {item.name}: {item.reason}" for name, item in sides.unreproducible),
    ]
    return [*(plan.lines() if plan.items else [nothing]), *(f"  {line}" for line in rest)]
