"""`python -m bisect log DIR`: the journal of a run directory, one line an observation."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from envs.errors import UsageError

from ..journal import FILE_NAME, read, read_search
from ..run_directory import kept_report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run directory."""
    parser.add_argument("directory", metavar="DIR", help="the run directory of a search")
    parser.add_argument("--json", action="store_true", help="the entries as a JSON list")


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:  # noqa: ARG001  (every command's shape)
    """Print it."""
    directory = Path(args.directory)
    if not (directory / FILE_NAME).exists() and kept_report(directory, as_json=False) is not None:
        raise UsageError(
            f"{directory} has no journal: only a search keeps one",
            hint=f"python -m bisect report {shlex.quote(str(directory))}; each run in it has a log.txt",
        )
    if args.json:
        contents = read(directory / FILE_NAME)
        print(json.dumps([contents.header, *contents.entries], indent=1), file=stdout)
        return 0
    contents = read_search(directory)
    print(f"{contents.header['command']} {' '.join(contents.header['argv'])}", file=stdout)
    for line in filter(None, map(_line, contents.entries)):
        print(line, file=stdout)
    return 0


def _line(entry: Mapping[str, Any]) -> str:
    match entry["event"]:
        case "plan":
            return f"plan      {len(entry['candidates'])} candidates, good {entry['good']}, bad {entry['bad']}"
        case "built" | "refused":
            result = entry["outcome"] or f"{entry['facts'].get('torch', '')} in {entry['seconds']:.0f} s"
            return f"{entry['event']:<9} {entry['candidate']}: {result} {entry['reason']}".rstrip()
        case "observed":
            text = f"{entry['conclusion'].upper():<9} {entry['candidate']}: {entry['outcome']}"
            return f"{text} ({entry['seconds']:.0f} s) {entry['run']} {entry['reason']}".rstrip()
        case "lost":
            return f"lost      {entry['run']}: killed before it ended"
        case "verdict":
            return f"verdict   {entry['verdict']}"
        case _:
            return ""
