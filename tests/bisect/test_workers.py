"""Several runs under way at once: asked for together, taken as they end, cancelled when pointless, found again."""

import random
from bisect.driver import Search
from bisect.engine import next_step, useless
from bisect.engine.certain import next_certain_step, useless_when_certain
from bisect.journal import Journal, read
from bisect.model import Conclusion, Found, Narrowed, Observation, Problem, Wait
from bisect.state import BuildFacts, Finding, State
from collections import Counter

import pytest

from .searches import HEADER

NAMES = tuple(f"n{number:02d}" for number in range(17))
FIRST_BAD = 9


class Killed(BaseException):
    """A kill: not an Exception, so nothing may swallow it."""


class Cluster:
    """Runs that end in a random order and outlive the process that submitted them; refuses a second submission."""

    def __init__(self, rng, *, rate=1.0, kills=False):
        self.rng, self.rate, self.kills = rng, rate, kills
        self.running, self.ended, self.cancelled, self.most = {}, {}, set(), 0

    def dies(self):
        if self.kills and self.rng.random() < 0.05:
            raise Killed


class Runner:
    """What a process knows of the cluster: the runs that it started or took up."""

    def __init__(self, cluster):
        self.cluster, self.mine = cluster, []

    def build(self, candidate):
        self.cluster.dies()
        return BuildFacts(candidate=candidate, facts={"code": candidate})

    def start(self, candidate, run):
        cluster = self.cluster
        cluster.dies()
        assert run not in cluster.running | cluster.ended, f"{run} was submitted twice"
        cluster.running[run] = candidate
        cluster.dies()
        cluster.most = max(cluster.most, len(cluster.running))
        self.mine.append(run)

    def resume(self, _candidate, run):
        if run not in self.cluster.running | self.cluster.ended:
            return False
        self.mine.append(run)
        return True

    @property
    def has_ended(self):
        return any(run in self.cluster.ended for run in self.mine)

    def take(self):
        cluster = self.cluster
        while not self.has_ended:
            run = cluster.rng.choice(sorted(cluster.running))
            candidate = cluster.running.pop(run)
            bad = NAMES.index(candidate) >= FIRST_BAD and cluster.rng.random() < cluster.rate
            conclusion = Conclusion.BAD if bad else Conclusion.GOOD
            cluster.ended[run] = Observation(candidate=candidate, conclusion=conclusion, run=run, seconds=1.0)
            cluster.dies()
        run = next(run for run in self.mine if run in cluster.ended)
        self.mine.remove(run)
        return Finding(observation=cluster.ended[run])

    def cancel(self, run):
        self.cluster.dies()
        self.cluster.running.pop(run, None)
        self.cluster.cancelled.add(run)
        self.mine = [mine for mine in self.mine if mine != run]

    def avoid(self, nodes):
        assert not list(nodes)


def searched(path, cluster, *, workers, decide=next_step, pointless=useless, **options):
    """Go on until there is a verdict, through any number of kills."""
    problem = Problem(candidates=NAMES, good=NAMES[0], bad=NAMES[-1], **options)
    while True:
        journal = Journal.open(path) if path.exists() else Journal.create(path, HEADER)
        search = Search(
            problem=problem,
            journal=journal,
            runner=Runner(cluster),
            decide=decide,
            useless=pointless,
            show=repr,
            workers=workers,
        )
        try:
            return search.run()
        except Killed:
            continue
        finally:
            journal.close()


def check(path, cluster, state):
    """Nothing lost, nothing twice, nothing left behind."""
    contents = read(path)
    started = [entry["run"] for entry in contents.of("started")]
    observed = [entry["run"] for entry in contents.of("observed")]
    cancelled = {entry["run"] for entry in contents.of("cancelled")}
    lost = {entry["run"] for entry in contents.of("lost")}
    assert len(started) == len(set(started))
    assert len(observed) == len(set(observed))
    assert set(started) == {*observed, *cancelled, *lost}
    assert {*observed} | cancelled >= set(cluster.ended), "a finished run was lost"
    assert not cluster.running, "a run goes on after the verdict"
    assert not state.open_runs
    assert not cancelled.intersection(observed)


@pytest.mark.parametrize("seed", range(20))
def test_four_workers_find_the_change_and_leave_nothing_behind(tmp_path, seed):
    """A wrong neighbour, a job that goes on after the verdict, or more jobs than workers."""
    cluster = Cluster(random.Random(seed))
    step, state = searched(tmp_path / "j", cluster, workers=4)

    assert isinstance(step, Found)
    assert (step.last_good, step.first_bad) == (NAMES[FIRST_BAD - 1], NAMES[FIRST_BAD])
    assert cluster.most <= 4
    check(tmp_path / "j", cluster, state)


@pytest.mark.parametrize("seed", range(30))
def test_kills_with_runs_in_flight_submit_nothing_twice_and_lose_nothing(tmp_path, seed):
    """A kill between any two effects, cancelling included; the cluster goes on without the process."""
    cluster = Cluster(random.Random(seed), kills=True)
    step, state = searched(tmp_path / "j", cluster, workers=3)

    assert isinstance(step, Found)
    assert step.first_bad == NAMES[FIRST_BAD]
    check(tmp_path / "j", cluster, state)


def test_a_certain_search_asks_only_the_neighbours_twice_and_cancels_what_its_neighbours_answer(tmp_path):
    """A second run of a candidate that always answers the same is a node-hour for nothing."""
    runs = []
    for seed in range(30):
        path = tmp_path / f"{seed}"
        cluster = Cluster(random.Random(seed), kills=seed % 2 == 1)
        step, state = searched(path, cluster, workers=3, decide=next_certain_step, pointless=useless_when_certain)
        assert isinstance(step, Found)
        assert step.first_bad == NAMES[FIRST_BAD]
        check(path, cluster, state)
        asked = Counter(entry["candidate"] for entry in read(path).of("observed"))
        assert {name for name, count in asked.items() if count == 2} == {step.last_good, step.first_bad}
        assert max(asked.values()) == 2
        runs.append(len(read(path).of("cancelled")))
    assert sum(runs) > 0


def test_a_certain_search_waits_when_all_that_is_left_is_under_way():
    """Instead of asking again, or of ending without an answer."""
    problem = Problem(candidates=("a", "b", "c"), good="a", bad="c")
    seen = [
        Observation(candidate="a", conclusion=Conclusion.GOOD),
        Observation(candidate="c", conclusion=Conclusion.BAD),
    ]

    assert isinstance(next_certain_step(problem, seen, workers=2, pending=("b",)), Wait)


def test_three_workers_cut_a_certain_search_in_four():
    """Three neighbours of the middle tell hardly more than the middle."""
    problem = Problem(candidates=NAMES, good=NAMES[0], bad=NAMES[-1])
    seen = [
        Observation(candidate=NAMES[0], conclusion=Conclusion.GOOD),
        Observation(candidate=NAMES[-1], conclusion=Conclusion.BAD),
    ]
    step = next_certain_step(problem, seen, workers=3)

    assert (step.candidate, *step.also) == ("n04", "n08", "n12")


def test_the_budget_holds_for_runs_under_way_too(tmp_path):
    """Four workers would make three runs more than were allowed."""
    cluster = Cluster(random.Random(1), rate=0.3)
    _, state = searched(tmp_path / "j", cluster, workers=4, max_runs=10)

    assert len(read(tmp_path / "j").of("started")) == len(state.observations) == 10


def test_a_cancelled_run_is_no_observation_and_frees_its_place():
    """A search that goes on would wait for it for ever, or count it."""
    entries = [
        {"event": "started", "candidate": "b", "run": "run-0001"},
        {"event": "started", "candidate": "c", "run": "run-0002"},
        {"event": "cancelled", "run": "run-0001"},
    ]
    state = State.replay(entries)

    assert state.open_runs == (("c", "run-0002"),)
    assert state.observations == ()
    assert state.last_run == 2


def test_a_noisy_search_with_several_workers_is_right_as_often_as_with_one(tmp_path):
    """What is under way must not count as evidence: 95 % means 95 % with four workers too."""
    wrong = 0
    for seed in range(10):
        cluster = Cluster(random.Random(seed), rate=0.5)
        step, state = searched(tmp_path / f"{seed}", cluster, workers=4)
        suspects = step.suspects if isinstance(step, Narrowed) else (step.first_bad,)
        wrong += NAMES[FIRST_BAD] not in suspects
        check(tmp_path / f"{seed}", cluster, state)
    assert wrong <= 3
