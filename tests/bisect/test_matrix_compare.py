"""What changed since the last matrix, and whether noise explains it."""

from __future__ import annotations

from bisect.matrix import Cell, Rules, State
from bisect.matrix.compare import Explanation, compare
from bisect.matrix.state import assess
from dataclasses import replace

from .matrix_cells import OK, RACE, blocked, cell, session


def changes(old, new):
    return compare(assess(old, Rules()).assessments, assess(new, Rules()).assessments)


def why(old, new):
    (change,) = changes([old], [new])
    return change.explanation


def test_one_failure_more_in_six_runs_is_explained_by_noise():
    """0/6 then 1/6 would be reported as a regression."""
    assert why(cell("a", [OK] * 6), cell("a", [OK] * 5 + [RACE])) is Explanation.NOISE


def test_six_failures_of_six_after_none_are_not():
    """A real break would be shrugged off."""
    assert why(cell("a", [OK] * 6), cell("a", [RACE] * 6)) is Explanation.CHANGED


def test_equal_cells_are_the_same():
    """Every report would be full of changes."""
    assert why(cell("a", [OK] * 6), cell("a", [OK] * 6)) is Explanation.SAME
    assert why(blocked("a"), blocked("a")) is Explanation.SAME


def test_availability_and_coverage_are_their_own_changes():
    """`not tested` to `ok` is no improvement of torch."""
    assert why(cell("a"), cell("a", [OK])) is Explanation.FIRST_RESULT
    assert why(cell("a", [OK]), cell("a")) is Explanation.NO_RESULT
    assert why(blocked("a", State.NOT_PUBLISHED), cell("a", [OK])) is Explanation.AVAILABILITY


def test_another_failure_in_every_run_is_a_change_though_the_counts_are_equal():
    """2/2 race and 2/2 segfault have the same count."""
    assert why(cell("a", [RACE] * 2), cell("a", ["segfault"] * 2)) is Explanation.CHANGED


def test_degradation_that_came_is_a_change_though_nothing_failed():
    """Dense fallback passes every run."""
    plain = cell("a", [OK] * 3)
    dense = replace(plain, runs=tuple(replace(run, dense_calls=9) for run in plain.runs))

    assert why(plain, dense) is Explanation.CHANGED


def test_a_slowdown_beyond_both_intervals_is_a_change():
    """Throughput would only ever be looked at by eye."""
    before = session({"base": 10.0, "a": 10.0}, rounds=6, noise=0.005)
    after = session({"base": 10.0, "a": 9.0}, rounds=6, noise=0.005, seed=5)
    again = session({"base": 10.0, "a": 10.0}, rounds=6, noise=0.005, seed=7)

    assert changes(before, after)[1].explanation is Explanation.CHANGED
    assert changes(before, again)[1].explanation in (Explanation.SAME, Explanation.NOISE)


def test_new_and_dropped_cells_are_listed():
    """A cell that vanished would be taken for fine."""
    found = changes([cell("a", [OK]), cell("gone", [OK])], [cell("a", [OK]), cell("new", [OK])])

    assert [change.explanation for change in found] == [Explanation.SAME, Explanation.NEW, Explanation.GONE]


def test_what_else_differs_is_said_beside_the_change():
    """Another driver, lock or benchmark means that the question was another one."""
    old = cell("a", [OK] * 6)
    new = cell("a", [RACE] * 6, driver="580.1", gpu="1x H200", benchmark="c" * 12)

    (change,) = changes([old], [new])

    assert {text.split(" differs")[0] for text in change.also} == {"GPU", "driver", "benchmark"}


def test_many_cells_are_not_many_chances_of_a_false_alarm():
    """With forty cells one p-value below five percent is expected."""
    old = [cell(f"b{number}", [OK] * 8) for number in range(40)]
    new = [cell(f"b{number}", [OK] * 4 + [RACE] * 4 if number == 3 else [OK] * 8) for number in range(40)]

    assert changes(old, new)[3].explanation is Explanation.NOISE
    assert (
        changes(old[3:4], new[3:4])[0].explanation is Explanation.NOISE or changes(old[3:4], new[3:4])[0].p_value > 0.05
    )


def test_the_better_tested_copy_of_a_question_is_compared():
    """An empty cell of another machine would hide the result."""
    empty = Cell(key=replace(cell("a").key, node="n9"))

    assert changes([cell("a", [OK] * 6)], [cell("a", [RACE] * 6), empty])[0].explanation is Explanation.CHANGED
