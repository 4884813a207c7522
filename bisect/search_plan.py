"""What a search is about to do: its candidates from the index, what is built already, and the cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envs import machine
from envs.build import estimate, is_built
from envs.errors import ToolError
from envs.resolve import lock_for

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
    download, disk = _sizes(definitions[found.bad], request.settings)
    cost = make_plan(
        problem,
        certain=request.asked.certain,
        run_s=RUN_S[request.asked.question.kind],
        download_bytes=download,
        disk_bytes=disk,
        free_bytes=machine.free_bytes(request.settings.store),
        keep=request.asked.keep,
        throughput=request.asked.question.throughput,
    )
    lines = cost.lines() + [f"      not a candidate: {item.build}, {item.reason}" for item in found.excluded]
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
        "cost": {**cost.as_json(), "excluded": [asdict(item) for item in found.excluded]},
        "lines": lines,
    }


def _sizes(definition: Definition, settings: Settings) -> tuple[int, int]:
    """Bytes to download and on disk of one environment; zeros when it cannot be resolved, which the loop will tell."""
    try:
        found = estimate(lock_for(definition, settings), settings)
    except ToolError:
        return 0, 0
    return found.download_bytes, found.disk_bytes
