"""`python -m bisect workarounds ENV`: price every workaround in an environment.

The hazard probes are run once plainly and once under each workaround that changes the process; then the benchmark is
run in rounds, one run of each workaround per round, so that a drift of the machine hits all alike.

Exit code: 0 when every workaround was judged (unsafe is an answer), 2 for a wrong command line, 4 when some could not
be tested, 5 when the environment cannot be built, 6 when this machine cannot run it, or the environment was changed
after it was built.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envs import settings, spec
from envs.build import build
from envs.errors import UsageError

from ..again import engine_variables, with_variables
from ..builds import changed_before, changed_since
from ..cures import FLAG_HAZARDS, NAMES, PROBED_UNDER, Cure, CureRun, price_all
from ..cures_report import CureAnswer, as_json, exit_code, render, sorted_prices
from ..files import make_run_directory, refuse_used
from ..judge import classify_train, control_verdict, train_result
from ..probe import RunKind, RunRequest, run_once
from ..progress import follow
from ..run_plan import show_plan
from ..surroundings import refuse_options, refuse_unusable
from .hazards import probe, probe_request
from .search_options import add_environment_options, default_run_directory, environment_words

if TYPE_CHECKING:
    import argparse

    from ..probe import Environment, RunRecord
    from ..result import HazardsResult

PATIENCE_S = 300.0
REFUSED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which workarounds, how often, and the benchmark's own options."""
    parser.epilog = "example: python -m bisect workarounds cu130 --repeat 5 --only none,lock,thread-local-flag"
    parser.add_argument("env", metavar="ENV", help="an environment definition or a TOML file")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--repeat", type=int, default=3, metavar="R", help="runs of each workaround (default: 3)")
    parser.add_argument("--profile", default="auto", help="smoke, gpu1, node8, node8-27b or auto (default)")
    parser.add_argument("--threads", type=int, metavar="N", help="drafter threads (default: the profile's)")
    parser.add_argument("--steps", type=int, metavar="N", help="steps of each drafter thread")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--amplify", action="store_true", help="raise the rate of thread races (and label it)")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-control", action="store_true", help="skip the run with one drafter thread")
    parser.add_argument("--timeout", type=float, default=PATIENCE_S, metavar="S", help="seconds without a sign of life")
    parser.add_argument("--out", metavar="DIR", help="run directory (default: runs/<time>-workarounds-ENV)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan (build, disk, time) and stop")
    parser.add_argument("--json", action="store_true", help="the table as JSON on stdout")
    add_environment_options(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, checked."""

    names: tuple[str, ...]
    repeat: int
    arguments: tuple[str, ...]
    threads: int | None
    control: bool
    environment: tuple[tuple[str, str], ...]
    timeout_s: float
    directory: Path


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Build, probe, run, judge, report."""
    definition = spec.load(args.env)
    request = _request(args, definition)
    refuse_used(request.directory)
    for name in {"none", *request.names} - (set(NAMES) - {"none"}):
        refuse_options((*request.arguments, "--workaround", name))
    chosen = settings.from_arguments(args, os.environ)
    refuse_unusable(chosen, image=definition.image)
    if args.dry_run:
        runs = request.repeat * len(request.names) + request.control
        return show_plan(definition, chosen, num_runs=runs, as_json=args.json, stdout=stdout)

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    built = build(definition, chosen, report=say)
    changed = changed_before(built, chosen.store, say)
    make_run_directory(request.directory)
    cures, plain, control = measure(request, built, stderr=stderr)
    answer = CureAnswer(
        environment=definition.name,
        torch=plain.environment.torch if plain and plain.environment else "?",
        prices=sorted_prices(price_all(cures, plain)),
        control=control,
        amplified=args.amplify,
        directory=str(request.directory),
        reproduce=with_variables(command_line(args), engine_variables(chosen, definition)),
        changed=changed or changed_since(built.name, built.digest, chosen.store),
    )
    text = json.dumps(as_json(answer), indent=1)
    (request.directory / "answer.json").write_text(text + "\n", encoding="utf-8")
    (request.directory / "report.txt").write_text(render(answer) + "\n", encoding="utf-8")
    print(text if args.json else render(answer), file=stdout)
    return exit_code(answer)


def measure(
    request: Request, built: Environment, *, stderr: IO[str]
) -> tuple[tuple[Cure, ...], HazardsResult | None, str]:
    """All probes and all runs: the cures, the plain answers of the build, and how the control ended."""
    probed = {name: _probe(request, built, name, stderr=stderr) for name in _to_probe(request)}
    control, words = "", "not run"
    if request.control:
        record = _run(request, built, "none", "control", one_thread=True, stderr=stderr)
        control = words = control_verdict(record)
    records: dict[str, list[RunRecord]] = {name: [] for name in request.names}
    refused: dict[str, str] = {}
    for number in range(1, request.repeat + 1):
        for name in (name for name in request.names if name not in refused):
            record = _run(request, built, name, f"{_folder(name)}-{number:03d}", stderr=stderr)
            if refusal := _refusal(record):
                refused[name] = refusal
            else:
                records[name].append(record)
    cures = tuple(
        Cure(
            name=name,
            runs=tuple(_judged(record, control=control) for record in records[name]),
            refusal=refused.get(name, ""),
            under=probed.get(name) if name in PROBED_UNDER else None,
        )
        for name in request.names
    )
    return cures, probed["none"], words


def _to_probe(request: Request) -> list[str]:
    return ["none", *(name for name in request.names if name in PROBED_UNDER)]


def _probe(request: Request, built: Environment, name: str, *, stderr: IO[str]) -> HazardsResult | None:
    """The hazards of the build, or those the workaround is about under it; None where it does not apply."""
    print(f"hazards under {name}", file=stderr, flush=True)
    only = [] if name == "none" else list(FLAG_HAZARDS)
    ask = probe_request(only, name, environment=request.environment, timeout_s=request.timeout_s)
    return probe(name, built, ask, request.directory / f"hazards-{_folder(name)}").result


def _run(
    request: Request, built: Environment, name: str, label: str, *, stderr: IO[str], one_thread: bool = False
) -> RunRecord:
    threads = 1 if one_thread else request.threads
    arguments = (*request.arguments, "--workaround", name, *(("--threads", str(threads)) if threads else ()))
    ask = RunRequest(
        kind=RunKind.TRAIN, arguments=arguments, environment=request.environment, timeout_s=request.timeout_s
    )
    progress = follow(label, stderr)
    try:
        return run_once(built, ask, request.directory / label, on_progress=progress)
    finally:
        progress.close()


def _refusal(record: RunRecord) -> str:
    """Why the workaround cannot be used here; UsageError when it was the request that the benchmark refused."""
    if record.returncode != REFUSED:
        return ""
    result = train_result(record)
    if result is not None and result.workaround.refusal:
        return result.workaround.refusal
    raise UsageError(f"the benchmark refused the request: {record.log().strip()}", hint="see --profile and --set")


def _judged(record: RunRecord, *, control: str) -> CureRun:
    return CureRun(
        classification=classify_train(record, threads=None, control=control),
        result=train_result(record),
        completed=record.returncode == 0 and not record.timed_out and not record.cut,
        directory=str(record.directory),
    )


def _folder(name: str) -> str:
    return name.replace("=", "-")


def _request(args: argparse.Namespace, definition: spec.Definition) -> Request:
    names = tuple(name for name in args.only.split(",") if name) or NAMES
    stems = {name.partition("=")[0] for name in NAMES}
    if unknown := sorted(name for name in names if name.partition("=")[0] not in stems):
        raise UsageError(f"no workaround is named {', '.join(unknown)}", hint=f"choose of {', '.join(NAMES)}")
    if args.repeat < 1:
        raise UsageError(f"--repeat must be at least 1, not {args.repeat}")
    return Request(
        names=names,
        repeat=args.repeat,
        arguments=_benchmark_arguments(args),
        threads=args.threads,
        control=not args.no_control,
        environment=definition.environment,
        timeout_s=args.timeout,
        directory=Path(args.out) if args.out else default_run_directory(f"workarounds-{definition.name}"),
    )


def _benchmark_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    given = [(f"--{name}", getattr(args, name)) for name in ("profile", "steps", "seed")]
    pairs = [text for option, value in given if value is not None for text in (option, str(value))]
    pairs += [text for assignment in args.sets for text in ("--set", assignment)]
    return (*pairs, *(["--amplify"] if args.amplify else []))


def command_line(args: argparse.Namespace) -> str:
    """The command that repeats this one, from the options that were given."""
    words = ["python", "-m", "bisect", "workarounds", args.env, *_benchmark_arguments(args)]
    for name, default in (("only", ""), ("repeat", 3), ("threads", None)):
        if getattr(args, name) != default:
            words += [f"--{name}", str(getattr(args, name))]
    words += environment_words(args)
    return shlex.join([*words, *(["--no-control"] if args.no_control else [])])
