"""Options that the ordered searches share, and what they mean: the question, the run, the budget."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from envs import backend, machine, settings
from envs.errors import UsageError

from ..endpoints import parse_endpoint
from ..identity import Identity
from ..judge import Question
from ..launch import PLACES
from ..model import Outcome
from ..probe import RunKind, RunRequest
from ..redaction import without_credentials
from .probe_options import PLAIN, hazard_workaround, probe_arguments, refuse_unused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

RUN_S: Mapping[RunKind, float] = {RunKind.HAZARDS: 20.0, RunKind.TRAIN: 50.0, RunKind.COMMAND: 10.0}
"""Seconds of one run, for the plan, before any was made; measured on 2 cores for the first two."""
PATIENCE_S: Mapping[RunKind, float] = {RunKind.HAZARDS: 300.0, RunKind.TRAIN: 300.0, RunKind.COMMAND: 600.0}
HAZARDS = (
    "fx_flag_trace",
    "fx_flag_make_fx",
    "fx_flag_flex",
    "fx_flag_compile",
    "fx_flag_stuck",
    "mask_flag",
    "is_compiling_leak",
    "config_thread_local",
    "config_patch_leak",
    "fx_patcher",
    "recompile_limit",
    "mask_metadata",
    "metrics_context",
    "cudagraph_thread",
    "first_concurrent_compile",
)
"""The workload's hazards; it is another program, so a test compares the two lists."""
THROUGHPUT = "throughput"
PAIRS = ("auto", "together", "alternating")


def add_environment_options(parser: argparse.ArgumentParser, *, places: Sequence[str] = ("local",)) -> None:
    """Where environments come from, where they are kept, and where runs happen."""
    settings.add_arguments(parser)
    parser.add_argument("--on", choices=list(places), default="local", help="who runs it (default: local)")
    if "slurm" in places:
        told = "TOML: partition, account, time_min, pending_min, gpus, cpus, exclude, setup, extra, store, grace_s"
        parser.add_argument("--slurm-profile", metavar="FILE", help=told)


def environment_words(args: argparse.Namespace) -> list[str]:
    """The options given of where environments come from and where they run, as a command line spells them."""
    names = ("index", "wheelhouse", "default_index", "backend", "base_image")
    given = [(name, getattr(args, name)) for name in names if getattr(args, name) is not None]
    return [text for name, value in given for text in (f"--{name.replace('_', '-')}", str(value))]


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """The options of every ordered search."""
    parser.set_defaults(parser=parser)
    ends = parser.add_argument_group("endpoints")
    ends.add_argument("--good", required=True, metavar="BUILD", help="a build without the failure; may be the newer")
    ends.add_argument("--bad", required=True, metavar="BUILD", help="a build that shows it")
    asked = parser.add_argument_group("question")
    asked.add_argument("--probe", choices=[kind.value for kind in RunKind], default="train", help="what is run")
    asked.add_argument("--for", dest="hunted", metavar="WHAT", help="the outcome, hazard or `throughput` hunted")
    asked.add_argument(
        "--min-effect", type=float, default=0.01, metavar="P", help="smallest loss of throughput that matters (0.01)"
    )
    asked.add_argument(
        "--pairs",
        choices=PAIRS,
        default="auto",
        help="how a run and one of the baseline are paired for throughput: at the same time, where neither takes a "
        "GPU from the other, or alternating (auto: together without a GPU)",
    )
    asked.add_argument("--signature", default="", metavar="REGEX", help="output of the command that means bad")
    asked.add_argument("--timeout", type=float, metavar="S", help="seconds after which a run without a sign is ended")
    train = parser.add_argument_group("the training benchmark (--probe train)")
    train.add_argument("--profile", default="auto")
    train.add_argument("--threads", type=int, metavar="N")
    train.add_argument("--steps", type=int, metavar="N")
    train.add_argument("--seed", type=int, metavar="S")
    train.add_argument("--amplify", action="store_true", help="raise the rate of thread races (and label it)")
    train.add_argument("--workaround", metavar="NAME", help="run, or probe hazards, under this change")
    train.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    train.add_argument("--no-control", action="store_true", help="skip the run with one thread at the bad endpoint")
    budget = parser.add_argument_group("budget")
    budget.add_argument("--confidence", type=float, default=0.95, metavar="P")
    budget.add_argument("--max-runs", type=int, default=300, metavar="N")
    budget.add_argument("--workers", type=int, default=1, metavar="N", help="runs at the same time (default: 1)")
    kept = "environments kept on disk (default: 6; at least 2, and one more than --workers)"
    budget.add_argument("--keep", type=int, default=6, metavar="N", help=kept)
    budget.add_argument("--dry-run", action="store_true", help="show the plan (builds, disk, time) and stop")
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="run directory; the same one again goes on")
    output.add_argument("--json", action="store_true", help="the verdict as JSON on stdout")
    output.add_argument("--torch-repo", metavar="DIR", help="a clone of pytorch: list the commits that matter")
    add_environment_options(parser, places=PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A search as asked for on the command line, checked."""

    question: Question
    request: RunRequest
    confidence: float
    max_runs: int
    keep: int
    workers: int
    min_effect: float
    together: bool
    needs_compiler: bool
    on: str
    slurm_profile: str
    identity: Identity

    @property
    def certain(self) -> bool:
        """Whether one run settles a candidate."""
        return self.question.kind is RunKind.HAZARDS


def check_builds(args: argparse.Namespace) -> None:
    """Refuse an endpoint that is neither a date nor a version before anything is listed."""
    parse_endpoint(args.good, "--good")
    parse_endpoint(args.bad, "--bad")


def check_variant(tag: str) -> None:
    """Refuse a CUDA variant that never existed, with the near ones."""
    if tag not in backend.CUDA_TAGS:
        near = ", ".join(backend.near_tags(tag))
        raise UsageError(f"there is no wheel index for {tag!r}", hint=f"near ones: {near}")


def asked(args: argparse.Namespace) -> Asked:
    """Check the options of a search; UsageError says which one is wrong."""
    if not 0.5 <= args.confidence < 1.0:
        raise UsageError(f"--confidence {args.confidence} is not between 0.5 and 1", hint="like 0.95")
    _check_numbers(args)
    if not 0.0 < args.min_effect < 0.9:
        raise UsageError(f"--min-effect {args.min_effect} is not between 0 and 0.9", hint="like 0.02 for 2 %")
    if args.workers > 1 and args.hunted == THROUGHPUT and args.on == "local":
        raise UsageError(
            f"--workers {args.workers}: throughput is never measured beside another run on one machine",
            hint="leave --workers out, or use --on slurm, where each pair has a node of its own",
        )
    kind = RunKind(args.probe)
    question = _question(args, kind)
    refuse_unused(args, kind)
    return Asked(
        question=question,
        request=RunRequest(
            kind=kind,
            arguments=probe_arguments(args, kind, question),
            timeout_s=args.timeout or PATIENCE_S[kind],
            command=tuple(args.rest),
            signature=args.signature,
            cwd=str(Path.cwd()) if kind is RunKind.COMMAND else "",
        ),
        confidence=args.confidence,
        max_runs=args.max_runs,
        keep=max(args.keep, args.workers + 1),
        workers=args.workers,
        min_effect=args.min_effect,
        together=at_the_same_time(args, takes_gpu=takes_gpu(args.profile)),
        on=args.on,
        slurm_profile=args.slurm_profile or "",
        needs_compiler=kind is RunKind.TRAIN and compiles_native_code(args),
        identity=Identity.of(args),
    )


def at_the_same_time(args: argparse.Namespace, *, takes_gpu: bool) -> bool:
    """Whether the runs of a pair are made at the same time, by `--pairs` and `--on`."""
    if args.pairs == "together" and args.on != "local":
        raise UsageError(
            "--pairs together is for this machine; the two runs of a job follow one another", hint="leave --pairs out"
        )
    if args.pairs != "auto":
        return bool(args.pairs == "together")
    return args.on == "local" and not takes_gpu and (os.cpu_count() or 1) > 1


def _check_numbers(args: argparse.Namespace) -> None:
    least = {"max_runs": 4, "keep": 2, "workers": 1, "threads": 1, "steps": 2, "timeout": 1}
    for name, lowest in least.items():
        given = getattr(args, name)
        if given is not None and given < lowest:
            raise UsageError(f"--{name.replace('_', '-')} {given}: it must be at least {lowest}")
    for assignment in args.sets:
        if "=" not in assignment.strip("="):
            raise UsageError(f"--set {assignment!r} is not KEY=VALUE", hint="like --set dynamic=none")


def without_out(argv: Sequence[str]) -> list[str]:
    """The command line without its run directory, --json and credentials: what repeats it somewhere else."""
    words = [without_credentials(word) for word in argv]
    end = words.index("--") if "--" in words else len(words)
    options, rest = words[:end], words[end:]
    if "--out" in options:
        at = options.index("--out")
        del options[at : at + 2]
    return [word for word in options if word != "--json" and not word.startswith("--out=")] + rest


def _question(args: argparse.Namespace, kind: RunKind) -> Question:
    if (kind is RunKind.COMMAND) != bool(args.rest):
        raise UsageError(
            "--probe command needs the command after --" if kind is RunKind.COMMAND else "nothing may follow -- here",
            hint="like: --probe command -- python repro.py",
        )
    if args.signature:
        _check_signature(args.signature, kind)
    match kind:
        case RunKind.COMMAND:
            if args.hunted:
                raise UsageError("--for says nothing about a command", hint="use --signature REGEX")
            return Question(kind=kind, signature=args.signature)
        case RunKind.HAZARDS:
            under = hazard_workaround(args.workaround or PLAIN)
            return Question(kind=kind, hazard=_hazard(args.hunted), under="" if under == PLAIN else under)
        case RunKind.TRAIN:
            if args.hunted == THROUGHPUT:
                return Question(kind=kind, throughput=True, threads=args.threads)
            return Question(kind=kind, hunted=_outcome(args.hunted or "fx_flag_race"), threads=args.threads)


def _check_signature(signature: str, kind: RunKind) -> None:
    if kind is not RunKind.COMMAND:
        raise UsageError("--signature belongs to --probe command")
    try:
        re.compile(signature)
    except re.error as error:
        raise UsageError(f"--signature {signature!r} is not a regular expression: {error}") from error


def _hazard(name: str | None) -> str:
    if name not in HAZARDS:
        given = f"no hazard is named {name!r}" if name else "--probe hazards needs --for HAZARD"
        raise UsageError(given, hint=f"the hazards are: {', '.join(HAZARDS)}")
    return name


def _outcome(text: str) -> Outcome:
    try:
        return Outcome.parse(text)
    except ValueError:
        raise UsageError(
            f"--for {text!r} is no outcome", hint="like fx_flag_race, out_of_memory(gpu), segfault, or throughput"
        ) from None


def compiles_native_code(args: argparse.Namespace) -> bool:
    """Whether the benchmark will call a C++ compiler: Inductor and Triton do, the CPU profile traces only."""
    return "backend=inductor" in args.sets or takes_gpu(args.profile)


def takes_gpu(profile: str) -> bool:
    """Whether the profile asked for runs on a GPU; `auto` does where there is a driver."""
    return profile.startswith(("gpu", "node")) or (profile == "auto" and bool(machine.driver_version()))


def default_run_directory(what: str) -> Path:
    """`runs/<utc time>-<what>` under the current directory."""
    return Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{what}"
