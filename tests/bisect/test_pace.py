"""The pace of a run, on the step times of public reports (E12 to E15)."""

import math
from bisect.model import Conclusion, Exhausted, Found, NoRegression, Observation
from bisect.pace import drift_of, log_ratio, pace_of
from bisect.result import ThreadRecord, ThroughputRecord, TrainResult
from bisect.throughput import next_step

import pytest

from .searches import problem


def _run(*threads, warmup, ktok_s=10.0, compiles=()):
    drafters = tuple(
        ThreadRecord(
            name=f"drafter-{number}",
            role="drafter",
            steps=len(times),
            step_times_s=tuple(times),
            step_compiles=tuple(int(step in compiles) for step in range(len(times))),
        )
        for number, times in enumerate(threads)
    )
    speed = ThroughputRecord(warmup_steps=warmup, ktok_s=ktok_s)
    return TrainResult(
        schema=1, kind="train", finished=True, phase="finished", config={}, threads=drafters, throughput=speed
    )


def test_the_ratio_of_two_runs_is_a_logarithm():
    """So that a loss and the gain that undoes it add up to nothing."""
    fast, slow = (pace_of(_run([0.1] * 9, warmup=3, ktok_s=rate)) for rate in (2.0, 1.0))

    assert log_ratio(fast, slow) == pytest.approx(math.log(2))
    assert log_ratio(slow, fast) == pytest.approx(-math.log(2))


def test_steps_of_the_warm_up_give_no_rate():
    """One compiled step of 87 s and two of 0.4 s would be printed as the throughput of a build (E13)."""
    assert pace_of(_run([87.0, 0.4, 0.4], warmup=1)) is None
    assert pace_of(_run([87.0, 0.4, 0.4, 0.4], warmup=1)) is not None


def test_a_thread_that_died_in_its_warm_up_gives_no_rate():
    """The others share its processor and look faster."""
    assert pace_of(_run([0.1] * 20, [0.1] * 4, warmup=3)) is None


def test_stalls_are_told_apart_from_the_pace():
    """Six stalls of 8 s in 100 steps of 0.5 s: the steady rate is unchanged and half of the time is lost (E14)."""
    times = [8.0 if step % 16 == 5 else 0.5 for step in range(100)]
    stalling, smooth = pace_of(_run(times, warmup=3)), pace_of(_run([0.5] * 100, warmup=3))

    assert log_ratio(stalling, smooth) == 0.0
    assert stalling.stalled == pytest.approx(0.52, abs=0.03)
    assert smooth.stalled == 0.0


def test_a_throttling_gpu_shows_as_drift():
    """1425 falls to 1237 within the run (E15)."""
    falling = [1 / 1425] * 20 + [1 / 1237] * 20

    assert pace_of(_run(falling, falling, warmup=0)).drift == pytest.approx(-0.13, abs=0.005)
    assert drift_of([1.0] * 5) is None


def test_compilations_are_no_drift():
    """Every run compiles more in its first half."""
    times = [9.0 if step < 8 else 0.5 for step in range(24)]

    assert pace_of(_run(times, warmup=1, compiles=range(8))).drift == 0.0


def _observations(sizes, *, drift=None, stalled=0.0):
    """Five pairs of each candidate, a little apart."""
    return [
        Observation(
            candidate=name,
            conclusion=Conclusion.GOOD,
            value=math.log1p(change) + noise,
            drift=drift,
            stalled=stalled if change or name == "c4" else 0.0,
        )
        for name, change in sizes.items()
        for noise in (-0.004, -0.002, 0.0, 0.002, 0.004)
    ]


def test_a_drift_larger_than_the_loss_makes_a_search_inconclusive():
    """The build measured hot would be the culprit (E15)."""
    sizes = {"c0": 0.0, "c1": 0.0, "c2": -0.06, "c3": -0.06, "c4": -0.06}

    calm = next_step(problem(5), _observations(sizes, drift=-0.01))
    hot = next_step(problem(5), _observations(sizes, drift=-0.13))

    assert isinstance(calm, Found)
    assert calm.first_bad == "c2"
    assert isinstance(hot, Exhausted)
    assert "-13.0 % within a run" in hot.reason
    assert "-6.0 % between the builds" in hot.reason


def test_no_loss_of_the_steady_rate_is_not_the_whole_answer():
    """`no change` alone would send a cluster to a build that recompiles half of the time (E14)."""
    sizes = dict.fromkeys(("c0", "c1", "c2", "c3", "c4"), 0.0)
    quiet, stalling = (next_step(problem(5), _observations(sizes, stalled=part) * 6) for part in (0.0, 0.49))

    assert isinstance(quiet, NoRegression)
    assert isinstance(stalling, NoRegression)
    assert "stands still" not in quiet.reason
    assert "c4 stands still for 49 % more" in stalling.reason
