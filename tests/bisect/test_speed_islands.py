"""A loss of throughput that came, went and came again: each stretch is named, the noise is that about its level."""

import random
from bisect.model import Conclusion, Found, Observation
from bisect.throughput import next_step
from bisect.throughput.islands import find_stretches
from bisect.throughput.posterior import Pairs

import numpy as np
import pytest

from .searches import problem

LOSS = -0.05


def _step(levels, *, count, noise=0.005):
    """The step of a search with `count` pairs of each of these builds of c0 .. c19 (log ratios)."""
    dice = random.Random(3)
    seen = [
        Observation(candidate=name, conclusion=Conclusion.GOOD, value=level + dice.gauss(0.0, noise))
        for name, level in levels.items()
        for _ in range(count)
    ]
    return next_step(problem(20), seen)


def test_one_build_as_slow_as_the_end_is_named():
    """Without a word of c5 the reader mends c19, and ships c5's loss; its pairs trebled the noise of all others."""
    step = _step({"c0": 0.0, "c4": 0.0, "c5": LOSS, "c6": 0.0, "c10": 0.0, "c18": 0.0, "c19": LOSS}, count=30)

    assert isinstance(step, Found)
    assert (step.last_good, step.first_bad) == ("c18", "c19")
    assert "changes by -4." in step.notes[0] or "changes by -5." in step.notes[0]
    assert step.notes[0].endswith("one pair is good to 0.5 %")
    assert "3 times, each to be searched for on its own" in step.notes[1]
    assert "% at c5, then" in step.notes[1]
    assert "% at c6 .. c18, then" in step.notes[1]


def test_a_loss_that_was_mended_and_came_back_is_told_in_order():
    """Only one of its three changes and another would be named, the third never."""
    levels = {"c0": 0.0, "c4": 0.0, "c5": LOSS, "c8": LOSS, "c9": 0.0, "c18": 0.0, "c19": LOSS}
    step = _step(levels, count=30)

    assert [part.partition(" at ")[2] for part in step.notes[-1].split(": ")[1].split(", then ")] == [
        "c0 .. c4", "c5 .. c8", "c9 .. c18", "c19",
    ]  # fmt: skip


@pytest.mark.parametrize("step_at", [1, 5, 9])
def test_one_step_is_no_more_than_one_however_the_pairs_fall(step_at):
    """Pairs with rare large errors would be told as builds with a level of their own."""
    dice = np.random.default_rng(step_at)
    positions = np.repeat(np.arange(11), [3, 3, 3, 3, 3, 3, 3, 1, 3, 3, 3])
    for _ in range(60):
        values = np.where(positions >= step_at, LOSS, 0.0) + 0.01 * dice.standard_t(3, positions.size)
        values[dice.choice([4, 21, 28])] -= 0.4
        found = find_stretches(
            Pairs(positions=positions, values=values), older=step_at - 1, newer=step_at, least=-LOSS / 2
        )

        assert found == ()


def test_what_does_not_change_between_the_neighbours_is_not_told_of_them():
    """The size and the noise would be of other stretches than the claim is about."""
    positions = np.repeat(np.arange(8), 4)
    dice = np.random.default_rng(1)
    values = np.array([0.0, LOSS, 0.0, 0.0, 0.0, 0.0, LOSS, LOSS])[positions] + dice.normal(0.0, 0.003, positions.size)
    pairs = Pairs(positions=positions, values=values)

    assert [(each.first, each.last) for each in find_stretches(pairs, older=5, newer=6, least=0.02)] == [
        (0, 0), (1, 1), (2, 5), (6, 7),
    ]  # fmt: skip
    assert find_stretches(pairs, older=3, newer=4, least=0.02) == ()
    assert find_stretches(pairs, older=5, newer=6, least=0.06) == ()
