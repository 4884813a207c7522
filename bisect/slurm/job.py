"""What a job does on its node, `python -m bisect.slurm.job FILE`: the runs written down in FILE, one after the other.

Imports little, because every job pays for it. A job that is requeued keeps what its first life left beside the run
directory; one that is started again after its end does nothing.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_atomically
from ..probe import load_record, run_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..launch import Recipe, Task
    from ..probe import Environment

REFUSED = "refused.json"
"""In a run directory: why the node could not build the environment."""


def run_tasks(tasks: Sequence[Task]) -> None:
    """Make the runs, unless all of them have ended: parts of a pair are never made on two nodes."""
    if all(load_record(task.directory) for task in tasks):
        return
    for task in tasks:
        if task.directory.exists():
            task.directory.rename(task.directory.with_name(f"{task.directory.name}.requeued-{time.time_ns()}"))
        built = _built(task.built, task.directory)
        if built is None:
            return
        run_once(built, task.request, task.directory)


def _built(built: Environment | Recipe, directory: Path) -> Environment | None:
    """The environment, built here when it came as a recipe; None when that cannot be done."""
    from ..launch import Recipe  # noqa: PLC0415  (loaded already by whoever unpickled one)

    if not isinstance(built, Recipe):
        return built
    from envs.build import build  # noqa: PLC0415  (only jobs that build need it, and it takes half a second)
    from envs.errors import CannotBuildError, CannotRunError  # noqa: PLC0415

    from ..builds import refuse_changed  # noqa: PLC0415

    try:
        made = build(
            built.definition,
            built.settings,
            report=lambda line: print(line, flush=True),  # noqa: T201  (the log of the job)
            require_compiler=built.needs_compiler,
        )
        refuse_changed(made, built.settings.store)
    except (CannotBuildError, CannotRunError) as error:
        directory.mkdir(parents=True, exist_ok=True)
        told = {"message": error.message, "hint": error.hint, "outcome": error.outcome}
        write_atomically(directory / REFUSED, json.dumps(told))
        return None
    return made


def _tell_host(answer: Path) -> None:
    from ..launch import LocalLauncher  # noqa: PLC0415  (once a matrix)

    temporary = answer.with_suffix(".new")
    temporary.write_bytes(pickle.dumps(LocalLauncher().host()))
    temporary.replace(answer)


def main(argv: Sequence[str]) -> int:
    """Run the tasks of the file, or say what this node is."""
    if argv[0] == "--host":
        _tell_host(Path(argv[1]))
        return 0
    with Path(argv[0]).open("rb") as file:
        run_tasks(pickle.load(file))  # noqa: S301  (written by the process that submitted this job)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
