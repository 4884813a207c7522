"""The loop of a package search with a fake runner: what a mix runs with, what is no evidence, what ends it."""

import itertools
from bisect.driver import BuildFacts, Finding
from bisect.journal import Journal, read
from bisect.model import Conclusion, Observation
from bisect.packages import FoundSet, SetProblem
from bisect.packages.differences import Facts, Item, ItemKind, items
from bisect.packages.search import SetSearch, mix_name, observations_of
from bisect.probe import RunKind, RunRequest

import pytest

from envs.errors import CannotBuildError, CannotRunError

from .searches import HEADER


def item(name, kind=ItemKind.PACKAGE, good="1", bad="2"):
    identifier = name if kind is ItemKind.PACKAGE else f"{kind}:{name}"
    return Item(id=identifier, kind=kind, name=name, good=good, bad=bad, weight=1.0, why="")


class FakeRunner:
    """Judges a mix by `judge(mix, request)`; counts builds; refuses to build what is in `broken`."""

    def __init__(self, directory, judge, *, broken=()):
        self.directory, self.judge, self.broken = directory, judge, broken
        self.request = RunRequest(kind=RunKind.TRAIN)
        self.mixes, self.built, self.requests = {}, [], {}

    def build(self, candidate):
        assert candidate not in self.built, "an environment was built twice"
        self.built.append(candidate)
        gone = candidate in self.broken
        return BuildFacts(
            candidate=candidate,
            outcome="resolution_conflict" if gone else "",
            reason="gone" if gone else "",
        )

    def start(self, candidate, run):
        self.requests[candidate] = self.request
        conclusion = self.judge(self.mixes[candidate], self.request)
        self.seen = Observation(candidate=candidate, conclusion=conclusion, outcome="x", run=run)

    def take(self):
        return Finding(observation=self.seen)

    def resume(self, *_):
        return False


@pytest.fixture
def searching(tmp_path):
    """A function that makes a search; its journals are closed at the end."""
    journals = []

    def make(items, judge, **more):
        found = sorted(items, key=lambda each: each.id)
        journals.append(Journal.create(tmp_path / "journal.jsonl", {**HEADER, "command": "packages"}))
        runner = FakeRunner(tmp_path, judge, **more)
        search = SetSearch(
            problem=SetProblem(items=tuple(each.id for each in found)),
            items=tuple(found),
            journal=journals[-1],
            runner=runner,
            request=RunRequest(kind=RunKind.TRAIN, arguments=("--profile", "smoke"), environment=(("KEPT", "1"),)),
            mixes=runner.mixes,
            show=lambda _: None,
        )
        return search, runner

    yield make
    for journal in journals:
        journal.close()


def test_what_is_not_a_package_is_set_for_the_run_of_the_mix(tmp_path, searching):
    """A variable, an import or a cache that is not applied exactly would acquit the guilty one."""
    (tmp_path / "warm").mkdir()
    items = [
        item("LD_PRELOAD", ItemKind.VARIABLE, good=None, bad="/x.so"),
        item("CUDA_VISIBLE_DEVICES", ItemKind.VARIABLE, good="0", bad=""),
        item("sglang", ItemKind.IMPORT, good="", bad="imported"),
        item("all", ItemKind.CACHE, good="", bad=str(tmp_path / "warm")),
    ]

    def judge(mix, request):
        return Conclusion.BAD if "--import" in request.arguments else Conclusion.GOOD

    search, runner = searching(items, judge)
    found = search.run()

    assert (type(found), found.members) == (FoundSet, ("import:sglang",))
    bare, full = runner.requests["good"], runner.requests["bad"]
    assert bare.arguments == ("--profile", "smoke")
    assert dict(bare.environment) == {"KEPT": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert bare.unset == ("LD_PRELOAD",)
    assert bare.cache is None
    assert full.arguments[-2:] == ("--import", "sglang")
    assert dict(full.environment) == {"KEPT": "1", "CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "/x.so"}
    assert full.unset == ()
    assert full.cache == tmp_path / "warm"


def test_a_variable_that_one_side_does_not_have_is_not_the_same_as_an_empty_one(searching):
    """`CUDA_VISIBLE_DEVICES=` hides every GPU: called absent, it would be acquitted with everything else."""
    packages = {"torch": "2.11.0"}
    (found,) = items(Facts(packages=packages), Facts(packages=packages, variables={"CUDA_VISIBLE_DEVICES": ""}))

    def judge(_mix, request):
        return Conclusion.BAD if dict(request.environment).get("CUDA_VISIBLE_DEVICES") == "" else Conclusion.GOOD

    search, _ = searching([found], judge)

    assert search.run().members == ("variable:CUDA_VISIBLE_DEVICES",)
    assert str(found) == "variable:CUDA_VISIBLE_DEVICES (absent) -> (empty)"


def test_a_mix_that_cannot_be_built_is_tried_once_and_is_no_evidence(searching):
    """A resolver's refusal would count for or against a package."""
    items = [item(f"p{number}") for number in range(4)]
    problem = SetProblem(items=tuple(each.id for each in items))
    pairs = [frozenset(pair) for pair in itertools.combinations(problem.items, 2) if "p1" in pair]
    broken = {mix_name(mix, problem) for mix in pairs}

    search, runner = searching(items, lambda mix, _: Conclusion.BAD if "p2" in mix else Conclusion.GOOD, broken=broken)

    assert search.run().members == ("p2",)
    assert len(runner.built) == len(set(runner.built))


def test_an_end_that_cannot_be_built_ends_the_search_with_the_reason(searching):
    """Exit code 5, not a verdict about packages."""
    search, _ = searching([item("a"), item("b")], lambda *_: Conclusion.GOOD, broken={"bad"})

    with pytest.raises(CannotBuildError) as caught:
        search.run()

    assert (caught.value.outcome, caught.value.exit_code) == ("resolution_conflict", 5)


def test_a_run_lost_to_the_infrastructure_is_made_again_and_not_for_ever(tmp_path, searching):
    """A full disk or a network failure of one run says nothing; three in a row make the mix unusable."""
    lost = itertools.count()

    def judge(mix, _request):
        if mix == {"a"} and next(lost) < 2:
            return Conclusion.RETRY
        return Conclusion.BAD if "a" in mix else Conclusion.GOOD

    search, _ = searching([item("a"), item("b")], judge)

    assert search.run().members == ("a",)
    entries = read(tmp_path / "journal.jsonl").entries
    assert sum(entry.get("conclusion") == "retry" for entry in entries) == 2
    assert all(run.conclusion is not Conclusion.RETRY for run in observations_of(entries))


def test_an_abort_ends_the_search_and_keeps_the_journal(searching, tmp_path):
    """A driver that died would be reported as a guilty package."""
    search, _ = searching([item("a"), item("b")], lambda *_: Conclusion.ABORT)

    with pytest.raises(CannotRunError) as caught:
        search.run()

    assert "journal is intact" in caught.value.hint
    assert caught.value.hint.endswith(f" resume {tmp_path}")


def test_a_mix_has_one_name_for_ever():
    """Resuming looks environments up by it."""
    problem = SetProblem(items=("a", "b", "c"))

    assert mix_name(frozenset(), problem) == "good"
    assert mix_name(frozenset("abc"), problem) == "bad"
    assert mix_name(frozenset("ab"), problem) == mix_name(frozenset("ba"), problem)
