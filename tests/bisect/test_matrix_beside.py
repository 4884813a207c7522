"""Pairs of runs at the same time: when there is one, and a ratio only between the two of a pair."""

from __future__ import annotations

import math
import random
from bisect.matrix import Cell, CellRun, Rules, with_run
from bisect.matrix.beside import next_slot
from bisect.matrix.schedule import plan
from bisect.matrix.state import assess
from bisect.matrix.throughput import log_ratios, noise_of, ratio_of
from dataclasses import replace

import pytest

from .matrix_cells import OK, RACE, cell, key, steps


def run_of(one, slot, *, outcome=OK, rate=None, order=0):
    return CellRun(
        cell=one.digest,
        run=f"runs/{slot}-{one.build}-{order}",
        outcome=outcome,
        session="s1",
        beside=f"s1#{slot}",
        order=order,
        seconds=20.0,
        ktok_s=rate,
    )


def pairs(relative, *, slots, pace, noise, seed):
    """A baseline and one cell, side by side; the machine's pace differs from slot to slot by the factor `pace`."""
    rng = random.Random(seed)
    old, new = key("old"), key("new")
    runs = {old: [], new: []}
    for slot in range(slots):
        machine = 10 * math.exp(rng.gauss(0, math.log(pace)))
        for order, (one, rate) in enumerate(((old, 1.0), (new, relative))):
            measured = machine * rate * math.exp(rng.gauss(0, noise))
            runs[one].append(run_of(one, slot, rate=measured, order=2 * slot + order))
    return tuple(Cell(key=one, runs=tuple(found)) for one, found in runs.items())


def test_what_slows_the_machine_slows_both_and_cancels():
    """A neighbour that takes half of the CPU for a minute would hide a loss of 10 % in an interval of 60 %."""
    old, new = pairs(0.9, slots=6, pace=1.5, noise=0.01, seed=1)

    noise = noise_of((old, new), old)
    ratio = ratio_of(new, old, noise)

    assert noise.sd < 0.02
    assert ratio.low < 0.9 < ratio.high
    assert ratio.high - ratio.low < 0.08


def test_the_interval_of_pairs_holds_as_often_as_it_says():
    """Intervals that are too narrow name slowdowns that are none."""
    wrong = 0
    for seed in range(300):
        old, new = pairs(0.95, slots=6, pace=1.2, noise=0.05, seed=seed)
        ratio = ratio_of(new, old, noise_of((old, new), old))
        wrong += not ratio.low <= 0.95 <= ratio.high

    assert wrong <= 27  # 15 are expected; more than 27 have a chance below 0.2 %


def test_a_run_beside_anything_but_the_baseline_has_no_ratio():
    """Its neighbour may have ended at once or compiled longer: the machine was another one for it."""
    old, new, third = (key(name) for name in ("old", "new", "third"))
    alone = Cell(key=old, runs=(run_of(old, 0, rate=10.0),))
    both = Cell(key=new, runs=(run_of(new, 1, rate=9.0), run_of(new, 2, rate=9.0)))
    other = Cell(key=third, runs=(run_of(third, 1, rate=9.0), run_of(third, 2, rate=9.0)))

    assert log_ratios(both, alone) == ()
    assert {entry.ratio for entry in assess((alone, both, other), Rules()).assessments} == {None}


def test_the_baseline_beside_itself_is_the_noise():
    """Without it the first ratios of a session would have no noise to be judged by."""
    old = key("old")
    lone = replace(run_of(old, 1, rate=5.0, order=2), beside="")
    alone = Cell(key=old, runs=(run_of(old, 0, rate=10.0), run_of(old, 0, rate=11.0, order=1), lone))

    noise = noise_of((alone,), alone)

    assert noise.baseline_runs == 2
    assert noise.sd == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert noise.degrees == 1


def test_the_machine_that_slows_within_runs_is_no_drift_of_the_build():
    """Every pair would be called inconclusive on a laptop that gets warm; one that slows alone is."""
    old, new = pairs(0.8, slots=4, pace=1.0, noise=0.001, seed=2)
    noise = noise_of((old, new), old)

    def traced(one, later):
        times = tuple(0.1 if step < 20 else later for step in range(40))
        return replace(one, runs=tuple(replace(run, traces=(steps(*times),)) for run in one.runs))

    assert not ratio_of(traced(new, 0.15), traced(old, 0.15), noise).drift
    assert ratio_of(traced(new, 0.15), traced(old, 0.1), noise).drift


def simulate(cells, truth, *, rules=None, limit=200):
    """The slots of a matrix until nothing is left: the cells asked for in each, and the cells as they are then."""
    rules, slots, order = rules or Rules(), [], 0
    while len(slots) < limit:
        slot = next_slot(cells, rules, build_s={}, session="s1")
        if not slot:
            break
        slots.append([choice.cell.key for choice in slot])
        for one in slots[-1]:
            outcome, rate = truth(one, order)
            run = run_of(one, len(slots), outcome=outcome, rate=rate, order=order)
            cells = with_run(cells, run if len(slot) > 1 else replace(run, beside=""))
            order += 1
    return slots, cells


def racing(one, order):
    if one.workaround == "none":
        return RACE, None
    return OK, 10.0 * (1 + 0.01 * (order % 3))


GRID = tuple(cell(build, workaround=workaround) for build in ("a", "b", "c") for workaround in ("none", "lock"))


def named(slots):
    return [[(one.build, one.workaround) for one in slot] for slot in slots]


def test_whether_a_cell_fails_is_asked_of_runs_that_have_the_machine():
    """Threads that share their CPUs meet less often: a race would hide in the runs that are to show it."""
    slots, cells = simulate(GRID, racing)

    entries = {(entry.cell.key.build, entry.cell.key.workaround): entry for entry in assess(cells, Rules()).assessments}
    assert all(entry.is_settled for entry in entries.values())
    alone = [slot[0] for slot in named(slots) if len(slot) == 1]
    assert alone.count(("b", "lock")) == 6
    assert entries["b", "lock"].count == "0/6"
    assert {len(slot) for slot in named(slots) if any(workaround == "none" for _, workaround in slot)} == {1}


def test_every_measured_run_has_the_baseline_beside_it():
    """A ratio to anything else is none, and one to a baseline of another minute is noise."""
    slots, cells = simulate(GRID, racing)

    paired = [slot for slot in named(slots) if len(slot) == 2]
    assert paired[0] == [("a", "lock"), ("a", "lock")]
    assert all(slot[1] == ("a", "lock") for slot in paired)
    assert {slot[0] for slot in paired[1:]} == {("b", "lock"), ("c", "lock")}
    ratios = {entry.cell.key.build: entry.ratio for entry in assess(cells, Rules()).assessments if entry.ratio}
    assert ratios["b"].runs == sum(slot[0] == ("b", "lock") for slot in paired)


def test_a_clean_run_beside_another_is_no_evidence_and_a_failed_one_is():
    """`0/6` would be counted from runs that could hardly have failed."""
    clean = run_of(GRID[0].key, 1, rate=10.0)
    raced = run_of(GRID[0].key, 2, outcome=RACE, order=1)

    (both,) = with_run(with_run(GRID[:1], clean), raced)

    assert [run.run for run in both.telling] == [raced.run]


def test_pairs_are_made_no_more_often_than_the_rules_say():
    """On a machine whose noise no number of pairs overcomes the matrix would never end."""
    noisy = random.Random(3)

    slots, cells = simulate(GRID, lambda *_: (OK, 10.0 * math.exp(noisy.gauss(0, 0.5))))

    assert len(slots) < 200
    assert max(sum(bool(run.beside) for run in one.runs) for one in cells if one.key != GRID[0].key) <= 10


def test_the_plan_counts_both_runs_of_a_pair_and_its_time_once():
    """`20 minutes` would be promised for what takes 40, or the other way round."""
    trained = tuple(one for one in GRID if one.key.workaround == "lock")

    pairs_too, alternating = (plan(trained, Rules(), build_s={}, paired=paired) for paired in (True, False))

    assert alternating.runs == 18 + 18 // Rules().interleave
    assert pairs_too.runs == 18 + 2 * 4 * 2
    assert pairs_too.seconds == pytest.approx((18 + 2 * 4) * 30.0)
