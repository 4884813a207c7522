"""Halving under certainty, against the truth of every small problem."""

from bisect.engine.certain import next_certain_step, useless_when_certain
from bisect.model import (
    Conclusion,
    Contradiction,
    Exhausted,
    Found,
    Narrowed,
    NoRegression,
    Observation,
    Probe,
    Problem,
)
from collections import Counter
from itertools import product
from math import ceil, log2

import pytest

NAMES = "abcdefgh"


TOLD = {"N": Conclusion.GOOD, "Y": Conclusion.BAD, "?": Conclusion.SKIP}


def play(pattern, *, good=None, bad=None, equal=(), lie=None, max_runs=3000):
    """Search a pattern like `NN?YY` (N good, Y bad, ? cannot be tested); the verdict and what was run.

    `lie`: the number of the run that says the opposite.
    """
    names = tuple(NAMES[: len(pattern)])
    problem = Problem(candidates=names, good=good or names[0], bad=bad or names[-1], equal=equal, max_runs=max_runs)
    seen = []
    while True:
        step = next_certain_step(problem, seen)
        if not isinstance(step, Probe):
            return step, [item.candidate for item in seen]
        answer = pattern[names.index(step.candidate)]
        if len(seen) == lie:
            answer = {"N": "Y", "Y": "N", "?": "?"}[answer]
        seen.append(Observation(candidate=step.candidate, conclusion=TOLD[answer]))
        assert len(seen) <= 5 + len(pattern), "the search does not end"


def patterns():
    for size in range(2, 8):
        for first_bad in range(1, size):
            for holes in product((False, True), repeat=size - 2):
                text = "".join("N" if at < first_bad else "Y" for at in range(size))
                yield (
                    "".join("?" if 0 < at < size - 1 and holes[at - 1] else letter for at, letter in enumerate(text)),
                    first_bad,
                )


def test_every_small_problem_with_every_set_of_holes():
    """The culprit must be the answer, or among the suspects when a hole hides it; never another one."""
    for pattern, first_bad in patterns():
        step, ran = play(pattern)
        culprit = NAMES[first_bad]
        if isinstance(step, Found):
            assert (step.first_bad, step.direction) == (culprit, "regression"), pattern
        else:
            assert isinstance(step, Narrowed), pattern
            assert culprit in step.suspects, pattern
            assert "?" in pattern
        assert all(Counter(ran)[name] <= 2 for name in ran), pattern
        assert len(ran) - len(set(ran)) == 2, pattern


def test_one_wrong_answer_of_the_probe_blames_nobody():
    """Halving closes in on the wrong answer from its other side, and named it as the culprit, without any doubt."""
    for first_bad in range(1, 8):
        pattern = "N" * first_bad + "Y" * (8 - first_bad)
        _, ran = play(pattern)
        for lie in range(len(ran)):
            step, _ = play(pattern, lie=lie)

            assert isinstance(step, Contradiction), (pattern, lie)
            assert "failed and passed" in step.reason


def test_the_runs_that_confirm_an_answer_are_not_cancelled():
    """With several workers they would be taken for pointless, ended, and asked for again for ever."""
    problem = Problem(candidates=tuple("abcd"), good="a", bad="d")
    seen = [Observation(candidate=name, conclusion=TOLD[letter]) for name, letter in zip("abcd", "NNYY", strict=True)]
    step = next_certain_step(problem, seen, workers=2)
    alike = [Observation(candidate=name, conclusion=Conclusion.GOOD) for name in "ad"]

    assert (step.candidate, step.also) == ("b", ("c",))
    assert useless_when_certain(problem, seen, ("b", "c")) == ()
    assert useless_when_certain(problem, seen, ("b", "c", "a")) == ("a",)
    assert useless_when_certain(problem, alike, ("d", "a")) == ()


def test_a_neighbour_that_can_no_longer_be_run_is_not_waited_for():
    """Its second run would be asked for without an end."""
    problem = Problem(candidates=tuple("ab"), good="a", bad="b")
    seen = [Observation(candidate=name, conclusion=TOLD[letter]) for name, letter in zip("aab", "NNY", strict=True)]
    silent = [Observation(candidate="b", conclusion=Conclusion.SKIP)]

    assert isinstance(next_certain_step(problem, seen + 19 * silent), Probe)
    assert isinstance(next_certain_step(problem, seen + 20 * silent), Found)


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_no_more_runs_are_made_than_allowed(budget):
    """`--max-runs` would bind every search but this one."""
    step, ran = play("NNNNYYYY", max_runs=budget)

    assert len(ran) == budget
    assert isinstance(step, Exhausted)
    assert "e" in step.suspects
    assert f"{budget} runs were made, {budget} allowed" in step.reason


@pytest.mark.parametrize(
    ("pattern", "suspects"), [("N??NY", "e"), ("N?Y?Y", "bc"), ("N?NN?YY", "ef"), ("NYY??Y?Y", "b")]
)
def test_published_cases(pattern, suspects):
    """Ports of the peers' own cases; cargo-bisect-rustc is certain of the wrong one in the third."""
    step, _ = play(pattern)

    assert (step.suspects if isinstance(step, Narrowed) else (step.first_bad,)) == tuple(suspects)


@pytest.mark.parametrize("size", range(2, 9))
def test_the_number_of_runs_is_the_least_possible(size):
    """Each candidate is a 5 GB build: more than endpoints plus halving is waste."""
    for first_bad in range(1, size):
        _, ran = play("N" * first_bad + "Y" * (size - first_bad))
        assert len(set(ran)) <= 2 + ceil(log2(size - 1))
        assert len(ran) == len(set(ran)) + 2


def test_a_fix_is_found_when_good_is_newer():
    """`--good NEW --bad OLD` asks what fixed it: last bad and first good, no complaint."""
    step, _ = play("YYYNN", good="e", bad="a")

    assert (step.direction, step.first_bad, step.last_good, step.notes) == ("fix", "c", "d", ())


def test_a_reversed_claim_is_answered_and_told():
    """C17, C18: old is bad and new is good although the opposite was claimed; it must not be swapped silently."""
    step, _ = play("YYNN")

    assert (step.direction, step.first_bad, step.last_good) == ("fix", "b", "c")
    assert "the order is reversed" in step.notes[0]


def test_ends_that_behave_alike():
    """C20, C21: nothing to find is an answer of its own, with the reason, and no culprit."""
    fine, broken = play("NNNN")[0], play("YYYY")[0]

    assert isinstance(fine, NoRegression)
    assert "d does not show the failure" in fine.reason
    assert isinstance(broken, Contradiction)
    assert broken.endpoint == "a"


def test_an_endpoint_that_cannot_be_tested_is_given_up():
    """Asking for it for ever would never end."""
    assert isinstance(play("?NY")[0], Contradiction)


def test_equal_commits_are_not_run_twice():
    """The same code needs one run."""
    step, ran = play("NNNYYY", equal=(("b", "c"), ("d", "e")))

    assert (step.last_good, step.first_bad) == ("c", "d")
    assert not {"b", "c"} <= set(ran)


def test_equal_commits_with_two_answers_blame_nobody():
    """B29: one commit on two dates, good then bad: no code changed, so no nightly may be blamed."""
    problem = Problem(candidates=("a", "b", "c", "d"), good="a", bad="d", equal=(("b", "c"),))
    answers = {"a": Conclusion.GOOD, "b": Conclusion.GOOD, "c": Conclusion.BAD, "d": Conclusion.BAD}
    seen = [Observation(candidate=name, conclusion=answer) for name, answer in answers.items()]
    step = next_certain_step(problem, seen)

    assert isinstance(step, Contradiction)
    assert step.reason.startswith("no code change between b (good) and c (bad)")


def test_a_probe_that_answers_twice_differently_is_a_contradiction():
    """A probe claimed to be deterministic that is not makes every halving worthless."""
    problem = Problem(candidates=("a", "b", "c"), good="a", bad="c")
    seen = [Observation(candidate="c", conclusion=answer) for answer in (Conclusion.GOOD, Conclusion.BAD)]

    assert "c failed and passed" in next_certain_step(problem, seen).reason


def test_an_island_is_named():
    """Observations made elsewhere may show two changes; one first bad is then the wrong question."""
    problem = Problem(candidates=tuple("abcde"), good="a", bad="e")
    answers = zip("abcde", "NYNYY", strict=True)
    told = {"N": Conclusion.GOOD, "Y": Conclusion.BAD}
    seen = [Observation(candidate=name, conclusion=told[letter]) for name, letter in answers]

    assert "more than one change" in next_certain_step(problem, seen).reason
