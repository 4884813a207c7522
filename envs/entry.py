"""How both command lines start: a Python without the libraries, and Ctrl-C while they load, are told in one line."""

import importlib
import sys

from .errors import CannotRunError, InterruptedRunError

OURS = ("bisect", "dflash", "envs")


def run(module: str) -> int:
    """Run the `main` of a module on the command line; returns the exit code."""
    try:
        code: int = importlib.import_module(module).main(sys.argv[1:])
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", *OURS):
            raise
        told = CannotRunError(
            f"this Python ({sys.executable}) has no {name}, which this project needs",
            hint="use the project's own: `uv run python -m ...`, or `nox -s bisect -- ...`",
        )
        sys.stderr.write(f"{told.told}\n")
        return told.exit_code
    except KeyboardInterrupt:  # while the libraries load: nothing was begun
        sys.stderr.write("interrupted\n")
        return InterruptedRunError.exit_code
    return code
