"""`python -m dflash --profile smoke --output result.json`: run the benchmark and say by the exit code how it went.

Exit code: 0 every thread completed, 1 a thread failed, 2 the request or the profile was refused, 3 hung.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from pathlib import Path

from . import amplify
from .config import ConfigError, TrainConfig, override
from .profiles import PROFILES, choose_profile
from .result import Request, ResultFile, error_document
from .sizes import Machine, missing
from .workarounds import NAMES as WORKAROUNDS
from .workarounds import check, environment_of, make

COMPLETED, FAILED, REFUSED, HUNG = 0, 1, 2, 3


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m dflash",
        description="Train a DFlash drafter on several threads and write what happened to one JSON file.",
        epilog="example: python -m dflash --profile smoke --threads 3 --output result.json --set dynamic=none",
    )
    found.add_argument("--profile", default="auto", help=f"{', '.join([*PROFILES, 'auto'])} (default: %(default)s)")
    found.add_argument("--output", type=Path, required=True, metavar="FILE", help="the result, rewritten as it grows")
    found.add_argument("--progress", type=Path, metavar="FILE", help="JSON lines, one per finished step")
    found.add_argument("--threads", type=int, metavar="N", help="drafter threads (num_drafters)")
    found.add_argument("--steps", type=int, metavar="N", help="steps of each drafter")
    found.add_argument("--seed", type=int, metavar="N", help="of data, anchors and weights")
    found.add_argument("--deadline-s", type=float, metavar="S", help="silence after which the run counts as hung")
    found.add_argument("--workaround", default="none", metavar="NAME", help=f"one of {', '.join(WORKAROUNDS)}")
    found.add_argument("--amplify", action="store_true", help="widen the windows in which threads can collide")
    found.add_argument("--force", default="", choices=("", "dense", "recompile-limit"), help="degrade on purpose")
    found.add_argument("--import", dest="imports", action="append", default=[], metavar="PKG", help="import it first")
    found.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    found.add_argument(
        "--check", action="store_true", help="only say whether these options can be used; needs no torch"
    )
    return found


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module for the exit codes."""
    faulthandler.enable()
    args = parser().parse_args(argv)
    request = Request(
        argv=tuple(argv),
        output=args.output,
        progress=args.progress,
        profile=args.profile,
        workaround=args.workaround,
        amplify=args.amplify,
        force=args.force,
        imports=tuple(args.imports),
    )
    try:
        return _train(request, args)
    except ConfigError as error:
        sys.stderr.write(f"dflash: {error}\nhint: {error.hint}\n")
        return REFUSED


def _configure(name: str, request: Request, args: argparse.Namespace) -> TrainConfig:
    """The profile of that name with what the command line changes."""
    flags = {"num_drafters": args.threads, "steps": args.steps, "seed": args.seed, "deadline_s": args.deadline_s}
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]
    config = amplify.configure(PROFILES[name]) if request.amplify else PROFILES[name]
    if args.steps is not None:
        given.append(f"warmup_steps={min(config.warmup_steps, args.steps // 2)}")
    return override(config, given + args.assignments)


def _train(request: Request, args: argparse.Namespace) -> int:
    # Refuse what can be refused, and leave a first result, before the slow and fallible import of torch.
    name = choose_profile("smoke" if request.profile == "auto" else request.profile, Machine())
    config = _configure(name, request, args)
    check(request.workaround)
    if args.check:
        return COMPLETED
    os.environ.update(environment_of(request.workaround))
    request.output.parent.mkdir(parents=True, exist_ok=True)
    result = ResultFile(request, config, clock=time.time())
    result.write("importing")
    try:
        return _run(request, args, result)
    except ConfigError as error:
        result.write("refused", error=error_document(error))
        raise
    except Exception as error:
        result.write("failed", error=error_document(error))
        raise


def _run(request: Request, args: argparse.Namespace, result: ResultFile) -> int:
    from . import machine  # noqa: PLC0415 - imports torch
    from .train import Run  # noqa: PLC0415

    here = machine.look()
    name = choose_profile(request.profile, here)
    workaround = make(request.workaround)
    config = workaround.configure(_configure(name, request, args))
    result.configure(name, config)
    if lacking := missing(config, here, force=request.force):
        raise ConfigError(
            f"profile {name} does not fit this machine: {'; '.join(lacking)}", hint="choose --profile auto"
        )
    if refusal := workaround.refusal(config):
        result.write("refused", workaround=workaround.document() | {"refusal": refusal})
        raise ConfigError(f"workaround {request.workaround} cannot be used: {refusal}", hint="choose another one")
    run = Run(request, config, workaround, result)
    hang = run.execute()
    if hang:
        sys.stderr.write(f"dflash: hung, no thread moved for {hang.silent_s:.0f} s\n")
        sys.stderr.flush()
        os._exit(HUNG)  # the hung threads cannot be joined
    return COMPLETED if all(worker.completed and not worker.failures for worker in run.crew.workers) else FAILED


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
