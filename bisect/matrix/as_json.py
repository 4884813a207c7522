"""Cells to JSON and back: the report for scripts, an old report to compare with, the entries of the journal.

A file of a newer schema or of another kind is refused with the reason.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from . import Blocked, Cell, CellRun, Rules, State, Trace
from .key import CellKey
from .state import assess

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .compare import Change
    from .recommend import Recommendation
    from .report import Report
    from .state import Assessment, Machine, View

SCHEMA = 1


def parse_run_entry(entry: Mapping[str, Any], source: str) -> tuple[CellKey, CellRun]:
    """One finished run from a journal, with the whole key, so that a journal can be read without its axes."""
    try:
        return CellKey(**entry["key"]), _parse_run(entry["run"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{source}: not a run of a cell: {error}") from error


def report_json(report: Report) -> str:
    """The report for scripts. Step traces stay in the run directories; every run names its own."""
    view = report.view
    document = {
        "schema": SCHEMA,
        "kind": "matrix",
        "created": report.origin.created,
        "command": report.origin.command,
        "benchmark": report.origin.benchmark,
        "current": report.origin.current,
        "left": report.origin.left,
        "rules": asdict(view.rules),
        "machines": [_machine_json(report, machine) for machine in view.machines],
        "findings": list(report.findings),
        "builds": {name: {"torch": torch, "cuda": cuda} for name, (torch, cuda) in report.points.items()},
        "hazards": [asdict(answer) for answer in report.hazards],
        "cells": [_cell_json(entry) for entry in view.assessments],
        "changes": [_change_json(change) for change in report.changes],
    }
    return json.dumps(document, indent=1) + "\n"


def parse_report(text: str, *, source: str) -> View:
    """The cells of an older report, judged again by the rules it was made with."""
    document = _load(text, source)
    _check_schema(document, "matrix", source)
    try:
        cells = tuple(_parse_cell(entry) for entry in document["cells"])
        rules = Rules(**document["rules"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{source} is not the JSON report of a matrix: {error}") from error
    return assess(cells, rules)


def _machine_json(report: Report, machine: Machine) -> dict[str, Any]:
    view = report.view
    baseline, noise = view.baseline(machine), view.noise_on(machine)
    recommendation = dict(report.recommendations)[machine]
    return {
        "node": machine[0],
        "platform": machine[1],
        "gpu": machine[2],
        "driver": machine[3],
        "baseline": baseline.cell.key.digest if baseline is not None else None,
        "noise": None if noise is None else {"difference_95": noise.band, "baseline_runs": noise.baseline_runs},
        "recommendation": _recommendation_json(recommendation),
    }


def _recommendation_json(recommendation: Recommendation) -> dict[str, Any]:
    return {
        "advice": recommendation.advice.value,
        "sentence": recommendation.sentence,
        "build": recommendation.build,
        "workaround": recommendation.workaround,
        "reasons": list(recommendation.reasons),
        "risks": list(recommendation.risks),
        "run_next": [{"cell": item.cell.cell.key.digest, "runs": item.runs} for item in recommendation.run_next],
    }


def _cell_json(entry: Assessment) -> dict[str, Any]:
    blocked = entry.cell.blocked
    return {
        "id": entry.cell.key.digest,
        "key": asdict(entry.cell.key),
        "state": entry.state.value,
        "detail": entry.detail,
        "failures": entry.failures,
        "runs_telling": entry.telling,
        "count": entry.count,
        "allowed_rate_95": entry.allowed,
        "ratio": asdict(entry.ratio) if entry.ratio is not None else None,
        "is_baseline": entry.is_baseline,
        "ktok_s": entry.ktok_s,
        "warmup_s": entry.warmup_s,
        "compile_s": entry.compile_s,
        "peak_bytes": entry.peak_bytes,
        "unblock": entry.unblock,
        "notes": list(entry.notes),
        "good_enough": entry.is_settled,
        "blocked": asdict(blocked) if blocked is not None else None,
        "runs": [{name: value for name, value in asdict(run).items() if name != "traces"} for run in entry.cell.runs],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {**asdict(change), "explanation": change.explanation.value}


def _parse_cell(entry: Mapping[str, Any]) -> Cell:
    blocked = entry["blocked"]
    return Cell(
        key=CellKey(**entry["key"]),
        runs=tuple(_parse_run(run) for run in entry["runs"]),
        blocked=Blocked(**{**blocked, "state": State(blocked["state"])}) if blocked is not None else None,
    )


def _parse_run(run: Mapping[str, Any]) -> CellRun:
    return CellRun(
        **{
            **run,
            "secondary": tuple(run["secondary"]),
            "facts": tuple((name, value) for name, value in run["facts"]),
            "evidence": tuple(run["evidence"]),
            "traces": tuple(_parse_traces(run.get("traces", ()))),
        }
    )


def _parse_traces(traces: Iterable[Mapping[str, Any]]) -> Iterable[Trace]:
    return (Trace(thread=trace["thread"], step_times_s=tuple(trace["step_times_s"])) for trace in traces)


def _load(text: str, source: str) -> dict[str, Any]:
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from error
    if not isinstance(entry, dict):
        raise UsageError(f"{source} is not an object")
    return entry


def _check_schema(entry: Mapping[str, Any], kind: str, source: str) -> None:
    if entry.get("kind") != kind:
        raise UsageError(f"{source} is not a {kind} file", hint="give the matrix directory, or its matrix.json")
    if entry.get("schema") != SCHEMA:
        raise UsageError(
            f"{source} has schema {entry.get('schema')!r}, this version reads {SCHEMA}",
            hint="use the version of the tool that wrote it",
        )
