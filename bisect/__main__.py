"""`python -m bisect ...`: the command line of the search."""

import io
import sys

from envs.errors import missing_dependency

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path or a log may hold what the terminal cannot show
    try:
        from .cli import main

        code = main(sys.argv[1:])
    except ModuleNotFoundError as error:
        told = missing_dependency(error)
        sys.stderr.write(f"{told.told}\n")
        code = told.exit_code
    sys.exit(code)
