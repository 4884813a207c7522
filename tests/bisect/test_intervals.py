"""Counts are turned into exact statements about rates."""

from bisect.intervals import allowed_rate, clean_runs_needed, clopper_pearson, fisher_more, means_with_intervals

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

counts = st.integers(1, 200).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs)))


@given(counts)
def test_the_interval_is_scipys_exact_one(count):
    """A wrong tail or a wrong parameter would print intervals that cover too rarely."""
    failures, runs = count
    expected = stats.binomtest(failures, runs).proportion_ci(0.95, method="exact")

    assert clopper_pearson(failures, runs) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_no_run_says_nothing():
    """A candidate without a run would look measured."""
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert allowed_rate(0, 0) == 1.0


def test_the_rule_of_three():
    """`0 of n` would read as a proof that nothing fails."""
    assert allowed_rate(0, 59) == pytest.approx(0.05, abs=0.001)
    assert clean_runs_needed(0.05) == 59
    assert clean_runs_needed(0.3) == 9
    assert clean_runs_needed(0.1) == 29
    assert clean_runs_needed(1.0) == 1


@given(st.floats(0.01, 0.99))
def test_the_runs_needed_are_the_fewest_that_exclude_the_rate(rate):
    """A plan would ask for one run too few, or for more than needed."""
    needed = clean_runs_needed(rate)

    assert allowed_rate(0, needed) <= rate + 1e-9
    assert needed == 1 or allowed_rate(0, needed - 1) > rate - 1e-9


@given(counts, counts)
def test_fisher_agrees_with_scipy(left, right):
    """2 of 3 against 0 of 1 would count as evidence."""
    table = [[left[0], left[1] - left[0]], [right[0], right[1] - right[0]]]

    assert fisher_more(*left, *right) == pytest.approx(stats.fisher_exact(table, "greater")[1], abs=1e-9)


@pytest.mark.parametrize(("failures", "runs"), [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(failures, runs):
    """A swapped pair of arguments would give a plausible interval."""
    with pytest.raises(ValueError, match="failures in"):
        clopper_pearson(failures, runs)


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_a_rate_that_needs_no_number_of_runs_is_refused(rate):
    """Rate zero would ask for infinitely many runs."""
    with pytest.raises(ValueError, match="rate lies"):
        clean_runs_needed(rate)


def test_one_group_has_students_interval():
    """A quantile of the wrong tail or of too many degrees of freedom would make a ratio look sure."""
    values = [0.01, 0.03, -0.02, 0.04]
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))

    ((first, mean, last),) = means_with_intervals([values])

    assert (first, mean, last) == pytest.approx((low, 0.015, high))


def test_a_single_value_borrows_the_scatter_of_the_others():
    """A build measured once would have no interval, and would be read as exact."""
    (pair, empty, single) = means_with_intervals([[0.0, 2.0], [], [5.0]])

    assert pair == pytest.approx((1 - 12.706, 1, 1 + 12.706), abs=0.01)
    assert empty is None
    assert single == pytest.approx((5 - 17.97, 5, 5 + 17.97), abs=0.01)
    assert means_with_intervals([[1.0], [2.0]]) == [None, None]
