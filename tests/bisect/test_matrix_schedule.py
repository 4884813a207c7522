"""Which cell runs next: breadth first, cheap first, the doubtful repeated, the baseline interleaved."""

from __future__ import annotations

from bisect.matrix import Blocked, CellRun, Rules, State, with_block, with_run
from bisect.matrix.axes import parse_budget
from bisect.matrix.recommend import Advice, recommend
from bisect.matrix.schedule import next_choice, plan, plan_text
from bisect.matrix.state import assess
from dataclasses import replace
from itertools import pairwise

import pytest

from .matrix_cells import OK, RACE, blocked, cell


def simulate(cells, truth, *, rules=None, limit=400, build_s=None):
    """Run the schedule to its end with an outcome a cell given by `truth(cell, run number)`; the order of the runs."""
    rules, build_s, order = rules or Rules(), dict(build_s or {}), []
    while (choice := next_choice(cells, rules, build_s=build_s, session="s")) is not None and len(order) < limit:
        key = choice.cell.key
        build_s.pop(key.environment, None)
        outcome, rate = truth(choice.cell, len(choice.cell.runs))
        run = CellRun(
            cell=key.digest,
            run=f"r{len(order)}",
            outcome=outcome,
            session="s",
            order=len(order),
            ktok_s=rate,
            seconds=20,
        )
        cells = with_run(cells, run)
        order.append(choice.cell)
    return cells, order


def always(outcome, rate=None):
    return lambda *_: (outcome, rate)


def wobbly(*cell_and_number):
    return OK, 10.0 + 0.01 * cell_and_number[1]


def grid(*names):
    return tuple(cell(name) for name in names)


def test_every_cell_is_looked_at_before_any_is_repeated():
    """One cell would be measured to perfection while the rest is unknown."""
    _, order = simulate(grid("a", "b", "c"), always(OK, 10.0), rules=Rules(interleave=99))

    assert {one.key.build for one in order[:3]} == {"a", "b", "c"}


def test_an_environment_that_is_built_comes_before_one_that_is_not():
    """A 5 GB build would be waited for while answers are at hand."""
    _, order = simulate(grid("a", "b", "c"), always(OK), build_s={"b": 300.0})

    assert [one.key.build for one in order].index("b") >= 2


def test_a_failing_cell_is_confirmed_and_then_left():
    """A cell that always crashes would eat the budget of those that need it."""
    cells, order = simulate(grid("a", "b"), lambda c, *_: (RACE if c.key.build == "b" else OK, None))

    assert [one.key.build for one in order].count("b") == 2
    assert len(cells[0].runs) == 6


def test_the_baseline_is_interleaved():
    """A baseline measured once at the start says nothing an hour later."""
    _, order = simulate(grid("a", "b", "c"), wobbly, rules=Rules(interleave=3))

    positions = [number for number, one in enumerate(order) if one.key.build == "a"]
    assert positions[0] == 0
    assert max(later - earlier for earlier, later in pairwise(positions)) <= 4


def test_nothing_is_left_when_every_cell_is_good_enough_or_blocked():
    """The loop would never end."""
    cells = (cell("a", [OK] * 6), blocked("b"))

    assert next_choice(cells, Rules(), build_s={}, session="s") is None
    assert plan(cells, Rules(), build_s={}).runs == 0


def test_the_schedule_has_no_memory():
    """A killed matrix must go on where it was: the same cells give the same choice."""
    cells, _ = simulate(grid("a", "b", "c"), always(OK), limit=7)

    first = next_choice(cells, Rules(), build_s={}, session="s")

    assert first == next_choice(cells, Rules(), build_s={}, session="s")


def test_adding_a_build_runs_only_its_row():
    """The rest of the matrix would be paid for again."""
    cells, _ = simulate(grid("a", "b"), always(OK))

    _, order = simulate((*cells, cell("new")), always(OK))

    assert {one.key.build for one in order} == {"new"}


def test_a_new_row_with_throughput_reruns_only_the_baseline_beside_it():
    """Its ratio needs a baseline of the same session, nothing else."""
    cells, _ = simulate(grid("a", "b"), wobbly)
    old = tuple(replace(one, runs=tuple(replace(run, session="earlier") for run in one.runs)) for one in cells)

    _, order = simulate((*old, cell("new")), wobbly)

    assert {one.key.build for one in order} == {"a", "new"}


def test_the_plan_counts_runs_builds_and_seconds():
    """Nobody starts a job whose cost is unknown (G11)."""
    estimate = plan(grid("a", "b"), Rules(interleave=4), build_s={"b": 100.0})

    assert estimate.runs == 12 + 3
    assert estimate.builds == 1
    assert estimate.seconds > 12 * 30 + 100


def test_blocked_cells_are_marked_and_cost_nothing():
    """An impossible environment would be downloaded first."""
    cells = grid("a", "b")
    marked = with_block(cells, frozenset({cells[1].key.digest}), Blocked(state=State.NOT_PUBLISHED, reason="no wheel"))

    _, order = simulate(marked, always(OK))

    assert {one.key.build for one in order} == {"a"}


def test_once_every_cell_was_looked_at_the_decisive_ones_come_first():
    """Eighteen minutes would give every cell two runs and the reader no answer."""

    def truth(one, *_):
        return (RACE if one.key.build == "b" and one.key.workaround == "none" else OK), None

    cells = tuple(cell(build, workaround=w) for build in ("a", "b", "c") for w in ("none", "lock"))
    rules = Rules(interleave=99)
    looked, order = simulate(cells, truth, rules=rules, limit=6)
    assert {(one.key.build, one.key.workaround) for one in order} == {
        (build, workaround) for build in ("a", "b", "c") for workaround in ("none", "lock")
    }

    after = []
    while len(after) < 5:
        choice = next_choice(looked, rules, build_s={}, session="s", current="a")
        after.append((choice.cell.key.build, choice.cell.key.workaround))
        run = replace(choice.cell.runs[0], run=f"x{len(after)}")
        looked = with_run(looked, run)

    assert len(set(after)) == 1
    assert after[0][0] != "a"
    assert recommend(assess(looked, rules), current="a", machine=cells[0].key.machine).advice is Advice.UPGRADE


def test_the_plan_lists_every_cell_and_why_one_cannot_run():
    """Nobody could see that the axes ask for a cell too many, or one too few."""
    cells = [cell("a"), cell("a", workaround="lock"), cell("a", cache="warm"), cell("b"), blocked("c"), cell("d")]

    lines = plan_text(
        cells, plan(cells, Rules(), build_s={}), sizes=[], free_bytes=0, budget=parse_budget("18m")
    ).splitlines()

    assert lines[0].startswith("6 cells, 1 of them impossible here; about ")
    assert lines[1:5] == [
        "  a: workaround none, lock (cold cache); none (warm cache)",
        "  b: workaround none (cold cache)",
        "  c: workaround none (cold cache); cannot run: driver too old: too old; unblock: update it",
        "  d: workaround none (cold cache)",
    ]
    assert lines[5].startswith("budget of one invocation (--budget): 18 minutes")


@pytest.mark.parametrize(("budget", "is_less"), [("1m", True), ("9h", False), ("1 run", True), ("999 runs", False)])
def test_a_budget_that_ends_before_the_plan_does_says_so(budget, is_less):
    """A job that must answer tonight would be planned with a budget that answers next week."""
    cells = grid("a", "b")
    text = plan_text(cells, plan(cells, Rules(), build_s={}), sizes=[], free_bytes=0, budget=parse_budget(budget))

    assert text.splitlines()[-1].endswith("the same command goes on") is is_less
