"""`python -m bisect matrix`: builds x contamination x workarounds x cache, with a recommendation.

Exit code: 0 answered, 2 a wrong command line or axes file, 4 the budget ended before the advice was settled, 7 a
condition of --fail-on holds, 130 interrupted with the journal intact.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import IO, TYPE_CHECKING

from envs import machine
from envs.errors import InterruptedRunError

from ..again import command_again
from ..cures import NAMES
from ..html import matrix_page
from ..interrupts import interruptible
from ..journal import FILE_NAME, read
from ..launch import LocalLauncher, launcher_on, tell_objection
from ..matrix import State
from ..matrix.as_json import report_json
from ..matrix.as_text import terminal
from ..matrix.cell import CellRuns
from ..matrix.compare import compare
from ..matrix.gate import EXIT_CODE, matched
from ..matrix.hands import Hands, LaunchingHands
from ..matrix.pairs import begun, settled
from ..matrix.plan import Prepared, prepare, template
from ..matrix.recommend import Advice
from ..matrix.report import HazardAnswer, Origin, Report, make_report
from ..matrix.run import MatrixRun
from ..matrix.schedule import Plan, plan, plan_text
from ..matrix.store import MatrixDirectory
from ..redaction import without_credentials
from ..surroundings import refuse_options, refuse_unusable
from ..workload import WORKLOAD, code_digest
from .matrix_options import BUDGET, DEFAULT_AXES, Request, add_arguments, request_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ..matrix import Cell

__all__ = ["BUDGET", "DEFAULT_AXES", "Request", "add_arguments", "run"]
UNSETTLED = 4


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Plan, run, report."""
    request = request_of(args)
    refuse_unusable(request.settings, on=request.on)
    for workaround in {"none", *request.axes.workarounds} - (set(NAMES) - {"none"}):
        refuse_options(("--profile", request.axes.profile, "--workaround", workaround, *request.axes.arguments))

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    launcher = launcher_on(
        request.on, profile=request.slurm_profile, directory=request.directory, say=say, exclusive=True
    )
    if args.dry_run:
        tell_objection(launcher, stderr)
    with interruptible(partial(_stopped_early, request)):
        host = LocalLauncher().host() if args.dry_run else launcher.host()
        common = template(
            request.axes,
            host.machine,
            benchmark=code_digest(WORKLOAD),
            node=request.node or host.node,
            cpus=host.cpus,
        )
        local = request.on == "local"
        request = replace(request, together=_together(request, common.machine))
        prepared = prepare(
            request.axes,
            request.settings,
            here=host.machine,
            common=common,
            builds_here=local,
            in_store=launcher.node_store is None,
        )
        estimate = plan(prepared.cells, request.axes.rules, build_s=prepared.build_s, paired=request.together)
    if args.dry_run:
        report = _report(request, prepared, prepared.cells, ())
        print(report_json(report) if args.json else _plan_text(request, prepared, estimate), file=stdout)
        return 0
    print(_plan_text(request, prepared, estimate), file=stderr)
    hands = LaunchingHands(settings=request.settings, launcher=launcher, say=say)
    report = _run(request, prepared, hands, say)
    print(f"reports: {request.directory}/matrix.html, .md, .json, .xml", file=stderr)
    print(report_json(report) if args.json else terminal(report), file=stdout, end="")
    return _exit_code(request, report, stderr=stderr)


def _stopped_early(request: Request) -> InterruptedRunError:
    """Before the first run of this invocation: while locks are resolved, or the store is looked through."""
    path = request.directory / FILE_NAME
    kept = len(read(path).of("ran")) if path.exists() else 0
    return _interrupted(request, "before anything was run", f"{kept} earlier runs are kept in {request.directory}")


def _interrupted(request: Request, when: str, kept: str) -> InterruptedRunError:
    words = ("matrix", *(without_credentials(word) for word in request.argv))
    return InterruptedRunError(
        f"interrupted {when}; {kept}, and every finished environment in {request.settings.store}",
        hint=f"go on with: {command_again(words)}",
    )


def _together(request: Request, machine: tuple[str, ...]) -> bool:
    """Whether throughput is measured in pairs: as the matrix began on this machine, where it did."""
    path = request.directory / FILE_NAME
    before = begun(read(path), machine) if path.exists() else None
    return settled(before, together=request.together, is_asked=request.pairs != "auto" or request.on != "local")


def _run(request: Request, prepared: Prepared, hands: Hands, say: Callable[[str], None]) -> Report:
    directory = MatrixDirectory(request.directory)
    directory.keep_axes(request.axes_text)
    for where in {cell.key.machine for cell in prepared.cells}:
        directory.keep_pairs(where, together=request.together)
    running = MatrixRun(
        axes=request.axes,
        prepared=prepared,
        runs=CellRuns(
            axes=request.axes,
            prepared=prepared,
            hands=hands,
            directory=directory,
            say=say,
            patience_s=request.patience_s,
        ),
        directory=directory,
        budget=request.budget,
        say=say,
        workers=request.workers,
        together=request.together,
    )

    def stopped() -> InterruptedRunError:
        _write(request, prepared, running, directory)
        return _interrupted(request, f"after {running.num_runs} runs", f"every finished one is in {request.directory}")

    try:
        with interruptible(stopped):
            running.run()
    finally:
        directory.close()
    return _write(request, prepared, running, directory)


def _write(request: Request, prepared: Prepared, running: MatrixRun, directory: MatrixDirectory) -> Report:
    cells = running.cells or prepared.cells
    as_built = (cell.key for cell in cells if cell.blocked is None or cell.blocked.state is not State.INCONSISTENT)
    now = {(key.lock, key.benchmark, key.machine) for key in as_built}
    answers = tuple(
        answer for run in directory.hazards() if (run.lock, run.benchmark, run.machine) in now for answer in run.answers
    )
    report = _report(request, prepared, cells, answers)
    directory.write_reports(report, matrix_page(report, searches=request.searches))
    return report


def _report(request: Request, prepared: Prepared, cells: tuple[Cell, ...], answers: tuple[HazardAnswer, ...]) -> Report:
    left = plan(cells, request.axes.rules, build_s=prepared.build_s, paired=request.together)
    origin = Origin(
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=request.command,
        axes=request.axes_text,
        benchmark=code_digest(WORKLOAD),
        current=request.axes.current,
        left=f"{left.runs} runs, about {left.seconds / 60:.0f} minutes" if left.runs else "",
    )
    report = make_report(cells, rules=request.axes.rules, origin=origin, points=prepared.points, hazards=answers)
    if request.old is None:
        return report
    name, view = request.old
    return replace(report, old=name, changes=compare(view.assessments, report.view.assessments))


def _exit_code(request: Request, report: Report, *, stderr: IO[str]) -> int:
    failing = matched(report.view, request.gate)
    for entry in failing:
        print(f"fails: {entry.cell.key.title}: {entry.label}", file=stderr)
    if failing:
        return EXIT_CODE
    unsettled = any(advice.advice is Advice.NOT_ENOUGH_EVIDENCE for _, advice in report.recommendations)
    asked = (entry.cell.blocked for entry in report.view.assessments)
    changed = {why.unblock for why in asked if why is not None and why.state is State.INCONSISTENT}
    if (report.origin.left or changed) and unsettled:
        left = [f"left to run: {report.origin.left}"] if report.origin.left else []
        print("; ".join([*left, *sorted(changed), f"go on with: {request.command}"]), file=stderr)
        return UNSETTLED
    return 0


def _plan_text(request: Request, prepared: Prepared, estimate: Plan) -> str:
    needed = [room.needs for room in prepared.rooms.values() if room.needs is not None and room.blocked is None]
    free = machine.free_bytes(request.settings.store)
    return plan_text(prepared.cells, estimate, sizes=needed, free_bytes=free, budget=request.budget)
