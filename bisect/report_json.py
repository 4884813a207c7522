"""The verdict of an ordered search as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .intervals import clopper_pearson
from .report import SCHEMA, git_range, outcomes_text, sentence, verdict_name

if TYPE_CHECKING:
    from .report import Report
    from .report_rows import Row


def as_json(report: Report) -> dict[str, Any]:
    """The verdict as data; its keys are a promise."""
    last_good, first_bad = report.neighbours
    step = report.step
    return {
        "schema": SCHEMA,
        "kind": report.kind,
        "verdict": verdict_name(step),
        "direction": getattr(step, "direction", None),
        "last_good": last_good.name if last_good else None,
        "first_bad": first_bad.name if first_bad else None,
        "confidence": getattr(step, "confidence", None),
        "runs": report.runs,
        "candidates": [_row_json(row) for row in report.rows],
        "skipped": [
            {"candidate": row.name, "outcome": outcomes_text(row), "reason": row.reason}
            for row in report.rows
            if row.skipped
        ],
        "git_range": git_range(report),
        "reproduce": list(report.reproduce),
        "journal": report.journal,
        "sentence": sentence(report),
        "hunted": report.hunted,
        "reason": getattr(step, "reason", ""),
        "notes": list(report.notes),
        "nodes": {
            "faulty": [asdict(item) for item in report.faulty],
            "dependent": [asdict(item) for item in report.dependent],
        },
        "suspects": list(getattr(step, "suspects", ())),
        "no_change_probability": step.posterior.none,
        "neighbours": {
            "last_good": _row_json(last_good) if last_good else None,
            "first_bad": _row_json(first_bad) if first_bad else None,
        },
        "excluded": [{"build": name, "reason": reason} for name, reason in report.excluded],
        "proof": list(report.proof),
        "commits": list(report.commits),
        "lock_diff": list(report.lock_diff),
    }


def _row_json(row: Row) -> dict[str, Any]:
    low, high = clopper_pearson(row.bad, row.good + row.bad)
    return {
        "id": row.name,
        "date": row.date,
        "git_version": row.facts.get("git_version", ""),
        "cuda": row.facts.get("cuda", ""),
        "torch": row.facts.get("torch", ""),
        "bad": row.bad,
        "runs": row.good + row.bad,
        "interval": [round(low, 4), round(high, 4)],
        "outcomes": dict(row.outcomes),
        "probability": round(row.probability, 6),
        "throughput_ratio": None if row.ratio is None else round(row.ratio, 5),
        "throughput_interval": None if row.interval is None else [round(end, 5) for end in row.interval],
    }
