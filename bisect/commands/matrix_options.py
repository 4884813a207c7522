"""Options of `matrix`, and what they mean: the axes, the budget, the gate, where everything goes."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envs import settings, spec
from envs.errors import UsageError

from ..again import engine_variables, with_variables
from ..journal import FILE_NAME
from ..launch import PLACES
from ..matrix.as_json import parse_report
from ..matrix.axes import Axes, Budget, parse_axes, parse_budget
from ..matrix.gate import Condition, parse_gate
from ..redaction import without_credentials
from ..search_report import report_of
from .search_options import PAIRS, add_environment_options, at_the_same_time, takes_gpu

if TYPE_CHECKING:
    import argparse

    from ..matrix.state import View
    from ..report import Report as SearchReport

PACKAGE = Path(__file__).resolve().parent.parent
DEFAULT_AXES = PACKAGE / "matrix.toml"
DEFAULT_OUT = "runs/matrix"
BUDGET = "18m"
"""What the default axes file says; a test compares the two."""


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
    argv: tuple[str, ...]


def request_of(args: argparse.Namespace) -> Request:
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
    here = settings.from_arguments(args, os.environ)
    command = shlex.join(["python", "-m", "bisect", "matrix", *map(without_credentials, args.argv)])
    return Request(
        axes=axes,
        axes_text=text,
        budget=parse_budget(args.budget) if args.budget else axes.budget,
        settings=here,
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
        argv=tuple(args.argv),
        command=with_variables(command, engine_variables(here)),
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
