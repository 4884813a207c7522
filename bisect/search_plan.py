"""What a search is about to do: its candidates from the index, what is built already, and the cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envs import machine
from envs.errors import ToolError
from envs.outlook import estimate, is_built
from envs.resolve import lock_for
from envs.room import Estimate

from .commands.search_options import RUN_S
from .model import Problem
from .plan import make_plan

if TYPE_CHECKING:
    from envs.settings import Settings
    from envs.spec import Definition

    from .searches import Request


def new_plan(request: Request) -> dict[str, Any]:
    """List the builds, pick the range, and say what the search will cost."""
    found = request.find_range()
    candidates = [asdict(candidate) for candidate in found.candidates]
    definitions = {entry["id"]: request.define(entry) for entry in candidates}
    cached = [name for name, definition in definitions.items() if is_built(definition, request.settings)]
    problem = Problem(
        candidates=tuple(definitions),
        good=found.good,
        bad=found.bad,
        equal=found.equal,
        max_runs=request.asked.max_runs,
        cached=frozenset(cached),
    )
    size = _size(definitions[found.bad], request.settings)
    cost = make_plan(
        problem,
        certain=request.asked.certain,
        run_s=RUN_S[request.asked.question.kind],
        download_bytes=size.download_bytes,
        disk_bytes=size.disk_bytes,
        free_bytes=machine.free_bytes(request.settings.store),
        keep=request.asked.keep,
        throughput=request.asked.question.throughput,
    )
    image = [f"      {size.image_told}"] if size.image else []
    lines = cost.lines() + image + [f"      not a candidate: {item.build}, {item.reason}" for item in found.excluded]
    return {
        "candidates": candidates,
        "excluded": [asdict(item) for item in found.excluded],
        "good": found.good,
        "bad": found.bad,
        "equal": found.equal,
        "cached": cached,
        "hunted": request.asked.question.words,
        "certain": request.asked.certain,
        "throughput": request.asked.question.throughput,
        "min_effect": request.asked.min_effect,
        "first_bytes": cost.first_bytes,
        "cost": {**cost.as_json(), "image": size.image, "excluded": [asdict(item) for item in found.excluded]},
        "lines": lines,
    }


def _size(definition: Definition, settings: Settings) -> Estimate:
    """Of one environment; zeros when it cannot be resolved, which the loop will tell."""
    try:
        return estimate(lock_for(definition, settings), settings)
    except ToolError:
        return Estimate(download_bytes=0, disk_bytes=0, cache_bytes=0)
