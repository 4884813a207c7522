"""`python -m bisect resume DIR`: go on with an interrupted search or `train`, with the command line it keeps."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from envs.errors import UsageError

from .. import run_directory
from ..journal import read_search

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run directory; other options are those of the search."""
    parser.add_argument("directory", metavar="DIR", help="the run directory of a search or of train")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON on stdout")


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:  # noqa: ARG001  (every command's shape)
    """Give the search's own command again; `cli.main` prints."""
    from ..cli import main  # noqa: PLC0415  (the dispatcher imports this module)

    directory = Path(args.directory).absolute()
    header = header_of(directory)
    argv = list(header["argv"])
    if any("(kept out)@" in word for word in argv):
        raise UsageError(
            "an option of this search held a password, which no journal keeps",
            hint="give the whole command again with the same --out",
        )
    at = argv.index("--") if "--" in argv else len(argv)
    options = ["--out", str(directory), *(["--json"] if args.json else [])]
    again = [header["command"], *argv[:at], *options, *argv[at:]]
    try:
        os.chdir(header["cwd"])
    except OSError as error:
        raise UsageError(
            f"the directory it was started in is gone: {header['cwd']} ({error.strerror})",
            hint="give the command from another one, with paths that hold there and the same --out: "
            f"{shlex.join(['python', '-m', 'bisect', *again])}",
        ) from error
    return main(again)


def header_of(directory: Path) -> Mapping[str, Any]:
    """What the run directory says of its command: `command`, `argv` and `cwd`."""
    kept = directory / run_directory.FILE_NAME
    if kept.exists():
        return run_directory.command_in(kept)
    return read_search(directory).header
