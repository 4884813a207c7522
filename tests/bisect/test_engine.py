"""The next step of a search, by enumeration where it is small and by coins where it is noisy."""

from bisect.engine import next_step, useless
from bisect.engine.certain import next_certain_step
from bisect.model import Conclusion, Contradiction, Exhausted, Found, Narrowed, NoRegression, Observation, Probe
from bisect.throughput import next_step as next_speed_step
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .searches import BAD, GOOD, SKIP, coins, play, problem, seen


def _strings(size):
    """All N/Y/? strings with a good first, a bad last and no N after a Y."""
    for middle in product("N?Y", repeat=size - 2):
        text = "N" + "".join(middle) + "Y"
        if "N" not in text[text.index("Y") :]:
            yield text


def _expected(text):
    """Position of the first Y, and the unusable ones just before it."""
    first = text.index("Y")
    start = first
    while text[start - 1] == "?":
        start -= 1
    return list(range(start, first + 1))


@pytest.mark.parametrize("text", [text for size in range(2, 8) for text in _strings(size)])
def test_the_answer_is_the_first_bad_one_and_the_unusable_ones_before_it(text):
    """A hole next to the culprit would be answered with one innocent candidate."""
    asked = problem(len(text))
    answers = {
        name: {"N": GOOD, "Y": BAD, "?": SKIP}[letter] for name, letter in zip(asked.candidates, text, strict=True)
    }
    verdict, observations = play(asked, answers.__getitem__)
    suspects = _expected(text)

    assert verdict.last_good == f"c{suspects[0] - 1}"
    assert verdict.first_bad == f"c{suspects[-1]}"
    assert verdict.direction == "regression"
    assert isinstance(verdict, Found) == (len(suspects) == 1)
    if isinstance(verdict, Narrowed):
        assert verdict.suspects == tuple(f"c{position}" for position in suspects)
    assert sum(1 for run in observations if run.conclusion is SKIP) <= text.count("?")


@pytest.mark.parametrize("text", ["N??NY", "N?Y?Y", "NNNNY", "NYY??Y?Y", "N?NN?YY", "NNNN???YY"])
def test_a_fix_is_the_same_search_backwards(text):
    """The question `what fixed it` would be answered with the wrong neighbour."""
    backwards = text[::-1]
    asked = problem(len(text), good=f"c{len(text) - 1}", bad="c0")
    answers = {
        name: {"N": GOOD, "Y": BAD, "?": SKIP}[letter] for name, letter in zip(asked.candidates, backwards, strict=True)
    }
    verdict, _ = play(asked, answers.__getitem__)
    last_bad, first_good = backwards.rindex("Y"), backwards.index("N")

    assert (verdict.first_bad, verdict.last_good) == (f"c{last_bad}", f"c{first_good}")
    assert verdict.direction == "fix"
    assert verdict.notes == ()
    if isinstance(verdict, Narrowed):
        assert verdict.suspects == tuple(f"c{position}" for position in range(last_bad + 1, first_good + 1))


def test_both_endpoints_are_checked_before_anything_else():
    """A search would start between two endpoints that do not do what was claimed."""
    asked = problem(9)

    assert next_step(asked, []).candidate == "c8"
    assert next_step(asked, seen("c8:bb")).candidate == "c0"
    assert next_step(asked, seen("c8:bb c0:g c4:b")).candidate == "c0"


def test_an_order_against_the_claim_is_found_and_said():
    """Old bad and new good would be swapped silently, or end as `the good endpoint is bad`."""
    asked = problem(9)
    verdict, _ = play(asked, coins(asked, [1.0] * 5 + [0.0] * 4, seed=1))

    assert isinstance(verdict, Found)
    assert (verdict.direction, verdict.first_bad, verdict.last_good) == ("fix", "c4", "c5")
    assert "reversed" in verdict.notes[0]


def test_a_bad_endpoint_that_always_passes_does_not_reproduce():
    """A rare failure would be declared gone, or the search would go on for ever."""
    verdict, observations = play(problem(65), lambda _: GOOD)

    assert isinstance(verdict, NoRegression)
    assert "does not reproduce" in verdict.reason
    assert verdict.allowed_rate < 0.1
    assert len(observations) <= 150


def test_a_good_endpoint_that_always_fails_is_named():
    """Every candidate would be called bad, and the oldest blamed."""
    verdict, observations = play(problem(65), lambda _: BAD)

    assert isinstance(verdict, Contradiction)
    assert verdict.endpoint == "c0"
    assert len(observations) <= 30


@pytest.mark.parametrize("end", ["c0", "c4"])
def test_an_endpoint_that_cannot_be_run_is_named(end):
    """A search with one end unknown would blame whatever lies next to it."""
    verdict, _ = play(problem(5), lambda name: SKIP if name == end else (BAD if name == "c4" else GOOD))

    assert isinstance(verdict, Contradiction)
    assert verdict.endpoint == end
    assert "could not be tested" in verdict.reason


def test_equal_endpoints_cannot_differ():
    """A blame would fall between two names of the same code."""
    verdict = next_step(problem(3, equal=(("c0", "c1", "c2"),)), seen("c0:g c2:b"))

    assert isinstance(verdict, NoRegression)
    assert "same code" in verdict.reason


def test_equal_neighbours_are_one_candidate():
    """The same commit would be built twice, or blamed against itself."""
    asked = problem(7, equal=(("c2", "c3", "c4"),))
    verdict, observations = play(asked, coins(asked, [0, 0, 1, 1, 1, 1, 1], seed=1))

    assert (verdict.last_good, verdict.first_bad) == ("c1", "c2")
    assert {"c3", "c4"}.isdisjoint(run.candidate for run in observations)

    verdict, _ = play(asked, coins(asked, [0, 0, 0, 0, 0, 1, 1], seed=1))

    assert (verdict.last_good, verdict.first_bad) == ("c4", "c5")


def test_an_island_is_named():
    """Bad only in the middle would be averaged into one wrong change point, or into `nothing changed`."""
    island = next_step(problem(9), seen("c0:gggg c8:gggg c4:bbbb c3:bb c2:gg c6:gggg"))

    assert isinstance(island, Contradiction)
    assert "bad at c3 2/2 .. c4 4/4, then good at c6" in island.reason


def test_fixed_and_broken_again_is_named():
    """One of two regressions would be found by chance and the other never."""
    asked = problem(17)
    observations = seen("c0:ggg c16:bbb c4:bbb c8:ggg c12:bbb c6:bbb c10:ggg")

    assert isinstance(next_step(asked, observations), Contradiction)


@pytest.mark.parametrize("budget", [1, 3, 7, 60, 90])
def test_max_runs_is_never_overrun(budget):
    """A doubt about the endpoints, or a missing confirmation, would go on over the budget."""
    asked = problem(33, max_runs=budget)
    for seed in range(3):
        _, observations = play(asked, coins(asked, [0.05] * 20 + [0.12] * 13, seed=seed))

        assert len(observations) <= budget


def test_max_runs_ends_with_what_is_known():
    """A budget would be overrun, or end without the suspects."""
    asked = problem(65, max_runs=20)
    verdict, observations = play(asked, coins(asked, [0.0] * 30 + [0.3] * 35, seed=1))

    assert isinstance(verdict, Exhausted)
    assert len(observations) == 20
    assert "c30" in verdict.suspects


@pytest.mark.parametrize(
    ("beside", "never_run"),
    [pytest.param(f"c1:{'g' * 30}", "c38", id="bad one"), pytest.param(f"c38:{'b' * 30}", "c1", id="good one")],
)
def test_a_budget_that_ends_before_both_neighbours_were_run_claims_nothing(beside, never_run):
    """The suspects of a wide hole would be named at 97 % by its width alone, one neighbour never having been run."""
    hole = " ".join(f"c{place}:s" for place in range(2, 38))
    observations = seen(f"c0:{'g' * 30} {beside} {hole} c39:{'b' * 30}")
    ended = next_step(problem(40, max_runs=len(observations)), observations)
    goes_on = next_step(problem(40, max_runs=len(observations) + 1), observations, workers=3)

    assert isinstance(ended, Exhausted)
    assert ended.confidence > 0.95
    assert (goes_on.candidate, goes_on.also) == (never_run, ())
    assert goes_on.reason == (
        "both neighbours are confirmed before a claim; fewer probes than workers (1 for 3): "
        "nothing else is run before they have answered"
    )


@pytest.mark.parametrize(
    "observations",
    [
        pytest.param("c0:g c1:bbg", id="0 of 1 and 2 of 3"),
        pytest.param("c0:" + "g" * 20 + " c1:" + "g" * 18 + "bb", id="0 of 20 and 2 of 20"),
        pytest.param("c0:gggggggggg c1:gggggggggb", id="0 of 10 and 1 of 10"),
    ],
)
def test_thin_evidence_asks_for_more_runs(observations):
    """Two failures against none would print a culprit, or `no difference`."""
    assert isinstance(next_step(problem(2), seen(observations)), Probe)


def test_a_lucky_streak_is_no_claim():
    """Five failures in a row where a third fail would name c57 at 96 %, which only holds if nearly every run fails."""
    observations = seen("c0:gg c30:ggggg c46:ggggg c54:ggggg c56:gggggg c57:bb c59:b c64:bbgg")
    settled = observations + seen("c56:gggggg c57:bbb")

    assert isinstance(next_step(problem(65), observations), Probe)
    assert isinstance(next_step(problem(65), settled), Found)


def test_a_clean_streak_where_the_sides_may_be_close_is_no_claim():
    """None of 19 beside 5 of 10 would name c4, though a side that fails at .1 passes 19 times one time in seven."""
    observations = seen(f"c0:gg c3:{'g' * 17} c4:bbbggg c8:bbgg")
    settled = observations + seen(f"c3:{'g' * 15} c4:bbbggg")

    assert isinstance(next_step(problem(9), observations), Probe)
    assert isinstance(next_step(problem(9), settled), Found)


def test_a_rare_failure_is_doubted_for_as_long_as_many_runs_are_allowed():
    """Eighteen failures in 160 runs would end a search that was given 3,000 runs for a failure this rare."""
    rare = seen(f"c8:{'b' * 10}{'g' * 60} c4:{'b' * 3}{'g' * 27} c0:{'b' * 5}{'g' * 55}")
    often = seen(f"c8:{'b' * 25}{'g' * 45} c4:{'b' * 10}{'g' * 20} c0:{'b' * 15}{'g' * 45}")

    assert isinstance(next_step(problem(9, max_runs=3000), rare), Probe)
    assert isinstance(next_step(problem(9, max_runs=160), rare), Exhausted)
    assert isinstance(next_step(problem(9, max_runs=3000), often), Contradiction)


def test_rare_failures_are_not_called_alike_while_close_rates_explain_them():
    """A third of the searches at failure rates of .1 and .05 would end with `both ends behave alike`."""
    rare = seen(f"c8:{'b' * 20}{'g' * 180} c0:{'b' * 20}{'g' * 180}")
    rarer = seen(f"c8:{'b' * 90}{'g' * 810} c0:{'b' * 90}{'g' * 810}")
    often = seen(f"c8:{'b' * 60}{'g' * 140} c0:{'b' * 60}{'g' * 140}")

    assert isinstance(next_step(problem(9, max_runs=3000), rare), Probe)
    assert isinstance(next_step(problem(9, max_runs=3000), rarer), Contradiction)
    assert isinstance(next_step(problem(9, max_runs=3000), often), Contradiction)


def test_sides_that_fail_about_alike_end_after_150_runs():
    """A third of all runs failing everywhere would be searched for hundreds of runs, with a culprit by chance."""
    alike = f"c64:{'b' * 20}{'g' * 40} c32:{'b' * 8}{'g' * 22} c0:{'b' * 11}"
    clean = f"c64:{'b' * 20}{'g' * 40} c32:{'b' * 3}{'g' * 27} c0:{'b' * 2}{'g' * 58}"
    verdict = next_step(problem(65), seen(alike + "g" * 49))

    assert isinstance(verdict, Contradiction)
    assert verdict.endpoint == "c0"
    assert verdict.reason.startswith(
        "150 runs do not tell a good side (11 of 60 runs failed) from a bad one (28 of 90)"
    )
    assert isinstance(next_step(problem(65), seen(alike + "g" * 48)), Probe)
    assert isinstance(next_step(problem(65), seen(clean)), Probe)


def test_two_sides_are_not_called_alike_while_a_change_is_likelier():
    """Half the searches at failure rates of .6 and .3 ended after 150 runs as a contradiction that was none."""
    likelier = seen(f"c0:{'b' * 21}{'g' * 39} c3:{'b' * 24}{'g' * 16} c4:{'b' * 28}{'g' * 22}")
    step = next_step(problem(5), likelier)

    assert isinstance(step, Probe)
    assert step.posterior.none < 0.05


def test_nothing_is_useless_or_a_crash_where_no_candidate_answered_yet():
    """Both ends of two candidates skipped once, one of them under way again: the search would end in a traceback."""
    assert useless(problem(2), seen("c0:s c1:s"), ("c1",)) == ()


@pytest.mark.parametrize(
    ("observations", "unknown"),
    [
        pytest.param("c4:" + "bg" * 75, "c0", id="no good end"),
        pytest.param("c2:" + "bg" * 75, "c0 and c4", id="neither end"),
        pytest.param("c0:" + "bg" * 75, "c4", id="no bad end"),
    ],
)
def test_ends_that_were_never_run_are_not_alike(observations, unknown):
    """A budget spent elsewhere ended in a division by zero, or in `both ends behave alike (c0 75/150, c4 0/0)`."""
    verdict = next_step(problem(5, max_runs=100), seen(observations))

    assert isinstance(verdict, Exhausted)
    assert verdict.reason.endswith(unknown)


def test_no_failure_in_five_runs_of_the_bad_end_is_not_good():
    """Five clean runs of a rare failure would declare every build good."""
    step = next_step(problem(9), seen("c0:ggggg c8:ggggg"))

    assert isinstance(step, Probe)
    assert step.candidate == "c8"


def test_a_cached_candidate_near_the_best_one_is_preferred():
    """A 5 GB build would be made for a hair's breadth of information."""
    observations = seen("c0:ggg c64:bbb")
    fresh = next_step(problem(65), observations).candidate
    cached = next_step(problem(65, cached=frozenset({"c27"})), observations).candidate

    assert fresh != "c27"
    assert cached == "c27"


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.data())
def test_a_deterministic_search_is_exact(size, data):
    """Any change point of any size would be missed by one."""
    first = data.draw(st.integers(1, size - 1))
    asked = problem(size)
    verdict, observations = play(asked, coins(asked, [0.0] * first + [1.0] * (size - first), seed=1))

    assert isinstance(verdict, Found)
    assert verdict.first_bad == f"c{first}"
    assert len(observations) <= 30


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 30).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.tuples(st.integers(0, size - 1), st.sampled_from("gbs")), max_size=60)
        )
    )
)
def test_any_observations_have_a_next_step_with_a_posterior(case):
    """Contradictory or one-sided observations made by hand would crash the search."""
    size, runs = case
    observations = [run for place, word in runs for run in seen(f"c{place}:{word}")]
    step = next_step(problem(size), observations)
    posterior = step.posterior

    assert [name for name, _ in posterior.by_candidate] == [f"c{place}" for place in range(size)]
    assert posterior.none + sum(mass for _, mass in posterior.by_candidate) == pytest.approx(1.0)
    assert step == next_step(problem(size), observations)
    assert step == next_step(problem(size), observations[::-1])


@pytest.mark.parametrize("workers", [3, 4, 16])
def test_several_workers_get_several_probes(workers):
    """Three of four nodes would idle, or all ask the same."""
    step = next_step(problem(65), seen("c0:ggg c64:bbb"), workers=workers)

    assert len((step.candidate, *step.also)) == workers
    assert len({step.candidate, *step.also}) >= 2


def test_probes_under_way_are_not_asked_again():
    """A free worker would repeat the questions of the busy ones."""
    observations = seen("c0:ggg c64:bbb")
    first = next_step(problem(65), observations, workers=3)
    busy = (first.candidate, *first.also)

    assert next_step(problem(65), observations, pending=busy).candidate not in busy


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 8), st.integers(1, 9), st.data())
def test_fewer_probes_than_workers_always_say_why(size, workers, data):
    """Idle nodes would look like a fault of the scheduler: every engine, whatever was seen and is under way."""
    place = st.integers(0, size - 1)
    runs = data.draw(st.lists(st.tuples(place, st.sampled_from("gbs")), max_size=20))
    pending = [f"c{number}" for number in data.draw(st.lists(place, max_size=3))]
    verdicts = [run for number, word in runs for run in seen(f"c{number}:{word}")]
    values = [replace(run, value=-0.1 if run.conclusion is BAD else 0.0) for run in verdicts]
    asked = problem(size)
    for decide, observations in ((next_step, verdicts), (next_certain_step, verdicts), (next_speed_step, values)):
        step = decide(asked, observations, workers=workers, pending=pending)
        if isinstance(step, Probe):
            probes = 1 + len(step.also)
            assert (probes < workers) == (f"fewer probes than workers ({probes} for {workers}): " in step.reason)


def test_endpoint_runs_under_way_are_counted():
    """Four free workers would each ask for the same two runs of an endpoint."""
    first = next_step(problem(9), [], workers=2)
    second = next_step(problem(9), [], workers=2, pending=(first.candidate, *first.also))

    assert (first.candidate, *first.also) == ("c8", "c8")
    assert (second.candidate, *second.also) == ("c0", "c0")


def test_runs_that_can_no_longer_tell_anything_may_be_cancelled():
    """Jobs would hold nodes for candidates far from where the change must be, or after the verdict."""
    observations = seen("c0:gggg c64:bbbb c40:bbbb c24:gggg")
    settled = observations + seen("c31:gggggggg c32:bbbbbbbb")

    assert useless(problem(65), observations, ("c5", "c32", "c60")) == ("c5", "c60")
    assert useless(problem(65), settled, ("c5", "c32")) == ("c5", "c32")


def test_an_end_that_answers_once_and_then_never_again_is_named():
    """It was asked for its second answer for ever."""
    asked = problem(8)
    once = seen("c0:gg c7:b")
    silent = [Observation(candidate="c7", conclusion=Conclusion.SKIP)]

    assert next_step(asked, once + 19 * silent).candidate == "c7"
    verdict = next_step(asked, once + 20 * silent)

    assert isinstance(verdict, Contradiction)
    assert "said something in only 1 runs and nothing in 20" in verdict.reason
