"""What a verdict adds: what was not run, what fails on the good side, and what an end without an answer leaves open."""

from bisect.engine import next_step
from bisect.model import Exhausted, Found

import pytest

from .searches import problem, seen

RARE = f"c0:{'g' * 40}b c4:{'g' * 148}bbb"


@pytest.mark.parametrize(
    ("good", "near", "last", "first", "bad", "begins"),
    [
        pytest.param("c0", "c2", "c3", "c4", "c5", "begins", id="regression"),
        pytest.param("c5", "c3", "c2", "c1", "c0", "ends", id="fix"),
    ],
)
def test_builds_that_fail_on_the_good_side_are_named(good, near, last, first, bad, begins):
    """A rate that climbs over three builds was answered with the last of them, without a word about the other two."""
    good_side = f"{good}:{'g' * 12} {near}:{'g' * 17}b {last}:{'g' * 12}bbb"
    verdict = next_step(problem(6, good=good, bad=bad), seen(f"{good_side} {first}:{'b' * 15} {bad}:{'b' * 12}"))

    assert isinstance(verdict, Found)
    assert (verdict.last_good, verdict.first_bad) == (last, first)
    (note,) = verdict.notes
    assert note == (
        f"the good side fails too, in 4 of 45 runs: {last} 3/15, {near} 1/18; {good} 0/12, so it may come in steps: "
        f"a search with {last} as the bad end tells where it {begins}"
    )


def test_a_good_end_that_fails_itself_comes_in_no_steps():
    """A good side that fails everywhere would send its reader to search it again."""
    observations = seen(f"c0:{'g' * 12}bbb c1:{'g' * 12}bbb c2:{'b' * 15} c3:{'b' * 15}")

    assert next_step(problem(4), observations).notes == ("the good side fails too, in 6 of 30 runs: c1 3/15, c0 3/15",)


def test_a_neighbour_that_only_stands_for_its_code_is_not_taken_for_one_that_ran():
    """`last good c2` was said of a wheel that nobody had run, after one of the same commit two days before."""
    equal = (("c1", "c2"), ("c3", "c4"))
    regression = next_step(problem(6, equal=equal), seen("c0:gggg c1:ggggggggg c3:bbbbbbbbb c5:bbbb"))
    fix = next_step(problem(6, equal=equal, good="c5", bad="c0"), seen("c0:bbbb c1:bbbbbbbbb c3:ggggggggg c5:gggg"))

    assert (regression.last_good, regression.first_bad) == ("c2", "c3")
    assert regression.notes == ("c2 was not run itself, only c1 of what is said to be the same code",)
    assert (fix.first_bad, fix.last_good) == ("c2", "c3")
    assert fix.notes == ("c2 was not run itself, only c1 of what is said to be the same code",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("c4:bb", "nothing is known of the end c0", id="an end was never run"),
        pytest.param("c2:bb", "nothing is known of the ends c0 and c4", id="no end was ever run"),
        pytest.param("c0:ggggg c4:" + "g" * 20, "the failure was never seen", id="never seen"),
        pytest.param("c0:gg c4:bbbg", "the good end failed in 0 of 2 runs, the bad end in 3 of 4", id="too few"),
        pytest.param(
            RARE,
            "the good end failed in 1 of 41 runs, the bad end in 3 of 151, and two low failure rates that lie close "
            "together are not ruled out",
            id="rare and alike",
        ),
    ],
)
def test_an_end_without_an_answer_says_what_the_ends_told(text, told):
    """`no change at all has a probability of 63 %` did not say that the failure had not been seen in any of 50 runs."""
    observations = seen(text)
    verdict = next_step(problem(5, max_runs=len(observations)), observations)

    assert isinstance(verdict, Exhausted)
    assert verdict.reason.endswith(f" %; {told}")
