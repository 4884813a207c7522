"""The report of a run directory, from its journal: what was asked, the engine's word on it, and the evidence beside.

Reads the directory and writes the report files into it; what they say is decided in `report` and `report_text`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from . import commits, locks
from .again import repeat_run, resume_command, with_variables
from .engine.certain import next_certain_step, useless_when_certain
from .files import write_atomically
from .journal import FILE_NAME, read_planned
from .lineup import lineup
from .model import Observation, Probe, Problem, Wait
from .nodes import dependent
from .record_file import record_in
from .report import Report, proof_of
from .report_json import as_json
from .report_rows import rows_of
from .report_text import markdown, render
from .state import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .journal import Contents
    from .lineup import Lineup
    from .model import Step


def report_of(directory: Path, *, step: Step | None = None, torch_repo: str = "") -> Report:
    """The report of a run directory; `step` is worked out from its journal unless given."""
    contents, plan = read_planned(directory)
    state = State.replay(contents.entries)
    asked, engine = _asked(contents, directory), engine_of(plan)
    problem = state.problem(problem_of(plan, confidence=asked["confidence"], max_runs=asked["max_runs"]))
    if step is None:
        asked_now = engine.decide(problem, state.evidence)
        assert not isinstance(asked_now, Wait)  # only runs under way are waited for
        step = asked_now
    rows = rows_of(contents, step)
    report = Report(
        kind=contents.header["command"],
        hunted=plan["hunted"],
        step=step,
        rows=rows,
        excluded=tuple((item["build"], item["reason"]) for item in plan["excluded"]),
        proof=proof_of(contents, step),
        reproduce=_reproduce(contents, directory),
        journal=str(directory / FILE_NAME),
        faulty=state.faulty_nodes,
        dependent=dependent(state.evidence),
        certain=plan["certain"],
        refusal=contents.refusal,
        go_on=resume_command(directory) if isinstance(step, Probe) else "",
        line=engine.line(problem, state.evidence),
    )
    before, after = report.in_time_order
    if before is None or after is None:
        return report
    return replace(
        report,
        commits=commits.between(before, after, repo=torch_repo),
        lock_diff=locks.difference(directory, before.name, after.name),
        reproduce=(*report.reproduce, *_neighbour_commands(contents, directory, (before.name, after.name))),
    )


def _asked(contents: Contents, directory: Path) -> Mapping[str, Any]:
    """The confidence and the budget of the last time that the search went on."""
    asked = contents.of("asked")
    if not asked:
        raise UsageError(
            f"the search in {directory} was stopped before it asked for a run",
            hint=f"go on with: {resume_command(directory)}",
        )
    return asked[-1]


def _reproduce(contents: Contents, directory: Path) -> tuple[str, ...]:
    words = ["python", "-m", "bisect", contents.header["command"], *contents.header["argv"]]
    search = with_variables(shlex.join(words), contents.header.get("variables", {}))
    return (search, f"python -m bisect report {shlex.quote(str(directory))}")


def _neighbour_commands(contents: Contents, directory: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """What ran in the two neighbours, from the record of a run of each, with its files beside the evidence."""
    found = []
    for name in names:
        runs = [entry["run"] for entry in contents.of("observed") if entry["candidate"] == name and entry["run"]]
        for run in runs[:1]:
            record = record_in(directory / run)
            if record is None:
                continue
            found.append(f"# {name}: in {record['environment']}, log in {directory / run / 'log.txt'}")
            found.append(repeat_run(record, directory / run, cwd=contents.header["cwd"]))
    return tuple(found)


def write_reports(report: Report, directory: Path) -> None:
    """Write the report beside the journal: for scripts, for a terminal, for an issue, for a browser."""
    from .html import search_page  # noqa: PLC0415  (it takes seconds to import, and only a finished search needs it)

    write_atomically(directory / "report.json", json.dumps(as_json(report), indent=1) + "\n")
    write_atomically(directory / "report.txt", render(report) + "\n")
    write_atomically(directory / "report.md", markdown(report) + "\n")
    write_atomically(directory / "report.html", search_page(report, created=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))


def problem_of(plan: Mapping[str, Any], *, confidence: float, max_runs: int) -> Problem:
    """The problem in a journal's plan, with the budget of now."""
    return Problem(
        candidates=tuple(entry["id"] for entry in plan["candidates"]),
        good=plan["good"],
        bad=plan["bad"],
        equal=tuple(tuple(group) for group in plan["equal"]),
        cached=frozenset(plan["cached"]),
        confidence=confidence,
        max_runs=max_runs,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What decides a search: the next step, the line-up it rests on, and which runs under way need no answer."""

    decide: Callable[..., Step | Wait]
    line: Callable[[Problem, Sequence[Observation]], Lineup]
    useless: Callable[[Problem, Sequence[Observation], Sequence[str]], tuple[str, ...]]


def engine_of(plan: Mapping[str, Any]) -> Engine:
    """The engine for the question."""
    if plan["certain"]:
        return Engine(decide=next_certain_step, line=lineup, useless=useless_when_certain)
    if plan.get("throughput"):
        from . import throughput  # noqa: PLC0415  (as below)
        from .throughput.line import speed_line  # noqa: PLC0415  (as below)

        effect = plan["min_effect"]
        return Engine(
            decide=partial(throughput.next_step, min_effect=effect),
            line=partial(speed_line, min_effect=effect),
            useless=partial(throughput.useless, min_effect=effect),
        )
    from . import engine  # noqa: PLC0415  (scipy takes a second to import, and usage errors need none)

    return Engine(decide=engine.next_step, line=engine.ordered_line, useless=engine.useless)
