"""`python -m envs COMMAND`."""

import sys

from .errors import missing_dependency

if __name__ == "__main__":
    try:
        from .cli import main

        code = main(sys.argv[1:])
    except ModuleNotFoundError as error:
        told = missing_dependency(error)
        sys.stderr.write(f"{told.told}\n")
        code = told.exit_code
    sys.exit(code)
