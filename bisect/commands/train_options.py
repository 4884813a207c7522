"""The options of `python -m bisect train`, and what they ask for."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envs import cache, settings, spec
from envs.errors import UsageError
from envs.resolve import newest

from ..again import engine_variables, with_variables
from ..launch import PLACES
from .search_options import add_environment_options, compiles_native_code, default_run_directory

if TYPE_CHECKING:
    import argparse

PATIENCE_S = 300.0
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


def request_of(args: argparse.Namespace) -> Request:
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
        arguments=benchmark_arguments(args),
        threads=args.threads,
        repeat=args.repeat,
        control=not args.no_control,
        cache=args.cache,
        token_budget=args.token_budget,
        timeout_s=args.timeout,
        directory=Path(args.out) if args.out else default_run_directory(f"train-{definition.name}"),
        reproduce=with_variables(command_line(args), engine_variables(here, definition)),
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


def benchmark_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    return (*_given_arguments(args), *args.rest)


def _given_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """The options of the benchmark that `train` knows, as the benchmark spells them."""
    given = [(f"--{name}", getattr(args, name)) for name in PASSED_ON if getattr(args, name) is not None]
    pairs = [text for option, value in given for text in (option, str(value))]
    pairs += [text for package in args.imports for text in ("--import", package)]
    pairs += [text for assignment in args.sets for text in ("--set", assignment)]
    return (*pairs, *(["--amplify"] if args.amplify else []))


def command_line(args: argparse.Namespace) -> str:
    """The command that repeats this one, from the options that were given."""
    words = ["python", "-m", "bisect", "train", args.env, *_given_arguments(args)]
    for name, default in (
        ("threads", None),
        ("repeat", 1),
        ("cache", "cold"),
        ("index", None),
        ("wheelhouse", None),
        ("default_index", None),
        ("backend", None),
        ("base_image", None),
        ("date", ""),
        ("on", "local"),
        ("slurm_profile", None),
        ("workers", 1),
    ):
        if getattr(args, name) != default:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += ["--no-control"] if args.no_control else []
    return shlex.join([*words, *(["--", *args.rest] if args.rest else [])])
