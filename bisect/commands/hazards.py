"""`python -m bisect hazards ENV...`: probe environments for thread-safety holes, deterministically.

Exit code: 0 when every probe of every environment answered (a leak is an answer), 2 for a wrong command line, 4 when
a probe could not be made to answer, 5 when an environment cannot be built, 6 when this machine cannot run it, or an
environment was changed after it was built.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envs import settings, spec
from envs.build import build
from envs.errors import UsageError

from ..again import engine_variables, with_variables
from ..builds import changed_before, changed_since
from ..files import make_run_directory, refuse_used
from ..hazards_report import ProbedEnvironment, as_json, exit_code, render
from ..probe import RunKind, RunRequest, run_once
from ..result_file import ResultError, parse_hazards
from .probe_options import PLAIN, hazard_workaround
from .search_options import HAZARDS, add_environment_options, default_run_directory, environment_words

if TYPE_CHECKING:
    import argparse

    from ..probe import Environment, RunRecord

PATIENCE_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Environments, and which probes."""
    parser.epilog = "example: python -m bisect hazards cu128 cu130 --only fx_flag_compile,mask_metadata"
    parser.add_argument("envs", nargs="+", metavar="ENV", help="environment definitions or TOML files")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join(HAZARDS)}")
    parser.add_argument("--workaround", default=PLAIN, metavar="NAME", help="probe under a change of the process")
    parser.add_argument("--timeout", type=float, default=PATIENCE_S, metavar="S", help="seconds for all probes")
    parser.add_argument("--out", metavar="DIR", help="run directory (default: runs/<time>-hazards)")
    parser.add_argument("--json", action="store_true", help="the answers as JSON on stdout")
    add_environment_options(parser)


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Build, probe and report one environment after the other."""
    names = [name for name in args.only.split(",") if name]
    if unknown := sorted(set(names) - set(HAZARDS)):
        raise UsageError(f"no hazard is named {', '.join(unknown)}", hint=f"choose of {', '.join(HAZARDS)}")
    hazard_workaround(args.workaround)
    definitions, chosen = [spec.load(name) for name in args.envs], settings.from_arguments(args, os.environ)
    directory = Path(args.out) if args.out else default_run_directory("hazards")
    refuse_used(directory)
    probed: list[ProbedEnvironment] = []

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    for definition in definitions:
        built = build(definition, chosen, report=say)
        changed = changed_before(built, chosen.store, say)
        if not probed:
            make_run_directory(directory)
        request = probe_request(names, args.workaround, environment=definition.environment, timeout_s=args.timeout)
        found = probe(definition.name, built, request, directory / definition.name)
        probed.append(replace(found, changed=changed or changed_since(built.name, built.digest, chosen.store)))
        say(f"{definition.name}: probed")
    reproduce = with_variables(command_line(args), engine_variables(chosen, *definitions))
    text = json.dumps(as_json(probed, reproduce=reproduce), indent=1)
    (directory / "answer.json").write_text(text + "\n", encoding="utf-8")
    (directory / "report.txt").write_text(render(probed, reproduce=reproduce) + "\n", encoding="utf-8")
    print(text if args.json else render(probed, reproduce=reproduce), file=stdout)
    return exit_code(probed)


def probe_request(
    names: list[str], workaround: str, *, environment: tuple[tuple[str, str], ...], timeout_s: float
) -> RunRequest:
    """The probes as a run."""
    only = ("--only", ",".join(names)) if names else ()
    return RunRequest(
        kind=RunKind.HAZARDS,
        arguments=(*only, "--workaround", workaround),
        environment=environment,
        timeout_s=timeout_s,
    )


def probe(name: str, built: Environment, request: RunRequest, directory: Path) -> ProbedEnvironment:
    """Run the probes once in the built environment and read what they wrote."""
    record = run_once(built, request, directory)
    try:
        result, trouble = parse_hazards(record.result_path.read_text(encoding="utf-8")), ""
    except (FileNotFoundError, ResultError):
        result, trouble = None, _last_words(record)
    return ProbedEnvironment(name=name, result=result, trouble=trouble, directory=str(directory))


def _last_words(record: RunRecord) -> str:
    lines = record.last_lines(2)
    ended = record.cut or ("out of time" if record.timed_out else f"exit code {record.returncode}")
    return f"{ended}: {' / '.join(lines)}" if lines else ended


def command_line(args: argparse.Namespace) -> str:
    """The command that repeats this one, from the options that were given."""
    words = ["python", "-m", "bisect", "hazards", *args.envs]
    given = [
        (name, getattr(args, name))
        for name, default in (("only", ""), ("workaround", PLAIN))
        if getattr(args, name) != default
    ]
    words += [text for name, value in given for text in (f"--{name}", value)]
    return shlex.join([*words, *environment_words(args)])
