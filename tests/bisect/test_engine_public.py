"""Flaky and contradictory outcomes from public reports, as observations with the answer they should have had."""

from bisect.engine import next_step
from bisect.model import Contradiction, Exhausted, Found, Narrowed, NoRegression, Probe

import pytest

from .searches import BAD, GOOD, SKIP, coins, play, problem, seen


def test_a_hang_that_some_builds_show_late():
    """pytorch#152623: d4 hung in its sixth run only; three clean runs of it must not make it good."""
    known = seen("d1:ggggg d2:b d3:b d5:bgb")
    asked = problem(5, candidates=("d1", "d2", "d3", "d4", "d5"), good="d1", bad="d5")
    early = next_step(asked, known + seen("d4:ggg"))
    late = next_step(asked, known + seen("d4:gggggb"))

    assert isinstance(early, Probe)
    assert isinstance(late, Probe | Found)
    assert dict(late.posterior.by_candidate)["d2"] > 0.7
    assert dict(early.posterior.by_candidate)["d5"] < 0.2


def test_two_of_three_against_none_of_one_names_nobody():
    """nccl#2167: blamed a version after 2 hangs against 0 of 1, and took it back the next day."""
    assert isinstance(next_step(problem(2), seen("c0:g c1:bbg")), Probe)


def test_a_control_that_does_not_reproduce_ends_as_such():
    """marin#7344: clean runs of the known-bad version in a smaller set-up prove nothing about the other builds."""
    verdict, observations = play(problem(9), lambda _: GOOD)

    assert isinstance(verdict, NoRegression)
    assert {run.candidate for run in observations} == {"c0", "c8"}
    assert f"c8 0/{sum(run.candidate == 'c8' for run in observations)}" in verdict.reason


def test_a_rate_that_falls_along_the_range_is_still_found():
    """syzkaller#2335: hits 2/10, then 1/10; a fixed ten runs a build went wrong."""
    asked = problem(9)
    rates = [0.0] * 4 + [0.2, 0.2, 0.15, 0.15, 0.1]
    answers = [play(asked, coins(asked, rates, seed=seed))[0] for seed in range(6)]
    right = [verdict for verdict in answers if isinstance(verdict, Found) and verdict.first_bad == "c4"]

    assert len(right) >= 4


def test_an_infrastructure_error_is_no_vote():
    """syzkaller#4888: one `lost connection` in ten runs flipped a revision to bad."""
    clean = next_step(problem(5), seen("c0:ggg c4:bbb c2:ggggggggg"))
    flaky = next_step(problem(5), seen("c0:ggg c4:bbb c2:gggggggggs"))

    assert flaky == clean


def test_a_rare_failure_with_few_runs_is_not_conclusive():
    """syzkaller#4028: p=.2 and five runs a build were published as a result."""
    asked = problem(8, max_runs=40)
    observations = seen("c0:ggggg c1:ggggg c2:ggggg c3:gbggg c4:ggggg c5:ggbgg c6:ggggb c7:bgggg")
    verdict = next_step(asked, observations)

    assert isinstance(verdict, Exhausted)
    assert verdict.confidence < 0.95 or len(verdict.suspects) > 1


def test_uninstallable_builds_in_the_middle_leave_an_interval():
    """catapult#2065: a broken build in mid-range hung the search, a broken endpoint was fatal without a word."""
    asked = problem(8)
    answers = dict(zip(asked.candidates, [GOOD, GOOD, GOOD, SKIP, SKIP, BAD, BAD, BAD], strict=True))
    verdict, _ = play(asked, answers.__getitem__)

    assert isinstance(verdict, Narrowed)
    assert (verdict.last_good, verdict.suspects) == ("c2", ("c3", "c4", "c5"))
    assert "2 candidates between the neighbours" in verdict.reason


def test_a_flag_that_became_thread_local_is_a_fix():
    """pytorch#168999: 2.9.1 bad 5/5, 2.10 bad 4/5, 2.12 good 0/20, asked as if newer were worse."""
    asked = problem(3, candidates=("2.9.1", "2.10.0", "2.12.0"), good="2.9.1", bad="2.12.0")
    verdict = next_step(asked, seen(f"2.9.1:bbbbb 2.10.0:bbbbg 2.12.0:{'g' * 20}"))

    assert isinstance(verdict, Found)
    assert (verdict.direction, verdict.first_bad, verdict.last_good) == ("fix", "2.10.0", "2.12.0")
    assert "reversed" in verdict.notes[0]


def test_a_range_that_is_good_everywhere_has_no_culprit():
    """benchmark#2050: noise opened issues for searches that had found nothing."""
    verdict = next_step(problem(5), seen(" ".join(f"c{place}:{'g' * 60}" for place in range(5))))

    assert isinstance(verdict, NoRegression)
    assert verdict.allowed_rate == pytest.approx(0.049, abs=0.002)


@pytest.mark.parametrize("word", ["b", "g"])
def test_ends_that_behave_alike_have_no_neighbours(word):
    """fiddle-core#15: every build failed and the tool answered with a system error."""
    verdict = next_step(problem(5), seen(f"c0:{word * 80} c4:{word * 80}"))

    assert isinstance(verdict, Contradiction if word == "b" else NoRegression)
    assert word == "g" or (verdict.endpoint == "c0" and "c0 80/80" in verdict.reason)


def test_bad_only_in_the_middle_releases():
    """pytorch#174051: 2.8 fast, 2.9.0 and 2.9.1 slow, 2.10 fast; no single first bad release tells that."""
    asked = problem(4, candidates=("2.8.0", "2.9.0", "2.9.1", "2.10.0"), good="2.8.0", bad="2.10.0")
    verdict = next_step(asked, seen("2.8.0:gggg 2.9.0:bbbb 2.9.1:bbbb 2.10.0:gggg"))

    assert isinstance(verdict, Contradiction)
    assert "bad at 2.9.0 4/4 .. 2.9.1 4/4, then good at 2.10.0 0/4" in verdict.reason
