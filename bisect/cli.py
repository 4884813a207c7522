"""`python -m bisect`: one table of subcommands, one place where errors become exit codes.

stdout carries data, everything else goes to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from typing import TYPE_CHECKING

from envs import settings
from envs.errors import ToolError
from envs.process import cannot_write, drop_output

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "torch-nightlies": ("nightlies", "find the nightly that brought in a failure or a slowdown"),
    "torch-releases": ("torch_releases", "the same over torch releases"),
    "releases": ("releases", "the same over the releases of any package, the rest of the lock fixed"),
    "packages": ("packages", "find the packages whose difference brings the failure in"),
    "matrix": ("matrix", "builds x contamination x workarounds x cache, with a recommendation"),
    "train": ("train", "run the training benchmark in an environment and say what happened"),
    "hazards": ("hazards", "probe environments for thread-safety holes, deterministically"),
    "workarounds": ("workarounds", "price every workaround in an environment"),
    "classify": ("classify", "say what a log or a result file shows"),
    "next": ("next", "the next step of a search whose runs are made elsewhere"),
    "report": ("report", "print the report of a run directory"),
    "log": ("log", "print the journal of a run directory"),
    "resume": ("resume", "go on with an interrupted run directory"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bisect",
        description="Find the build or package that brings in a race or a slowdown, and say how sure that is.",
        epilog="example: python -m bisect torch-releases --probe hazards --for fx_flag_trace --good 2.15.0 --bad 2.8.0",
    )
    parser.add_argument(
        "command",
        choices=list(COMMANDS),
        metavar="COMMAND",
        help="; ".join(f"{name}: {summary}" for name, (_, summary) in COMMANDS.items()),
    )
    return parser


def split_rest(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The options, and what stands after the first `--`, which argparse would mix into the positionals."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], tuple(words[at + 1 :])


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit code (0 answered, 2 usage, ... see the README)."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command = _parser().parse_args(argv[:1]).command
    module_name, summary = COMMANDS[command]
    module = importlib.import_module(f".commands.{module_name}", __package__)
    parser = argparse.ArgumentParser(prog=f"python -m bisect {command}", description=summary)
    module.add_arguments(parser)
    options, rest = split_rest(argv[1:])
    if rest and not getattr(module, "TAKES_REST", False):
        parser.error(f"{command} takes nothing after --")
    try:
        args = parser.parse_args(options, argparse.Namespace(rest=rest, argv=tuple(argv[1:])))
        if hasattr(args, "backend"):
            args.argv = (*settings.spell_out(args, os.environ), *args.argv)
        code: int = module.run(args, stdout=sys.stdout, stderr=sys.stderr)
        sys.stdout.flush()
    except ToolError as error:
        return _told(error)
    except BrokenPipeError:
        return drop_output()
    except OSError as error:
        return _told(cannot_write(error))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return code


def _told(error: ToolError) -> int:
    sys.stderr.write(f"{error.told}\n")
    return error.exit_code
