"""A search as a process that may be killed at any instant: the real loop, journal and engine over a probe on disk.

The nth finished run of a candidate always answers the same,
so that a search that was killed must end like one that was not.
"""

from __future__ import annotations

import json
import os
import random
import time
from bisect.driver import BuildFacts, Finding, Search
from bisect.engine import next_step
from bisect.files import write_atomically
from bisect.journal import Journal
from bisect.model import Conclusion, Observation, Problem

from .searches import HEADER

NAMES = tuple(f"n{number:02d}" for number in range(12))
FIRST_BAD, RATE = 7, 0.7


class DiskRunner:
    """A finished run is a file; running one that is finished already is the failure this exists to show."""

    has_ended = False

    def __init__(self, directory):
        self.directory = directory
        self.begun = []

    def avoid(self, nodes):
        assert not list(nodes)

    def build(self, candidate):
        time.sleep(0.002)
        if candidate == "n04":
            return BuildFacts(candidate=candidate, outcome="build_failed", reason="hole")
        return BuildFacts(candidate=candidate, seconds=2.0, facts={"code": candidate})

    def start(self, candidate, run):
        self.begun.append((self._run, candidate, run))

    def take(self):
        make, candidate, run = self.begun.pop(0)
        return make(candidate, run)

    def _run(self, candidate, run):
        finished = sorted(self.directory.glob(f"*.{candidate}.json"))
        path = self.directory / f"{run}.{candidate}.json"
        assert not path.exists(), f"{run} was finished already"
        time.sleep(0.004)
        coin = random.Random(f"{candidate}-{len(finished)}").random()
        bad = NAMES.index(candidate) >= FIRST_BAD and coin < RATE
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(bad))
        os.replace(temporary, path)  # noqa: PTH105  (one system call is the point)
        time.sleep(0.002)
        return self._finding(candidate, run)

    def resume(self, candidate, run):
        ended = (self.directory / f"{run}.{candidate}.json").exists()
        if ended:
            self.begun.append((self._finding, candidate, run))
        return ended

    def _finding(self, candidate, run):
        bad = json.loads((self.directory / f"{run}.{candidate}.json").read_text())
        conclusion = Conclusion.BAD if bad else Conclusion.GOOD
        return Finding(observation=Observation(candidate=candidate, conclusion=conclusion, run=run, seconds=1.0))


def main(directory):
    """Start or go on, and write the verdict."""
    path = directory / "journal.jsonl"
    journal = Journal.open(path) if path.exists() else Journal.create(path, HEADER)
    problem = Problem(candidates=NAMES, good=NAMES[0], bad=NAMES[-1])
    runner = DiskRunner(directory)
    step, state = Search(problem=problem, journal=journal, runner=runner, decide=next_step, show=repr).run()
    told = [type(step).__name__, getattr(step, "last_good", ""), getattr(step, "first_bad", "")]
    write_atomically(directory / "verdict", f"{' '.join(told)} {len(state.observations)}")
