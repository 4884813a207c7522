"""A search whose runs are tiny real jobs: the real loop, journal, engine, runner and launcher; only builds are stubs.

`python -m tests.bisect.slurm_search DIR WORKERS` starts it or goes on with it, and may be killed at any instant.
"""

from __future__ import annotations

import json
import sys
from bisect.builds import Builder
from bisect.driver import Search
from bisect.engine import next_step, useless
from bisect.executor import ProbeRunner
from bisect.files import write_atomically
from bisect.journal import Journal
from bisect.judge import Question
from bisect.launch import Ready
from bisect.model import Problem
from bisect.probe import RunKind, RunRequest
from bisect.slurm.launcher import SlurmLauncher
from bisect.slurm.profile import Profile
from bisect.state import BuildFacts
from pathlib import Path

from envs.place import HOST
from envs.settings import Settings

from .searches import HEADER

NAMES = tuple(f"n{number:02d}" for number in range(12))
FIRST_BAD = 7
PROBE = "#!/bin/sh\nsleep {seconds}\nexit {code}\n"


class StubBuilder(Builder):
    """An environment is a directory with a script `probe`, which answers for its candidate."""

    def facts(self, candidate):
        return BuildFacts(candidate=candidate, seconds=2.0, facts={"code": candidate})

    def built(self, candidate):
        scripts = self.directory / "stubs" / candidate / "bin"
        scripts.mkdir(parents=True, exist_ok=True)
        code = int(NAMES.index(candidate) >= FIRST_BAD)
        write_atomically(scripts / "probe", PROBE.format(seconds=self.seconds, code=code))
        (scripts / "probe").chmod(0o755)
        return Ready(
            name=candidate, digest="", path=scripts.parent, python=scripts / "python", environment=(), place=HOST
        )


def tell(line):
    """On stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def search(directory, *, workers, seconds=0.1, profile=None, decide=next_step, say=tell):
    """The verdict and the state."""
    path = directory / "journal.jsonl"
    journal = Journal.open(path) if path.exists() else Journal.create(path, HEADER)
    builder = StubBuilder(names=NAMES, define=None, settings=Settings(store=directory), directory=directory, say=say)
    type(builder).seconds = seconds
    profile = profile or Profile(grace_s=2)
    runner = ProbeRunner(
        builder=builder,
        launcher=SlurmLauncher(profile=profile, folder=directory / "slurm", say=say),
        request=RunRequest(kind=RunKind.COMMAND, command=("probe",), timeout_s=600),
        question=Question(kind=RunKind.COMMAND),
        directory=directory,
        say=say,
    )
    problem = Problem(candidates=NAMES, good=NAMES[0], bad=NAMES[-1])
    whole = Search(
        problem=problem, journal=journal, runner=runner, decide=decide, useless=useless, show=repr, workers=workers
    )
    say(f"going on: {len(journal.contents.entries)} entries")
    try:
        return whole.run()
    finally:
        runner.close()
        journal.close()


def main(directory, workers):
    """Start or go on, and write the verdict."""
    step, state = search(directory, workers=workers)
    told = {"step": type(step).__name__, "last_good": step.last_good, "first_bad": step.first_bad}
    write_atomically(directory / "verdict.json", json.dumps({**told, "runs": len(state.observations)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
