"""`python -m envs COMMAND`."""

import sys

from .entry import run

if __name__ == "__main__":
    sys.exit(run("envs.cli"))
