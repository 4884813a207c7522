"""Throughput against an interleaved baseline: real differences are found, phantoms are not."""

from __future__ import annotations

from bisect.matrix import Rules, State
from bisect.matrix.state import assess
from bisect.matrix.throughput import log_ratios, noise_of, ratio_of, stalls_of, steady_steps, within_run_drift
from dataclasses import replace

import pytest

from .matrix_cells import OK, cell, session, steps


def states(cells):
    return [entry.state for entry in assess(cells, Rules()).assessments]


def test_a_one_percent_loss_is_found_under_a_tenth_of_a_percent_noise():
    """A fixed five percent threshold misses a real regression of 1.1 % (E01)."""
    cells = session({"0311": 1469.5 / 1486.7 * 100, "0310": 100.0, "0312": 98.85}, rounds=4, noise=0.001, seed=1)

    ratio = ratio_of(cells[2], cells[1], noise_of(cells, cells[1]))

    assert ratio is not None
    assert ratio.high < 1
    assert ratio.value == pytest.approx(0.9885, abs=0.002)


def test_a_phantom_under_much_noise_is_not_found():
    """Identical code differs by 15 % between two runs on a shared machine (E16)."""
    wrong = 0
    for seed in range(40):
        cells = session({"a": 100.0, "b": 100.0}, rounds=4, noise=0.2, seed=seed)
        wrong += State.SLOWER in states(cells)

    assert wrong <= 3


def test_twelve_equal_builds_are_all_ok():
    """Differences within one percent would paint cells red (E17)."""
    rates = {f"b{number}": 100 * (1 + shift / 100) for number, shift in enumerate([0, 0.5, -0.5, 0.3, -0.95, 0.8])}
    cells = session(rates, rounds=3, noise=0.02, seed=3, every=3)

    assert set(states(cells)) == {State.OK}


def test_one_run_a_side_decides_nothing():
    """A single pair would be called a regression (E16)."""
    old, new = cell("cu128", [OK], ktok=[10.0]), cell("cu130", [OK], ktok=[7.0])

    entry = assess((old, new), Rules()).assessments[1]

    assert entry.ratio is None
    assert entry.state is State.OK


def test_a_drift_of_the_machine_cancels():
    """A node that slows by 20 % during the session would make the later build look slow."""
    cells = session({"a": 100.0, "b": 100.0, "c": 95.0}, rounds=5, noise=0.004, drift=-0.2, seed=2)

    entries = assess(cells, Rules()).assessments

    assert entries[1].state is State.OK
    assert entries[2].state is State.SLOWER
    assert entries[2].ratio.value == pytest.approx(0.95, abs=0.01)


def test_intervals_hold_for_all_cells_together():
    """With thirty cells at 95 % each, one or two would be red by chance."""
    false_alarms = 0
    for seed in range(20):
        rates = {f"b{number}": 100.0 for number in range(12)}
        false_alarms += State.SLOWER in states(session(rates, rounds=3, noise=0.03, seed=seed, every=4))

    assert false_alarms <= 2


def test_a_rate_that_falls_within_the_run_makes_the_figure_inconclusive():
    """A throttling GPU goes from 1425 to 1237 in one run; the build measured hot would be blamed (E15)."""
    old, new = session({"cu128": 10.0, "cu130": 9.5}, rounds=5, noise=0.005)
    falling = steps(*[1.0] * 20, *[1425 / 1237] * 20)
    hot = replace(new, runs=tuple(replace(run, traces=(falling,)) for run in new.runs))

    entry = assess((old, hot), Rules()).assessments[1]

    assert within_run_drift(falling, warmup=0) == pytest.approx(-0.13, abs=0.01)
    assert entry.ratio.drift
    assert entry.state is State.OK
    assert "inconclusive" in assess((old, hot), Rules()).assessments[1].label or entry.ratio.drift


def test_runs_of_different_sessions_are_not_paired():
    """Yesterday's baseline on a warm machine says nothing about today's run."""
    old, new = cell("cu128", [OK, OK], ktok=[10.0, 10.0]), cell("cu130", [OK, OK], ktok=[9.0, 9.0])
    later = replace(new, runs=tuple(replace(run, session="s2") for run in new.runs))

    assert log_ratios(new, old) != ()
    assert log_ratios(later, old) == ()


def test_runs_far_from_any_baseline_run_are_not_paired():
    """The machine may have changed in between."""
    old, new = cell("cu128", [OK, OK], ktok=[10.0, 10.0]), cell("cu130", [OK, OK], ktok=[9.0, 9.0])
    far = replace(new, runs=tuple(replace(run, order=run.order + 50) for run in new.runs))

    assert log_ratios(far, old) == ()


def test_failed_runs_give_no_throughput():
    """A run that crashed after two quick steps would be the fastest."""
    old = cell("cu128", [OK, OK, OK], ktok=[10.0, 10.1, 9.9])
    new = cell("cu130", ["fx_flag_race", OK, OK], ktok=[99.0, 10.0, 10.0])

    assert len(log_ratios(new, old)) == 2


def test_stalls_and_short_runs_are_measured_on_the_steady_part_only():
    """The compilation of the first step would count as a stall."""
    run = replace(cell(outcomes=[OK]).runs[0], traces=(steps(87.0, 0.4, 0.4, 0.4, 0.4),), warmup_steps=1)

    assert stalls_of(run) is None
    assert steady_steps(run) == 4
