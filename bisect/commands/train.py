"""`python -m bisect train ENV`: run the multi-threaded training benchmark in an environment, say what happened.

Exit code: 0 when the question was answered (a race that was found is an answer), 2 for a wrong command line, 4 when
what happened could not be told, 5 when the environment cannot be built, 6 when this machine cannot run it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envs import cache, settings, spec
from envs.build import Built, build
from envs.errors import UsageError
from envs.resolve import newest

from ..files import make_run_directory
from ..judge import classify_train, control_verdict, train_result
from ..launch import PLACES, Recipe, Task, launcher_on
from ..model import OutcomeName
from ..probe import RunKind, RunRecord, RunRequest
from ..progress import follow
from ..run_all import run_all
from ..run_plan import show_plan
from ..surroundings import refuse_options, refuse_unusable
from ..train_report import JudgedRun, TrainAnswer, as_json, render
from .search_options import add_environment_options, compiles_native_code, default_run_directory

if TYPE_CHECKING:
    import argparse

    from ..launch import Launcher
    from ..probe import Environment

MACHINE_CANNOT = {
    OutcomeName.NO_GPU,
    OutcomeName.DRIVER_TOO_OLD,
    OutcomeName.ARCH_UNSUPPORTED,
    OutcomeName.HARDWARE_FAULT,
    OutcomeName.DISK_FULL,
}
TAKES_REST = True
UNPACKED = "unpacked="
PATIENCE_S = 300.0
REFUSED = 2  # the benchmark's exit code for an option or a profile that this machine cannot run
PASSED_ON = ("profile", "steps", "seed", "workaround", "force")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark are passed on to it; anything after `--` too."""
    parser.epilog = "what follows -- goes to the benchmark; example: python -m bisect train cu130 --repeat 12 --amplify"
    parser.add_argument("env", metavar="ENV", help="an environment definition (python -m envs list) or a TOML file")
    parser.add_argument("--date", default="", metavar="DATE", help="the nightly of that date (ENV is a nightly)")
    parser.add_argument("--profile", default="auto", help="smoke, gpu1, node8, node8-27b or auto (default)")
    parser.add_argument("--threads", type=int, metavar="N", help="drafter threads (default: the profile's)")
    parser.add_argument("--steps", type=int, metavar="N", help="steps of each drafter thread")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--repeat", type=int, default=1, metavar="R", help="runs, each in its own process")
    parser.add_argument("--amplify", action="store_true", help="raise the rate of thread races (and label it)")
    parser.add_argument("--workaround", metavar="NAME")
    parser.add_argument("--force", choices=["dense", "recompile-limit"], help="bring about a degraded state")
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="PKG")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--cache", default="cold", metavar="cold|warm|from=ENV|from=ARCHIVE", help="compile caches")
    parser.add_argument("--token-budget", type=float, default=5e9, metavar="N", help="tokens for the ETA (5e9)")
    parser.add_argument("--no-control", action="store_true", help="skip the run with one drafter thread")
    parser.add_argument("--timeout", type=float, default=PATIENCE_S, metavar="S", help="seconds without a sign of life")
    parser.add_argument("--out", metavar="DIR", help="run directory (default: runs/<time>-train-ENV)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="runs at the same time (--on slurm)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan (build, disk, time) and stop")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on stdout")
    add_environment_options(parser, places=PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What `train` was asked to do."""

    definition: spec.Definition
    settings: settings.Settings
    arguments: tuple[str, ...]
    threads: int | None
    repeat: int
    control: bool
    cache: str
    token_budget: float
    timeout_s: float
    directory: Path
    reproduce: str
    on: str = "local"
    slurm_profile: str = ""
    workers: int = 1
    needs_compiler: bool = False


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Build, run, judge, report."""
    refuse_options((*_benchmark_arguments(args), *(() if args.threads is None else ("--threads", str(args.threads)))))
    refuse_unusable(settings.from_arguments(args, os.environ), image=spec.load(args.env).image)
    request = _request(args)
    launcher = _launcher(request, stderr)
    if args.dry_run:
        runs = request.repeat + (request.control and request.threads != 1) + (request.cache != "cold")
        return show_plan(request.definition, request.settings, num_runs=runs, as_json=args.json, stdout=stdout)
    make_run_directory(request.directory)
    try:
        built = _built(request, request.definition, launcher, stderr)
        request = replace(request, cache=_unpacked(request, built))
    except BaseException:
        shutil.rmtree(request.directory)
        raise
    answer = train(request, built, launcher, stderr=stderr)
    text = json.dumps(as_json(answer), indent=1)
    (request.directory / "answer.json").write_text(text + "\n", encoding="utf-8")
    (request.directory / "report.txt").write_text(render(answer) + "\n", encoding="utf-8")
    print(text if args.json else render(answer), file=stdout)
    return exit_code(answer)


def exit_code(answer: TrainAnswer) -> int:
    """0 answered, 4 cannot be told, 6 this machine cannot run it."""
    outcome = answer.worst.classification.outcome.name
    if outcome in MACHINE_CANNOT:
        return 6
    return 4 if outcome is OutcomeName.UNKNOWN else 0


def train(request: Request, built: Environment | Recipe, launcher: Launcher, *, stderr: IO[str]) -> TrainAnswer:
    """Make every run in the built environment and judge them with the control beside them."""
    ask = RunRequest(
        kind=RunKind.TRAIN,
        arguments=_with_threads(request, request.threads),
        timeout_s=request.timeout_s,
        cache=_filled_cache(request, built, launcher, stderr),
    )
    asked = {f"run-{number:04d}": ask for number in range(1, request.repeat + 1)}
    if request.control and request.threads != 1:
        asked["control"] = replace(ask, arguments=_with_threads(request, 1))
    tasks = [
        Task(built=built, request=asked_for, directory=request.directory / name) for name, asked_for in asked.items()
    ]
    records = run_all(tasks, launcher, workers=request.workers, check=_refuse_refused)
    control, verdict = None, ""
    if "control" in records:
        record = records.pop("control")
        control, verdict = _judged(record, threads=1, control=""), control_verdict(record)
    return TrainAnswer(
        environment=request.definition.name,
        runs=tuple(_judged(record, threads=request.threads, control=verdict) for record in records.values()),
        control=control,
        directory=str(request.directory),
        reproduce=request.reproduce,
        token_budget=request.token_budget,
    )


def _launcher(request: Request, stderr: IO[str]) -> Launcher:
    return launcher_on(
        request.on,
        profile=request.slurm_profile,
        directory=request.directory,
        say=lambda line: print(line, file=stderr, flush=True),
        watch=partial(follow, stream=stderr),
        exclusive=True,
    )


def _built(request: Request, definition: spec.Definition, launcher: Launcher, stderr: IO[str]) -> Environment | Recipe:
    """The environment, or how a node makes it where nodes build for themselves."""
    if launcher.node_store is not None:
        return Recipe(
            definition=definition,
            settings=replace(request.settings, store=launcher.node_store),
            needs_compiler=request.needs_compiler,
        )
    return build(
        definition,
        request.settings,
        report=lambda line: print(line, file=stderr, flush=True),
        require_compiler=request.needs_compiler,
    )


def _refuse_refused(record: RunRecord) -> None:
    result = train_result(record)
    if record.returncode == REFUSED and (result is None or result.workaround.refusal):
        raise UsageError(
            f"the benchmark refused the request: {record.log().strip()}", hint="see `python -m bisect train --help`"
        )


def _judged(record: RunRecord, *, threads: int | None, control: str) -> JudgedRun:
    result = train_result(record)
    return JudgedRun(
        name=record.directory.name,
        threads=threads or (len(result.drafters) if result else 0),
        classification=classify_train(record, threads=threads, control=control),
        result=result,
        directory=str(record.directory),
        completed=record.returncode == 0,
        seconds=record.seconds,
    )


def _unpacked(request: Request, built: Environment | Recipe) -> str:
    """`from=FILE`, an archive of `python -m envs cache save`, becomes the directory it was unpacked to."""
    archive = Path(request.cache.removeprefix("from="))
    if not request.cache.startswith("from=") or not archive.is_file() or not archive.name.endswith(cache.SUFFIX):
        return request.cache
    if not isinstance(built, Built):
        raise UsageError("--cache from=ARCHIVE needs an environment built here, not on the nodes", hint="see `store`")
    target = request.directory / "restored-cache"
    cache.restore(archive, target, built.fingerprint)
    return f"{UNPACKED}{target}"


def _filled_cache(request: Request, built: Environment | Recipe, launcher: Launcher, stderr: IO[str]) -> Path | None:
    """The compile caches of a run made for them first, in this environment or in another one."""
    if request.cache == "cold":
        return None
    if request.cache.startswith(UNPACKED):
        return Path(request.cache.removeprefix(UNPACKED))
    source = built
    if request.cache != "warm":
        source = _built(request, spec.load(request.cache.removeprefix("from=")), launcher, stderr)
    ask = RunRequest(kind=RunKind.TRAIN, arguments=_with_threads(request, request.threads), timeout_s=request.timeout_s)
    task = Task(built=source, request=ask, directory=request.directory / "fill-cache")
    return run_all([task], launcher, workers=1, check=_refuse_refused)["fill-cache"].directory / "caches"


def _with_threads(request: Request, threads: int | None) -> tuple[str, ...]:
    return request.arguments if threads is None else (*request.arguments, "--threads", str(threads))


def _request(args: argparse.Namespace) -> Request:
    if args.cache not in ("cold", "warm") and not args.cache.startswith("from="):
        raise UsageError(f"--cache cannot be {args.cache!r}", hint="cold, warm, from=ENV, or from=ARCHIVE")
    if args.cache.startswith("from=") and not args.cache.endswith(cache.SUFFIX):
        spec.load(args.cache.removeprefix("from="))
    for name in ("repeat", "threads", "steps"):
        if (1 if getattr(args, name) is None else getattr(args, name)) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(args, name)}")
    if args.workers < 1 or (args.workers > 1 and args.on == "local"):
        raise UsageError(
            f"--workers {args.workers}: at least one, and throughput is never measured beside another run here",
            hint="leave --workers out, or use --on slurm, where each run has a node of its own",
        )
    here = settings.from_arguments(args, os.environ)
    definition = _dated(spec.load(args.env), here, args.date)
    return Request(
        definition=definition,
        settings=here,
        arguments=_benchmark_arguments(args),
        threads=args.threads,
        repeat=args.repeat,
        control=not args.no_control,
        cache=args.cache,
        token_budget=args.token_budget,
        timeout_s=args.timeout,
        directory=Path(args.out) if args.out else default_run_directory(f"train-{definition.name}"),
        reproduce=_command_line(args),
        on=args.on,
        slurm_profile=args.slurm_profile or "",
        workers=args.workers,
        needs_compiler=compiles_native_code(args),
    )


def _dated(definition: spec.Definition, here: settings.Settings, date: str) -> spec.Definition:
    """The nightly of a date, where one is asked for; otherwise the definition as it is."""
    if not date:
        return definition
    if definition.channel is not spec.Channel.NIGHTLY or not re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", date):
        raise UsageError(
            f"--date {date}: {definition.name} is a {definition.channel}", hint="like: train nightly --date 2026-02-15"
        )
    return newest(definition, here, date=date.replace("-", ""))


def _benchmark_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    return (*_given_arguments(args), *args.rest)


def _given_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """The options of the benchmark that `train` knows, as the benchmark spells them."""
    given = [(f"--{name}", getattr(args, name)) for name in PASSED_ON if getattr(args, name) is not None]
    pairs = [text for option, value in given for text in (option, str(value))]
    pairs += [text for package in args.imports for text in ("--import", package)]
    pairs += [text for assignment in args.sets for text in ("--set", assignment)]
    return (*pairs, *(["--amplify"] if args.amplify else []))


def _command_line(args: argparse.Namespace) -> str:
    """The command that repeats this one, from the options that were given."""
    words = ["python", "-m", "bisect", "train", args.env, *_given_arguments(args)]
    for name, default in (
        ("threads", None),
        ("repeat", 1),
        ("cache", "cold"),
        ("index", None),
        ("wheelhouse", None),
        ("backend", None),
        ("date", ""),
        ("on", "local"),
        ("slurm_profile", None),
        ("workers", 1),
    ):
        if getattr(args, name) != default:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += ["--no-control"] if args.no_control else []
    return shlex.join([*words, *(["--", *args.rest] if args.rest else [])])
