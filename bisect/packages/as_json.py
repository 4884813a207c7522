"""The answer of a package search as data, for scripts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..model import Conclusion
from . import FoundSet
from .report import SCHEMA, installed_or_imported, mix_json, sentence, verdict_name

if TYPE_CHECKING:
    from . import Count
    from .differences import Item
    from .report import SetReport


def as_json(report: SetReport) -> dict[str, Any]:
    """The verdict as data: the keys of every search, and those of a set."""
    step = report.step
    skipped = {run.items: run.outcome for run in report.seen if run.conclusion is Conclusion.SKIP}
    return {
        "schema": SCHEMA,
        "kind": "packages",
        "verdict": verdict_name(step),
        "direction": "regression" if isinstance(step, FoundSet) else None,
        "last_good": report.good,
        "first_bad": report.bad,
        "confidence": getattr(step, "confidence", None),
        "runs": report.runs,
        "environments": report.environments,
        "candidates": [mix_json(report, mix) for mix in report.names],
        "skipped": [{"candidate": report.names[mix], "outcome": outcome} for mix, outcome in skipped.items()],
        "git_range": None,
        "reproduce": list(report.reproduce),
        "journal": report.journal,
        "sentence": sentence(report),
        "hunted": report.hunted,
        "reason": getattr(step, "reason", ""),
        "notes": list(getattr(step, "notes", ())),
        "members": [_item_json(item) for item in report.members],
        "any_of": bool(getattr(step, "any_of", False)),
        "forward": [_count_json(report, count) for count in getattr(step, "forward", ())],
        "reverse": [_count_json(report, count) for count in getattr(step, "reverse", ())],
        "still_fails_without": list(getattr(step, "still_fails_without", ())),
        "beside": [_count_json(report, count) for count in getattr(step, "beside", ())],
        "another": bool(getattr(step, "another", False)),
        "suspects": [
            {"members": list(each.members), "any_of": each.any_of, "probability": round(each.probability, 6)}
            for each in getattr(step, "suspects", ())
        ],
        "differences": [_item_json(item) for item in report.items],
        "unreproducible": [{"name": name, "reason": reason} for name, reason in report.unreproducible],
        "warnings": list(report.warnings),
        "import_changes": {name: list(lines) for name, lines in report.import_changes.items()},
        "installed_or_imported": installed_or_imported(report),
        "proof": list(report.proof),
    }


def _item_json(item: Item) -> dict[str, Any]:
    return {
        "id": item.id, "kind": str(item.kind), "name": item.name, "good": item.good, "bad": item.bad, "why": item.why,
    }  # fmt: skip


def _count_json(report: SetReport, count: Count) -> dict[str, Any]:
    name = report.names.get(count.items, "")
    told = {"candidate": name, "items": sorted(count.items), "bad": count.failures, "runs": count.runs}
    return told if count.change is None else {**told, "change": round(math.expm1(count.change), 5)}
