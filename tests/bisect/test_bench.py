"""The simulated searches behind the figures: they count what they say they count."""

import pytest

from tests.bench import ordered, paired, played, sets


def test_a_deterministic_cell_is_always_right():
    """A change placed one off from the oracle would show as an engine that is wrong."""
    counted = ordered.cell(8, 1.0, 0.0, searches=4, seed=1)

    assert (counted.searches, counted.claimed, counted.right) == (4, 4, 4)
    assert counted.units == pytest.approx(counted.runs + 10 * counted.builds)
    assert counted.rounds == counted.runs


def test_the_same_seed_is_the_same_search():
    """A figure could not be made again."""
    first, second = (ordered.noisy_search(16, 0.5, 0.02, seed=7) for _ in range(2))

    assert first == second
    assert first != ordered.noisy_search(16, 0.5, 0.02, seed=8)


def test_four_workers_need_fewer_rounds():
    """The wall time of several workers would be counted in runs."""
    alone, together = (ordered.noisy_search(64, 0.5, 0.0, seed=3, workers=workers) for workers in (1, 4))

    assert alone.rounds == len(alone.observations)
    assert together.rounds <= 0.45 * alone.rounds


def test_a_claim_of_nothing_is_false():
    """Searches without a change would count as right."""
    tables = {row[0]: row for row in ordered.premises(searches=1, seed=1)}

    assert tables["always pass"][1] == "0/1"
    assert tables["good end cannot be judged"][4] == "Contradiction 1"


def test_skips_are_right_when_the_set_holds_the_culprit():
    """A narrowed answer would count as wrong, or as right whatever it names."""
    search = played.play(
        played.ordered_problem(3),
        played.coins(["c000", "c001", "c002", "c003"], [0.0, None, 1.0, 1.0], seed=1),
        truth="c001",
    )

    assert search.claimed == ("c001", "c002")
    assert played.tally([search]).right == 1


def test_a_package_search_for_a_loss_is_right_when_it_names_the_planted_ones():
    """A search that names nobody, or acquits the guilty, would count as right."""
    found = sets.play_pairs(1, 0.2, 0.001, seed=1)
    nothing = sets.play_pairs(0, 0.0, 0.001, seed=1)

    assert (found.right, found.wrong, nothing.right, nothing.environments) == (True, False, True, 2)
    assert found == sets.play_pairs(1, 0.2, 0.001, seed=1)


def test_a_large_loss_on_a_quiet_machine_is_exact():
    """The sign of a pair would depend on which of the two ran first."""
    verdict, truth, observations = paired._search((0.2,), 0.001, 0.0, seed=1)

    assert (verdict.first_bad,) == truth
    assert all(seen.value < 0.1 for seen in observations)
