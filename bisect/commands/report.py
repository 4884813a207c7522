"""`python -m bisect report DIR`: the report of a run directory, finished or not, from its journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..journal import FILE_NAME, read_search
from ..packages import as_json as packages_json
from ..packages import outcome as packages_outcome
from ..packages import report as packages_report
from ..report import exit_code, verdict_name
from ..report_json import as_json
from ..report_text import markdown, render
from ..run_directory import kept_exit_code, kept_report
from ..search_report import report_of

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run directory and the form."""
    parser.epilog = "example: python -m bisect report runs/20261129T120000Z-torch-releases --markdown"
    parser.add_argument(
        "directory", metavar="DIR", help="a run directory: of a search, of train, hazards or workarounds"
    )
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")
    parser.add_argument("--markdown", action="store_true", help="to paste into an issue")
    parser.add_argument(
        "--torch-repo", default="", metavar="DIR", help="a clone of pytorch: list the commits that matter"
    )


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:  # noqa: ARG001  (every command's shape)
    """Print it; the exit code is that of the command whose directory it is, 130 where it did not finish."""
    directory = Path(args.directory)
    if not (directory / FILE_NAME).exists() and (kept := kept_report(directory, as_json=args.json)) is not None:
        code = kept_exit_code(directory)
        print(kept, file=stdout)
        return code
    contents = read_search(directory)
    if contents.header["command"] == "packages":
        return exit_code(_packages(directory, args, stdout), contents)
    report = report_of(directory, torch_repo=args.torch_repo)
    if args.json:
        print(json.dumps(as_json(report), indent=1), file=stdout)
    else:
        print(markdown(report) if args.markdown else render(report), file=stdout)
    return exit_code(verdict_name(report.step), contents)


def _packages(directory: Path, args: argparse.Namespace, stdout: IO[str]) -> str:
    """A search over sets of differences has a report of its own; its verdict."""
    found = packages_outcome.report_of(directory)
    if args.json:
        print(json.dumps(packages_json.as_json(found), indent=1), file=stdout)
    else:
        print(packages_report.markdown(found) if args.markdown else packages_report.render(found), file=stdout)
    return packages_report.verdict_name(found.step)
