"""The set search for a loss of throughput: which differences bring it in, told from pairs with a planted loss."""

import math
import random
from bisect.driver import BuildFacts, Finding
from bisect.journal import Journal
from bisect.model import Conclusion, Observation
from bisect.packages import (
    FoundSet,
    Innocent,
    ProbeSet,
    SetContradiction,
    SetExhausted,
    SetObservation,
    SetProblem,
)
from bisect.packages.as_json import as_json
from bisect.packages.differences import Item, ItemKind
from bisect.packages.outcome import report_of
from bisect.packages.report import render
from bisect.packages.search import SetSearch, decision
from bisect.packages.speed_step import next_set
from bisect.probe import RunKind, RunRequest
from dataclasses import asdict

import pytest

from .searches import HEADER

ITEMS = tuple(f"p{number:02d}" for number in range(10))


def search(speed, *, noise=0.01, seed=0, drift=0.0, within=None, stalled=0.0, max_runs=120, problem=None):
    """Drive the search; `speed(mix)` is log(mix / good) in truth, None where a pair measures nothing.

    `within`: change of the rate within every run; `stalled`: how much longer the bad end stands still.
    """
    rng, seen = random.Random(seed), []
    problem = problem or SetProblem(items=ITEMS, max_runs=max_runs)
    while isinstance(step := next_set(problem, seen, min_effect=0.01), ProbeSet):
        assert len(seen) <= max_runs, "the search does not end"
        true = speed(step.items)
        value = None if true is None else true + rng.gauss(0, noise) + drift * math.sin(len(seen) / 3)
        conclusion = Conclusion.SKIP if value is None else Conclusion.GOOD
        run = f"run-{len(seen):04d}"
        told = {"drift": within, "stalled": stalled if step.items == set(problem.items) else 0.0}
        seen.append(SetObservation(items=step.items, conclusion=conclusion, run=run, value=value, **told))
    return step, seen


def losing(*culprits, loss=0.06):
    return lambda mix: math.log1p(-loss) if set(culprits) <= mix else 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_package_that_makes_training_slower_is_found_and_confirmed(seed):
    """D12: nothing failed, it only became slow, and the build of torch would be blamed."""
    found, seen = search(losing("p07"), seed=seed)

    assert isinstance(found, FoundSet)
    assert (found.members, found.any_of) == (("p07",), False)
    (alone,), (rest,) = found.forward, found.reverse
    assert (alone.items, alone.runs >= 2, alone.change < -0.03) == ({"p07"}, True, True)
    assert ("p07" in rest.items, rest.runs >= 2, rest.change > -0.03) == (False, True, True)
    assert "throughput changes by -" in found.notes[0]
    assert len({pair.items for pair in seen}) < 12


def test_two_that_are_slow_only_together_are_a_pair():
    """Either alone runs at full speed, so testing one package at a time acquits both."""
    found, _ = search(losing("p02", "p08", loss=0.1))

    assert (set(found.members), found.any_of) == ({"p02", "p08"}, False)
    assert [count.change > -0.05 for count in found.reverse] == [True, True]


def test_two_independent_losses_are_both_named_with_their_size():
    """Removing the one that was found would leave the other's loss there."""
    parts = {"p01": math.log1p(-0.15), "p05": math.log1p(-0.15)}

    found, _ = search(lambda mix: sum(parts.get(item, 0.0) for item in mix))

    assert (set(found.members), found.any_of) == ({"p01", "p05"}, True)
    assert all("part of the loss" in note for note in found.notes[1:])
    assert len(found.notes) == 3


def test_equal_speed_acquits_with_the_loss_that_is_still_possible():
    """A search that always convicts somebody would blame the noise on a package."""
    answer, seen = search(lambda _: 0.0, noise=0.004)

    assert isinstance(answer, Innocent)
    assert answer.with_all.runs >= 2
    assert answer.allowed_rate < 0.02
    assert len({pair.items for pair in seen}) == 2


def test_a_faster_bad_end_contradicts_the_claim():
    """Swapped --good and --bad would end in a culprit for being fast."""
    answer, _ = search(lambda mix: 0.08 if mix else 0.0)

    assert isinstance(answer, SetContradiction)
    assert "+" in str(answer.with_all)


def test_noise_larger_than_the_loss_is_inconclusive():
    """A loss of 2 % on a machine that is good to 20 % would name whoever was unlucky."""
    answer, _ = search(losing("p03", loss=0.02), noise=0.2, max_runs=60)

    assert isinstance(answer, SetExhausted)
    assert "inconclusive" in answer.reason


def test_a_machine_that_throttles_within_the_runs_convicts_nobody():
    """Each run loses a fifth of its speed as the GPU gets hot; 6 % between two of them is no finding."""
    answer, _ = search(losing("p07"), within=-0.2)
    cool, _ = search(losing("p07"), within=-0.01)

    assert isinstance(answer, SetExhausted)
    assert "throttles" in answer.reason
    assert isinstance(cool, FoundSet)


def test_standing_still_in_the_middle_is_told_beside_equal_rates():
    """The bad side recompiles for a tenth of its time; its steady rate leaves that out."""
    answer, _ = search(lambda _: 0.0, noise=0.004, stalled=0.1)

    assert isinstance(answer, Innocent)
    assert "stands still for 10 % more" in answer.reason


def test_a_mix_that_measures_nothing_is_no_evidence():
    """A mix that crashes is neither slow nor fast."""

    def speed(mix):
        return None if "p02" in mix and len(mix) < len(ITEMS) else losing("p04")(mix)

    found, seen = search(speed)

    assert found.members == ("p04",)
    assert max(sum(pair.value is None for pair in seen if pair.items == each.items) for each in seen) <= 3


def test_a_bad_end_that_measures_nothing_ends_the_search():
    """Throughput of a run that crashes cannot be compared, however often."""
    answer, seen = search(lambda mix: None if mix else 0.0)

    assert isinstance(answer, SetExhausted)
    assert "no throughput" in answer.reason
    assert len(seen) <= 6


def test_the_step_depends_on_the_pairs_alone():
    """Resume rests on it: the same pairs give the same next mix."""
    problem = SetProblem(items=ITEMS)
    _, seen = search(losing("p06"), problem=problem)

    half = seen[: len(seen) // 2]

    assert next_set(problem, half, min_effect=0.01) == next_set(problem, half, min_effect=0.01)


class FakeRunner:
    """Measures a pair by the requests of its two runs."""

    def __init__(self):
        self.request, self.baseline_request, self.pairs = RunRequest(kind=RunKind.TRAIN), None, []

    def build(self, candidate):
        return BuildFacts(candidate=candidate)

    def start(self, candidate, run):
        mine, other = (dict(each.environment) for each in (self.request, self.baseline_request))
        self.pairs.append((candidate, mine, other))
        value = (-0.2 if "SLOW" in mine else 0.0) - (-0.2 if "SLOW" in other else 0.0) + 0.001 * (len(self.pairs) % 3)
        told = {"outcome": "ok", "run": run, "value": value, "drift": -0.02, "stalled": 0.01}
        seen = Observation(candidate=candidate, conclusion=Conclusion.GOOD, **told)
        self.ended = Finding(observation=seen)

    def take(self):
        return self.ended


def test_a_pair_compares_the_mix_with_the_good_environment_as_it_is(tmp_path):
    """A variable set for both runs of a pair would never be slower than itself; and the report says percent."""
    items = tuple(
        Item(id=f"variable:{name}", kind=ItemKind.VARIABLE, name=name, good=None, bad="1", weight=1.0, why="read")
        for name in ("OTHER", "QUIET", "SLOW")
    )
    plan = {
        "items": [{**asdict(item), "kind": str(item.kind)} for item in items],
        "needs": [], "families": [], "good": "a", "bad": "b", "hunted": "throughput", "throughput": True,
        "min_effect": 0.01, "warnings": [], "unreproducible": [],
    }  # fmt: skip
    journal = Journal.create(tmp_path / "journal.jsonl", {**HEADER, "command": "packages"})
    runner = FakeRunner()
    journal.append("plan", **plan)
    search = SetSearch(
        problem=SetProblem(items=tuple(item.id for item in items)),
        items=items,
        journal=journal,
        runner=runner,
        request=RunRequest(kind=RunKind.TRAIN),
        mixes={},
        show=lambda _: None,
        decide=decision(plan),
    )

    found = search.run()
    journal.close()

    assert found.members == ("variable:SLOW",)
    assert all(other == {} for _, _, other in runner.pairs)
    assert any(mine.get("SLOW") for _, mine, _ in runner.pairs)
    report = report_of(tmp_path)
    assert report.step == found
    assert {(pair.drift, pair.stalled) for pair in report.seen} == {(-0.02, 0.01)}
    text = render(report)
    assert text.startswith("guilty: variable:SLOW: alone -18.")
    assert "pairs in" in text.splitlines()[0]
    verdict = as_json(report)
    assert verdict["forward"][0]["change"] < -0.15
    assert {mix["id"]: mix["change"] < -0.1 for mix in verdict["candidates"]}["bad"]
