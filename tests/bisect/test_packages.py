"""The set search: which differences bring a failure in, told from fakes with a planted answer."""

import itertools
import random
from bisect.model import Conclusion
from bisect.packages import (
    Count,
    FoundSet,
    Innocent,
    NarrowedSet,
    ProbeSet,
    Purpose,
    SetContradiction,
    SetExhausted,
    SetObservation,
    SetProblem,
    next_set,
)
from bisect.packages.belief import Tally, enumerate_hypotheses, infer
from bisect.packages.differences import Item, ItemKind
from bisect.packages.labels import label
from bisect.packages.report import SetReport, sentence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def items(count):
    return tuple(f"p{i}" for i in range(count))


def search(problem, judge, *, limit=1500):
    """Drive the search with `judge(mix) -> Conclusion`; the answer and every observation made."""
    seen = []
    while isinstance(step := next_set(problem, seen), ProbeSet):
        assert len(seen) < limit, "the search does not end"
        seen.append(SetObservation(items=step.items, conclusion=judge(step.items)))
    return step, seen


def coin(culprit, *, bad=1.0, good=0.0, seed=0, any_of=False):
    random_ = random.Random(seed)

    def judge(mix):
        held = bool(culprit & mix) if any_of else culprit <= mix
        return Conclusion.BAD if random_.random() < (bad if held else good) else Conclusion.GOOD

    return judge


def told(found, seen):
    """The answer in a sentence."""
    differences = tuple(
        Item(id=name, kind=ItemKind.PACKAGE, name=name, good="1", bad="2", weight=1.0, why="") for name in items(6)
    )
    return sentence(
        SetReport(
            hunted="x", good="a", bad="b", items=differences, step=found, seen=tuple(seen), names={}, facts={},
            unreproducible=(), warnings=(), import_changes={}, proof=(), reproduce=(), journal="",
        )
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 2])
def test_every_culprit_among_six_is_found_when_nothing_is_random(size):
    """A single or a pair somewhere would be missed, or named with a bystander."""
    for culprit in map(frozenset, itertools.combinations(items(6), size)):
        found, _ = search(SetProblem(items=items(6)), coin(culprit))

        assert isinstance(found, FoundSet)
        assert frozenset(found.members) == culprit
        assert not found.any_of


@settings(max_examples=8, deadline=None)
@given(st.sets(st.sampled_from(items(9)), min_size=1, max_size=3))
def test_any_set_of_up_to_three_is_found(culprit):
    """Three packages that only fail together would be reported as two."""
    found, _ = search(SetProblem(items=items(9)), coin(frozenset(culprit)))

    assert isinstance(found, FoundSet)
    assert set(found.members) == culprit


def test_the_answer_is_confirmed_in_both_directions():
    """The set alone must bring the failure in, and each member removed must take it away (public report D23)."""
    culprit = frozenset({"p3", "p14"})

    found, seen = search(SetProblem(items=items(20)), coin(culprit))

    assert set(found.members) == culprit
    (alone,) = found.forward
    assert (alone.items, alone.failures > 0) == (culprit, True)
    assert [(count.failures, count.runs > 0) for count in found.reverse] == [(0, True), (0, True)]
    for member, count in zip(found.members, found.reverse, strict=True):
        assert member not in count.items
        assert culprit - {member} <= count.items
    assert {count.items for count in (*found.forward, *found.reverse)} <= {run.items for run in seen}


def test_a_member_without_which_it_still_fails_is_named_as_such():
    """p1 beside p0 is one way and p2 beside p0 another: whoever reverts p1 alone would fail again."""

    def judge(mix):
        return Conclusion.BAD if "p0" in mix and mix & {"p1", "p2"} else Conclusion.GOOD

    found, seen = search(SetProblem(items=items(6)), judge)

    assert isinstance(found, FoundSet)
    (stays,) = found.still_fails_without
    assert set(found.members) == {"p0", stays}
    assert stays in {"p1", "p2"}
    for member, count in zip(found.members, found.reverse, strict=True):
        assert count.items == frozenset(items(6)) - {member}
        assert (count.failures > 0) == (member == stays)
    assert len(seen) < 60
    assert f"reverting {stays} alone does not mend it" in told(found, seen)


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_sets_end_in_one_of_them_under_noise(seed):
    """The search went round the same mixes until its budget was spent, for no single set explains all of its runs."""
    ways = (frozenset({"p1", "p2"}), frozenset({"p1", "p3"}))
    random_ = random.Random(seed)

    def judge(mix):
        fails = any(way <= mix for way in ways) and random_.random() < 0.5
        return Conclusion.BAD if fails else Conclusion.GOOD

    found, seen = search(SetProblem(items=items(6), max_runs=300), judge)

    assert isinstance(found, FoundSet)
    assert frozenset(found.members) in ways
    assert found.confidence >= 0.95
    assert len(seen) < 300


def test_four_that_only_fail_together_are_found():
    """No explanation holds four members: they would be searched for until the budget ends."""
    culprit = frozenset({"p0", "p2", "p3", "p6"})

    found, _ = search(SetProblem(items=items(8)), coin(culprit))

    assert frozenset(found.members) == culprit
    assert not found.another


def test_what_may_be_another_set_is_said():
    """Whoever reverts one member would take the failure for mended, though it was never seen to go."""
    count = Count(items=frozenset({"p0", "p1"}), failures=3, runs=6)
    found = FoundSet(members=("p0", "p1"), any_of=False, confidence=0.96, forward=(count,), reverse=(), another=True)

    assert "another set may bring it in too" in told(found, ())
    assert "another set" not in told(replace(found, another=False), ())


def test_runs_that_contradict_every_explanation_are_known_as_such():
    """A pair under bad luck would be taken for overlapping sets, or these be explained by a pair for ever."""

    def unexplained(ways):
        sets = [{"p0"}, {"p1"}, {"p2"}, {"p0", "p1"}, {"p0", "p2"}, {"p1", "p2"}, {"p0", "p1", "p2"}, set()]
        flags = np.asarray([[item in mix for item in items(3)] for mix in sets])
        failures = np.asarray([8 if any(way <= mix for way in ways) else 0 for mix in sets])
        tally = Tally(sets=flags, failures=failures, passes=8 - failures)
        return label(tally).unexplained(infer(enumerate_hypotheses((1.0,) * 3), tally))

    assert unexplained([{"p0", "p1"}]) < 0.01
    assert unexplained([{"p0", "p1"}, {"p0", "p2"}]) > 0.99


def test_a_member_is_missed_from_everything_not_from_the_set_alone():
    """The set without it is the other member, which shows nothing of what else may fail."""
    found, _ = search(SetProblem(items=items(6)), coin(frozenset({"p0", "p1"})))

    assert {count.items for count in found.reverse} == {frozenset(items(6)) - {member} for member in ("p0", "p1")}


def test_a_member_that_everything_needs_is_missed_from_what_can_be_built():
    """p5 does not import without p0: of everything but p0 nothing can be said, and the report says what was run."""

    def judge(mix):
        if "p5" in mix and "p0" not in mix:
            return Conclusion.SKIP
        return Conclusion.BAD if {"p0", "p1"} <= mix else Conclusion.GOOD

    found, seen = search(SetProblem(items=items(6)), judge)

    assert set(found.members) == {"p0", "p1"}
    missed = dict(zip(found.members, found.reverse, strict=True))
    assert missed["p0"].items == {"p1"}
    assert missed["p1"].items == frozenset(items(6)) - {"p1"}
    assert "without p0 (p1 alone) 0/" in told(found, seen)


def test_a_pair_that_shows_half_of_the_time_is_a_pair():
    """Order-dependent failures of two packages (D01) would be blamed on one of them."""
    names = ("vllm", "flashinfer", "tilelang", "x", "y")
    pair = frozenset({"flashinfer", "tilelang"})

    answers = [search(SetProblem(items=names), coin(pair, bad=0.5, seed=seed))[0] for seed in range(4)]

    assert [set(answer.members) for answer in answers] == [set(pair)] * 4


def test_two_independent_culprits_are_both_named():
    """Removing the one that was found would leave the failure there."""
    culprits = frozenset({"p1", "p6"})

    found, _ = search(SetProblem(items=items(8)), coin(culprits, any_of=True))

    assert (set(found.members), found.any_of) == ({"p1", "p6"}, True)
    assert found.reverse[0].failures == 0
    assert found.reverse[0].items.isdisjoint(culprits)


def test_a_member_is_gone_only_after_more_than_four_passes_at_even_odds():
    """Of two that suffice each, one would be named, and reverting it alone be called the cure, in one of fifteen."""
    runs = {
        ("p0", "p1", "p2"): (4, 4),
        (): (0, 8),
        ("p0",): (4, 4),
        ("p0", "p1"): (4, 4),
        ("p1",): (0, 8),
        ("p2",): (0, 8),
    }

    def after(passes):
        seen = [
            SetObservation(items=frozenset(mix), conclusion=conclusion)
            for mix, counts in {**runs, ("p1", "p2"): (0, passes)}.items()
            for conclusion, count in zip((Conclusion.BAD, Conclusion.GOOD), counts, strict=True)
            for _ in range(count)
        ]
        return next_set(SetProblem(items=items(3)), seen)

    asked = after(4)
    assert isinstance(asked, ProbeSet)
    assert (asked.items, asked.purpose) == ({"p1", "p2"}, Purpose.REVERSE)
    assert after(8).members == ("p0",)


def test_one_culprit_is_found_under_noise_and_one_pass_proves_nothing():
    """A failure of three runs in ten, with stray failures at the good end, would be judged on single passes."""
    right = 0
    for seed in range(6):
        found, seen = search(SetProblem(items=items(9)), coin(frozenset({"p7"}), bad=0.3, good=0.03, seed=seed))
        right += isinstance(found, FoundSet) and found.members == ("p7",)
        assert sum(run.items == frozenset() for run in seen) >= 2

    assert right >= 5


@pytest.mark.parametrize(("rate", "reason"), [(0.0, "none of"), (1.0, "fails without"), (0.3, "")])
def test_innocent_differences_are_said_to_be_innocent_with_counts(rate, reason):
    """Downgrading transformers changed nothing: a search that always convicts somebody would blame it."""
    answers = [
        search(SetProblem(items=items(8), max_runs=150), coin(frozenset(), bad=rate, seed=n))[0] for n in range(3)
    ]

    innocent = [answer for answer in answers if isinstance(answer, Innocent)]
    assert not any(isinstance(answer, FoundSet) for answer in answers)
    assert len(innocent) >= 2
    for answer in innocent:
        assert reason in answer.reason
        assert answer.without.runs >= 2
        assert answer.with_all.runs >= 2


def test_clean_runs_state_the_rate_they_still_allow():
    """`0 of n` would read as `cannot fail`."""
    answer, _ = search(SetProblem(items=items(4)), coin(frozenset(), bad=0.0))

    assert answer.with_all.failures == 0
    assert answer.allowed_rate == pytest.approx(1 - 0.05 ** (1 / answer.with_all.runs))


def test_a_good_end_that_fails_and_a_bad_end_that_does_not_is_a_contradiction():
    """Swapped --good and --bad would end in `innocent`."""
    answer, seen = search(SetProblem(items=items(6)), lambda mix: Conclusion.GOOD if len(mix) == 6 else Conclusion.BAD)

    assert isinstance(answer, SetContradiction)
    assert answer.without.failures == answer.without.runs
    assert len(seen) < 20


def test_no_differences_is_an_answer_without_a_run():
    """Two equal environments would be searched forever."""
    assert isinstance(next_set(SetProblem(items=()), []), Innocent)


def test_mixes_that_cannot_be_built_are_no_evidence():
    """p2's new version does not import without p5's, which nobody declared: skips must not convict or acquit."""

    def judge(mix):
        if "p2" in mix and "p5" not in mix:
            return Conclusion.SKIP
        return Conclusion.BAD if "p8" in mix else Conclusion.GOOD

    found, seen = search(SetProblem(items=items(10)), judge)

    assert found.members == ("p8",)
    assert sum(run.conclusion is Conclusion.SKIP for run in seen) <= 6


def test_differences_that_cannot_be_separated_are_narrowed_not_found():
    """A torch that imports only with its own triton: naming one of the two would be a guess."""

    def judge(mix):
        if len(mix & {"p1", "p2"}) == 1:
            return Conclusion.SKIP
        return Conclusion.BAD if "p1" in mix else Conclusion.GOOD

    answer, _ = search(SetProblem(items=items(5)), judge)

    assert isinstance(answer, NarrowedSet)
    assert {name for suspect in answer.suspects[:3] for name in suspect.members} == {"p1", "p2"}


def test_a_run_that_failed_otherwise_is_made_again():
    """One other failure that came first would end the search with `cannot be judged`."""
    order = iter([Conclusion.SKIP, Conclusion.SKIP])
    seen = []
    problem = SetProblem(items=items(4))
    while isinstance(step := next_set(problem, seen), ProbeSet):
        bad = Conclusion.BAD if "p1" in step.items else Conclusion.GOOD
        run = f"run-{len(seen)}"
        seen.append(SetObservation(items=step.items, conclusion=next(order, bad), run=run))

    assert step.members == ("p1",)


@pytest.mark.parametrize(("first", "runs"), [((), 3), ((Conclusion.BAD,), 12)])
def test_an_end_whose_runs_cannot_be_judged_ends_the_search(first, runs):
    """Runs that all fail otherwise would be made for ever; so would those of an end that showed the failure once."""
    order, seen = iter(first), []
    while isinstance(step := next_set(SetProblem(items=items(4), max_runs=12), seen), ProbeSet):
        conclusion = next(order, Conclusion.SKIP)
        seen.append(SetObservation(items=step.items, conclusion=conclusion, run=f"run-{len(seen)}"))

    assert (type(step), len(seen)) == (SetExhausted, runs)


def test_an_end_that_cannot_be_built_stops_the_search():
    """Otherwise the mixes between would be tried one after the other."""
    answer, seen = search(SetProblem(items=items(5)), lambda _: Conclusion.SKIP)

    assert isinstance(answer, SetExhausted)
    assert len(seen) == 1


def test_what_must_move_together_moves_together():
    """A mix with torchvision's new build and the old torch would be asked for."""
    problem = SetProblem(items=items(8), needs=(("p1", "p0"), ("p2", "p0"), ("p0", "p3")))

    found, seen = search(problem, coin(frozenset({"p5"})))

    assert found.members == ("p5",)
    for run in seen:
        assert not {"p1", "p2"} & run.items or "p0" in run.items
        assert "p0" not in run.items or "p3" in run.items


def test_a_culprit_that_needs_another_is_named_alone():
    """p1 is guilty and cannot be applied without p0; p0 alone is shown to be innocent."""
    problem = SetProblem(items=items(6), needs=(("p1", "p0"),))

    found, _ = search(problem, coin(frozenset({"p1"})))

    assert found.members == ("p1",)
    assert found.forward[0].items == {"p0", "p1"}


def test_a_family_is_kept_whole_until_it_is_suspected():
    """Half of the nvidia wheels of each CUDA major is a mix nobody runs and that proves nothing."""
    family = frozenset({"p0", "p1", "p2", "p3"})
    problem = SetProblem(items=items(10), families=(family,))

    _, seen = search(problem, coin(frozenset({"p8"})))

    assert {len(run.items & family) for run in seen} <= {0, 4}


def test_a_family_member_is_still_singled_out():
    """Families only order the search: the guilty wheel inside one is named."""
    problem = SetProblem(items=items(10), families=(frozenset({"p0", "p1", "p2", "p3"}),))

    found, _ = search(problem, coin(frozenset({"p2"})))

    assert found.members == ("p2",)


def test_environments_are_built_sparingly():
    """A build costs ten runs: few mixes with repeats, not many mixes with one run each."""
    dear, seen_dear = search(SetProblem(items=items(16), build_cost=10.0), coin(frozenset({"p9"}), bad=0.3, seed=5))
    free, seen_free = search(SetProblem(items=items(16), build_cost=0.0), coin(frozenset({"p9"}), bad=0.3, seed=5))

    assert dear.members == free.members == ("p9",)
    assert len({run.items for run in seen_dear}) < 0.6 * len({run.items for run in seen_free})


def test_likely_differences_are_tried_first():
    """Torch-dependent packages come first: with their weight a mix of them is the first question."""
    weights = tuple(8.0 if i < 3 else 1.0 for i in range(12))
    problem = SetProblem(items=items(12), weights=weights)

    _, light = search(problem, coin(frozenset({"p1"})))
    _, heavy = search(SetProblem(items=items(12)), coin(frozenset({"p1"})))

    assert len({run.items for run in light}) <= len({run.items for run in heavy})


def test_the_budget_ends_the_search_with_what_it_knows():
    """A search without an end is a bill without an end."""
    problem = SetProblem(items=items(16), max_runs=12)

    answer, seen = search(problem, coin(frozenset({"p9"}), bad=0.2, seed=1))

    assert isinstance(answer, SetExhausted)
    assert len(seen) == 12


def test_the_step_depends_on_the_observations_alone():
    """Resume and replay rest on it: the same runs, in any order, give the same next step."""
    problem = SetProblem(items=items(8))
    _, seen = search(problem, coin(frozenset({"p2"}), bad=0.5, seed=3))
    half = seen[: len(seen) // 2]

    assert next_set(problem, half) == next_set(problem, half)
    assert next_set(problem, half).items == next_set(problem, sorted(half, key=lambda run: sorted(run.items))).items
    assert next_set(problem, []).purpose is Purpose.ENDPOINT
