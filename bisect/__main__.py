"""`python -m bisect ...`: the command line of the search."""

import io
import sys

from envs.entry import run

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path or a log may hold what the terminal cannot show
    sys.exit(run("bisect.cli"))
