"""Two runs at a time: what runs beside what, and a ratio only between the two of a pair."""

from __future__ import annotations

import math
import random
from bisect.matrix import Cell, CellRun, Rules, State, with_run
from bisect.matrix_beside import beside
from bisect.matrix_schedule import next_choice, plan
from bisect.matrix_state import assess
from bisect.matrix_throughput import log_ratios, noise_of, ratio_of
from dataclasses import replace

import pytest

from .matrix_cells import OK, RACE, cell, key, steps

SHARED = {"platform": "linux-x86_64 2 CPUs, 2 runs at a time"}


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
    old, new = key("old", **SHARED), key("new", **SHARED)
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
    """The variance of a pair is that of two runs; half of it would be wrong in one of six matrices."""
    wrong = 0
    for seed in range(300):
        old, new = pairs(0.95, slots=6, pace=1.2, noise=0.05, seed=seed)
        ratio = ratio_of(new, old, noise_of((old, new), old))
        wrong += not ratio.low <= 0.95 <= ratio.high

    assert wrong <= 27  # 15 are expected; more than 27 have a chance below 0.2 %


def test_a_run_beside_anything_but_the_baseline_has_no_ratio():
    """Its neighbour may have ended at once or compiled longer: the machine was another one for it."""
    old, new, third = (key(name, **SHARED) for name in ("old", "new", "third"))
    alone = Cell(key=old, runs=(run_of(old, 0, rate=10.0),))
    both = Cell(key=new, runs=(run_of(new, 1, rate=9.0), run_of(new, 2, rate=9.0)))
    other = Cell(key=third, runs=(run_of(third, 1, rate=9.0), run_of(third, 2, rate=9.0)))

    assert log_ratios(both, alone) == ()
    assert {entry.ratio for entry in assess((alone, both, other), Rules()).assessments} == {None}


def test_the_baseline_beside_itself_is_the_noise():
    """Without it the first ratios of a session would have no noise to be judged by."""
    old = key("old", **SHARED)
    alone = Cell(key=old, runs=(run_of(old, 0, rate=10.0), run_of(old, 0, rate=11.0, order=1)))

    noise = noise_of((alone,), alone)

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
    """The slots of a matrix, two runs each, until nothing is left: (builds in each slot, cells as they are then)."""
    rules, slots, order = rules or Rules(), [], 0
    while len(slots) < limit:
        first = next_choice(cells, rules, build_s={}, session="s1")
        if first is None:
            break
        second = beside(cells, rules, first.cell.key, session="s1")
        chosen = [choice.cell for choice in (first, second) if choice is not None]
        slots.append([(one.key.build, one.key.workaround) for one in chosen])
        for one in chosen:
            outcome, rate = truth(one, order)
            cells = with_run(cells, run_of(one.key, len(slots), outcome=outcome, rate=rate, order=order))
            order += 1
    return slots, cells


def racing(one, order):
    if one.key.workaround == "none":
        return RACE, None
    return OK, 10.0 * (1 + 0.01 * (order % 3))


GRID = tuple(
    cell(build, workaround=workaround, **SHARED) for build in ("a", "b", "c") for workaround in ("none", "lock")
)


def test_every_measured_run_has_the_baseline_beside_it():
    """A run whose neighbour is another build or dead has no ratio; once the ratio is good enough, none is needed."""
    slots, cells = simulate(GRID, racing)

    entries = {(entry.cell.key.build, entry.cell.key.workaround): entry for entry in assess(cells, Rules()).assessments}
    assert all(entry.is_settled for entry in entries.values())
    assert entries["b", "lock"].ratio.runs >= 2
    later = [slot for slot in slots if ("b", "lock") in slot][1:]
    assert all(("a", "lock") in slot for slot in later[: entries["b", "lock"].ratio.runs - 1])


def test_runs_that_fail_early_share_their_slots():
    """The second half of the machine would stand idle while failures are confirmed."""
    slots, _ = simulate(GRID, racing)

    failing = [slot for slot in slots if any(workaround == "none" for _, workaround in slot)]
    assert sum(len(slot) == 2 for slot in failing) >= len(failing) - 1
    assert len(slots) < sum(len(slot) for slot in slots) * 0.6


def test_a_session_begins_with_the_baseline_beside_itself():
    """There would be no A/A noise until the third pair."""
    trained = tuple(one for one in GRID if one.key.workaround == "lock")

    slots, _ = simulate(trained, racing)

    assert slots[0] == [("a", "lock"), ("a", "lock")]


def test_the_plan_counts_the_baseline_beside_each_measured_run():
    """`20 minutes` would be promised for what takes 40, or the other way round."""
    rules = Rules(allowed_rate=0.4)
    trained = tuple(one for one in GRID if one.key.workaround == "lock")

    two, one = (plan(trained, rules, build_s={}, at_once=at_once) for at_once in (2, 1))

    assert two.runs == 36
    assert one.runs == 18 + 18 // rules.interleave
    assert two.seconds == pytest.approx(18 * 30.0)


def test_a_failing_cell_is_said_to_fail_however_it_was_paired():
    """A race beside a measured run is a race."""
    _, cells = simulate(GRID, racing)

    found = {(e.cell.key.build, e.cell.key.workaround): e.state for e in assess(cells, Rules()).assessments}
    assert {state for (_, workaround), state in found.items() if workaround == "none"} == {State.RACE}
