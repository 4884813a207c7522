"""The loop: nothing finished is repeated, whatever instant it was killed at, and builds that fail are skips."""

import dataclasses
import random
from bisect.driver import BuildFacts, Finding, Search, State
from bisect.journal import Journal, read
from bisect.model import Conclusion, Found, Observation, Posterior, Probe, Problem

import pytest

from envs.errors import CannotBuildError, CannotRunError

from .searches import HEADER

NAMES = tuple("abcdefgh")
FLAT = Posterior(by_candidate=(), none=0.0)


def halving(problem, observations, **_):
    """The plainest engine that honours skips: endpoints once, then halve what is left."""
    seen = {item.candidate: item.conclusion for item in observations}
    for end in (problem.good, problem.bad):
        if end not in seen:
            return Probe(candidate=end, posterior=FLAT)
    good = max(i for i, name in enumerate(problem.candidates) if seen.get(name) is Conclusion.GOOD)
    bad = min(i for i, name in enumerate(problem.candidates) if seen.get(name) is Conclusion.BAD)
    left = [name for name in problem.candidates[good + 1 : bad] if name not in seen]
    if left:
        return Probe(candidate=left[len(left) // 2], posterior=FLAT)
    names = problem.candidates
    return Found(last_good=names[good], first_bad=names[bad], direction="regression", confidence=1.0, posterior=FLAT)


class Killed(BaseException):
    """A kill: not an Exception, so nothing may swallow it."""


class FakeRunner:
    """Every candidate from `first_bad` on is bad. Keeps what finished on "disk"; refuses to run it again."""

    has_ended = False

    def __init__(self, *, first_bad="e", unbuildable=(), disk=None, dies=lambda: None):
        self.first_bad, self.unbuildable, self.dies = first_bad, unbuildable, dies
        self.disk = {} if disk is None else disk
        self.begun = []

    def build(self, candidate):
        self.dies()
        if candidate in self.unbuildable:
            return BuildFacts(candidate=candidate, outcome="not_published", reason="gone")
        return BuildFacts(candidate=candidate, seconds=2.0, facts={"code": f"commit-{candidate}"})

    def start(self, candidate, run):
        assert candidate not in self.disk, "a finished probe was repeated"
        self.begun.append((candidate, run))

    def take(self):
        candidate, run = self.begun.pop(0)
        if candidate not in self.disk:
            self.dies()
            self.disk[candidate] = self.finding(candidate, run)
            self.dies()
        return self.disk[candidate]

    def finding(self, candidate, run):
        conclusion = Conclusion.BAD if candidate >= self.first_bad else Conclusion.GOOD
        return Finding(observation=Observation(candidate=candidate, conclusion=conclusion, run=run, seconds=1.0))

    def resume(self, candidate, run):
        found = self.disk.get(candidate)
        if found is None or found.observation.run != run:
            return False
        self.begun.append((candidate, run))
        return True

    def cancel(self, run):
        raise AssertionError(f"{run} is pointless, with one worker")

    def avoid(self, nodes):
        assert not list(nodes)


def search(path, runner, *, problem=None, decide=halving, show=repr):
    journal = Journal.open(path) if path.exists() else Journal.create(path, HEADER)
    try:
        problem = problem or Problem(candidates=NAMES, good="a", bad="h")
        return Search(problem=problem, journal=journal, runner=runner, decide=decide, show=show).run()
    finally:
        journal.close()


def test_a_search_reaches_its_verdict_and_journals_every_observation(tmp_path):
    """The loop must feed what it saw back to the engine, and remember it."""
    step, state = search(tmp_path / "j", FakeRunner())

    assert (step.last_good, step.first_bad) == ("d", "e")
    assert len(read(tmp_path / "j").of("observed")) == len(state.observations)


@pytest.mark.parametrize("seed", range(200))
def test_kills_at_any_instant_change_nothing(tmp_path, seed):
    """A kill between any two effects must neither repeat a finished probe nor change the verdict."""
    rng = random.Random(seed)

    def dies():
        if rng.random() < 0.3:
            raise Killed

    disk, path = {}, tmp_path / "j"
    while True:
        try:
            step, state = search(path, FakeRunner(disk=disk, dies=dies, unbuildable=("c",)))
        except Killed:
            if path.exists() and rng.random() < 0.5:
                with path.open("ab") as file:  # the kill tore the line that was being written
                    file.write(b'{"event": "obser')
            continue
        break

    assert (step.last_good, step.first_bad) == ("d", "e")
    runs = [item.run for item in state.observations if item.run]
    assert len(runs) == len(set(runs))
    assert {item.candidate for item in state.observations if item.run} == set(disk)


def test_a_build_that_fails_is_a_skip_with_its_reason(tmp_path):
    """A candidate that cannot be installed must never look bad, and the report must say why it was skipped."""
    search(tmp_path / "j", FakeRunner(unbuildable=("e",)))

    (skipped,) = [entry for entry in read(tmp_path / "j").of("observed") if entry["conclusion"] == "skip"]
    assert (skipped["candidate"], skipped["outcome"], skipped["reason"]) == ("e", "not_published", "gone")


def test_an_endpoint_that_cannot_be_built_ends_the_search_and_may_be_tried_again(tmp_path):
    """Searching on without an endpoint answers a question nobody asked; a mended cause must not need a new journal."""
    with pytest.raises(CannotBuildError, match="endpoint a cannot be built: gone"):
        search(tmp_path / "j", FakeRunner(unbuildable=("a",)))

    step, _ = search(tmp_path / "j", FakeRunner())
    assert step.first_bad == "e"


def test_an_abort_ends_the_search_with_the_journal_intact(tmp_path):
    """A machine that lost its GPU must not turn the rest of the range into skips."""

    class Lost(FakeRunner):
        def finding(self, candidate, run):
            found = super().finding(candidate, run)
            seen = dataclasses.replace(found.observation, conclusion=Conclusion.ABORT, outcome="no_gpu")
            return dataclasses.replace(found, observation=seen, reason="no GPU any more")

    with pytest.raises(CannotRunError, match="no GPU any more") as caught:
        search(tmp_path / "j", Lost())
    assert caught.value.hint.endswith(f" resume {tmp_path}")

    step, state = search(tmp_path / "j", FakeRunner())
    assert step.first_bad == "e"
    assert all(item.conclusion is not Conclusion.ABORT for item in state.observations)


def test_runs_lost_to_the_infrastructure_are_retried_twice_then_skipped(tmp_path):
    """An infrastructure error is no vote; one that never goes away must not be retried for ever."""

    class Flaky(FakeRunner):
        def take(self):
            candidate, run = self.begun.pop(0)
            found = self.finding(candidate, run)
            if candidate == "d":
                seen = dataclasses.replace(found.observation, conclusion=Conclusion.RETRY)
                found = dataclasses.replace(found, observation=seen)
            return found

    step, state = search(tmp_path / "j", Flaky())

    assert step.first_bad == "e"
    assert [item.conclusion for item in state.observations if item.candidate == "d"] == [Conclusion.SKIP]
    tries = [entry for entry in read(tmp_path / "j").of("started") if entry["candidate"] == "d"]
    assert len(tries) == 3


def test_equal_commits_are_one_group_and_build_cost_is_learnt(tmp_path):
    """Two nightlies of one commit are one candidate; the price of a build must be this machine's, not a guess."""
    entries = [
        {"event": "built", "candidate": "b", "seconds": 30.0, "facts": {"code": "same"}},
        {"event": "built", "candidate": "c", "seconds": 50.0, "facts": {"code": "same"}},
        {"event": "built", "candidate": "d", "seconds": 0.5, "facts": {}},
        {"event": "observed", "candidate": "b", "conclusion": "good", "seconds": 8.0, "run": "run-0001"},
    ]

    problem = State.replay(entries).problem(Problem(candidates=NAMES, good="a", bad="h"))

    assert problem.equal == (("b", "c"),)
    assert problem.cached == {"b", "c", "d"}
    assert problem.build_cost == 5.0


def test_each_environment_is_built_once(tmp_path):
    """The same nightly installed several times in one search wastes hours (cargo-bisect-rustc 85)."""
    search(tmp_path / "j", FakeRunner())

    built = [entry["candidate"] for entry in read(tmp_path / "j").of("built")]
    assert len(built) == len(set(built))
