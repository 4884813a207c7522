"""`python -m bisect matrix`: builds x contamination x workarounds x cache, with a recommendation.

Exit code: 0 answered, 2 a wrong command line or axes file, 4 the budget ended before the advice was settled, 7 a
condition of --fail-on holds, 130 interrupted with the journal intact.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envs import machine, settings, spec
from envs.errors import InterruptedRunError, UsageError

from ..cures import NAMES
from ..html import matrix_page
from ..interrupts import interruptible
from ..journal import FILE_NAME, read
from ..launch import PLACES, LocalLauncher, launcher_on
from ..matrix import State
from ..matrix.as_json import parse_report, report_json
from ..matrix.as_text import terminal
from ..matrix.axes import Axes, Budget, parse_axes, parse_budget
from ..matrix.cell import CellRuns
from ..matrix.compare import compare
from ..matrix.gate import EXIT_CODE, Condition, matched, parse_gate
from ..matrix.hands import Hands, LaunchingHands
from ..matrix.pairs import begun, settled
from ..matrix.plan import Prepared, prepare, template
from ..matrix.recommend import Advice
from ..matrix.report import HazardAnswer, Origin, Report, make_report
from ..matrix.run import MatrixRun
from ..matrix.schedule import Plan, plan, plan_text
from ..matrix.store import MatrixDirectory
from ..probe import code_digest
from ..redaction import without_credentials
from ..search_report import report_of
from ..surroundings import WORKLOAD, refuse_options, refuse_unusable
from .search_options import PAIRS, add_environment_options, at_the_same_time, takes_gpu

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ..matrix import Cell
    from ..matrix.state import View
    from ..report import Report as SearchReport

PACKAGE = Path(__file__).resolve().parent.parent
DEFAULT_AXES = PACKAGE / "matrix.toml"
DEFAULT_OUT = "runs/matrix"
BUDGET = "18m"
"""What the default axes file says; a test compares the two."""
UNSETTLED = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the matrix; the same `--out` again goes on where it stopped."""
    parser.epilog = "example: python -m bisect matrix --axes axes.toml --budget 20m --fail-on race,slower:5%"
    parser.add_argument("--axes", metavar="FILE", help=f"axes file (default: {DEFAULT_AXES.name} of this package)")
    spent = f"minutes (20m, 1.5h) or runs (60 runs) of this invocation (default: the axes file's; {BUDGET} in ours)"
    parser.add_argument("--budget", metavar="B", help=spent)
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_OUT, help=f"matrix directory (default: {DEFAULT_OUT})")
    parser.add_argument("--resume", action="store_true", help="go on with the axes of --out; an error if it is new")
    parser.add_argument("--compare", metavar="OLD", help="an older matrix directory or matrix.json: say what changed")
    parser.add_argument("--fail-on", metavar="STATES", default="", help="exit 7 for these: race,slower:5%%,not-tested")
    parser.add_argument("--search", metavar="DIR", action="append", default=[], help="show a bisection's posterior too")
    parser.add_argument("--node", metavar="NAME", default="", help="name of this machine in the results")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds without a sign of life")
    parser.add_argument("--dry-run", action="store_true", help="show the cells, what it would cost, and stop")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="runs at the same time (--on slurm)")
    parser.add_argument(
        "--pairs",
        choices=PAIRS,
        default="auto",
        help="throughput from pairs of runs made at the same time, or alternating (auto: together without a GPU); "
        "a matrix goes on as it began",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    add_environment_options(parser, places=PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line, checked."""

    axes: Axes
    axes_text: str
    budget: Budget
    settings: settings.Settings
    directory: Path
    old: tuple[str, View] | None
    gate: tuple[Condition, ...]
    searches: tuple[SearchReport, ...]
    node: str
    patience_s: float
    on: str
    slurm_profile: str
    workers: int
    pairs: str
    together: bool
    command: str


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Plan, run, report."""
    request = _request(args)
    refuse_unusable(request.settings, on=request.on)
    for workaround in {"none", *request.axes.workarounds} - (set(NAMES) - {"none"}):
        refuse_options(("--profile", request.axes.profile, "--workaround", workaround, *request.axes.arguments))

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    launcher = launcher_on(
        request.on, profile=request.slurm_profile, directory=request.directory, say=say, exclusive=True
    )
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
        return InterruptedRunError(
            f"interrupted after {running.num_runs} runs; every finished one is in {request.directory}",
            hint=f"go on with: {request.command}",
        )

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
    if report.origin.left and unsettled:
        print(f"left to run: {report.origin.left}; go on with: {request.command}", file=stderr)
        return UNSETTLED
    return 0


def _plan_text(request: Request, prepared: Prepared, estimate: Plan) -> str:
    needed = [room.needs for room in prepared.rooms.values() if room.needs is not None and room.blocked is None]
    free = machine.free_bytes(request.settings.store)
    return plan_text(prepared.cells, estimate, sizes=needed, free_bytes=free, budget=request.budget)


def _request(args: argparse.Namespace) -> Request:
    if args.workers < 1 or (args.workers > 1 and args.on == "local"):
        raise UsageError(
            f"--workers {args.workers}: at least one, and throughput is never measured beside another run here",
            hint="leave --workers out, or use --on slurm, where each run has a node of its own",
        )
    directory = Path(args.out)
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--out {directory} is not a directory", hint="give one that is new, or a matrix directory")
    text, source = _axes_text(args, directory)
    axes = parse_axes(text, shipped=[definition.name for definition in spec.shipped()], source=source)
    together = at_the_same_time(args, takes_gpu=takes_gpu(axes.profile))
    return Request(
        axes=axes,
        axes_text=text,
        budget=parse_budget(args.budget) if args.budget else axes.budget,
        settings=settings.from_arguments(args, os.environ),
        directory=directory,
        old=_old(args.compare) if args.compare else None,
        gate=parse_gate(args.fail_on),
        searches=tuple(report_of(Path(path)) for path in args.search),
        node=args.node,
        patience_s=args.timeout,
        on=args.on,
        slurm_profile=args.slurm_profile or "",
        workers=args.workers,
        pairs=args.pairs,
        together=together,
        command=shlex.join(["python", "-m", "bisect", "matrix", *(without_credentials(word) for word in args.argv)]),
    )


def _axes_text(args: argparse.Namespace, directory: Path) -> tuple[str, str]:
    path = Path(args.axes) if args.axes else DEFAULT_AXES
    if args.resume:
        if not (directory / FILE_NAME).exists():
            raise UsageError(f"there is nothing to resume in {directory}", hint="leave --resume out to start")
        kept = directory / "axes.toml"
        path = path if args.axes or not kept.exists() else kept
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the axes file {path}: {error}") from error


def _old(text: str) -> tuple[str, View]:
    path = Path(text)
    path = path / "matrix.json" if path.is_dir() else path
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the older matrix {path}: {error}", hint="give its directory") from error
    return str(path), parse_report(content, source=str(path))
