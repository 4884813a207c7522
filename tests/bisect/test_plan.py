"""The plan before a search and what is said to be left during it: right order of magnitude, never a promise."""

from bisect.model import Conclusion, Observation, Posterior, Problem
from bisect.plan import capacity, expected_pairs, expected_runs, left_of, make_plan, set_runs

import pytest

NAMES = tuple(f"c{number:02d}" for number in range(64))


def problem(**fields):
    return Problem(**{"candidates": NAMES, "good": NAMES[0], "bad": NAMES[-1], **fields})


def plan(**fields):
    values = {"certain": False, "run_s": 50.0, "download_bytes": 10**9, "disk_bytes": 5 * 10**9, "keep": 6}
    values["free_bytes"] = 10**12
    return make_plan(problem(), **{**values, **fields})


@pytest.mark.parametrize(("size", "rate", "measured"), [(64, 1.0, 14.8), (64, 0.3, 81), (64, 0.1, 236), (16, 0.3, 64)])
def test_expected_runs_are_near_what_was_measured(size, rate, measured):
    """A plan off by a factor of two is worse than none: people decide overnight or not by it."""
    assert measured / 1.5 < expected_runs(size, rate) < measured * 1.5


@pytest.mark.parametrize(("size", "ratio", "measured"), [(64, 1.77, 28), (5, 0.84, 49)])
def test_expected_pairs_are_near_what_was_measured(size, ratio, measured):
    """5 % under 2 % noise and drift, simulated; 6.3 % where one pair is good to 7.5 %, on real builds."""
    assert measured / 1.5 < expected_pairs(size, ratio) < measured * 1.5


@pytest.mark.parametrize(
    ("size", "rate", "measured"),
    [(4, 1.0, 10.0), (16, 1.0, 14.5), (40, 1.0, 18.2), (4, 0.3, 40), (40, 0.3, 62), (4, 0.1, 161), (40, 0.1, 217)],
)
def test_the_runs_of_a_package_search_are_near_what_was_simulated(size, rate, measured):
    """Six or three searches of each for one guilty package; people decide overnight or not by the plan."""
    assert measured / 1.5 < set_runs(size, rate) < measured * 1.5


def test_the_plan_for_throughput_counts_pairs():
    """`if it fails in 30 % of runs` says nothing to someone who looks for a loss of throughput."""
    found = plan(throughput=True)

    (line,) = (line for line in found.lines() if "pairs of runs" in line)
    assert "if a loss is 1 times the noise of one; at most" in line
    assert "fails in" not in line
    assert all(each > 2 * 50.0 * count for each, (_, count) in zip(found.seconds, found.pairs, strict=True))
    assert found.as_json()["runs"] == []


def test_the_time_is_told_for_each_failure_rate():
    """`about 7 min` is that of a build that always fails; a rare race takes an hour."""
    found = plan()
    (line,) = (line for line in found.lines() if line.endswith(" min"))

    assert len(found.seconds) == len(found.runs) == 3
    assert line.count(" or ") == 2
    assert found.as_json()["seconds_each"][2] - found.as_json()["seconds_each"][0] == pytest.approx(
        50.0 * (found.runs[2][1] - found.runs[0][1]), abs=1
    )


def test_one_build_is_not_told_as_several():
    """`about 1 builds` makes a reader doubt the number."""
    sizes = {"run_s": 1.0, "download_bytes": 0, "disk_bytes": 0, "free_bytes": 1, "keep": 6}

    assert make_plan(problem(cached=frozenset(NAMES[:7])), certain=True, **sizes).lines()[0].endswith(", about 1 build")


def test_a_certain_probe_needs_its_endpoints_a_halving_and_a_confirmation():
    """The hazard probes settle a build in one run; the plan must not scare with repeats."""
    assert plan(certain=True).runs == ((1.0, 10),)


def test_builds_disk_and_time_are_shown_and_disk_is_capped():
    """G08, G11: what it will take, before it starts."""
    found = plan(keep=3)

    assert found.builds == 8
    assert found.disk_bytes == 3 * 5 * 10**9
    assert found.download_bytes == 8 * 10**9
    assert any("8.0 GB to download" in line for line in found.lines())


def test_a_disk_that_is_too_small_is_one_line_of_warning():
    """People would start a search that ends in the middle of the night for want of space."""
    tight, enough = plan(keep=4, free_bytes=15 * 10**9), plan(keep=3, free_bytes=15 * 10**9)

    assert [line for line in tight.lines() if "warning" in line] == [
        "      warning: 15.0 GB are free: give a smaller --keep, another --store, or prune first"
    ]
    assert [line for line in enough.lines() if "warning" in line] == []
    assert tight.first_bytes == 2 * 5 * 10**9


def test_a_size_that_nothing_says_is_unknown():
    """`0.0 GB of disk` would be read as no disk at all."""
    found = plan(download_bytes=0, disk_bytes=0, free_bytes=0)

    assert "      download size unknown, disk size unknown" in found.lines()
    assert found.as_json()["sizes_known"] is False
    assert not any("warning" in line for line in found.lines())


def test_what_is_cached_is_neither_downloaded_nor_waited_for():
    """Resuming or repeating a search must not be priced like a first one."""
    cold = plan()
    warm = make_plan(
        problem(cached=frozenset(NAMES)),
        certain=False,
        run_s=50.0,
        download_bytes=10**9,
        disk_bytes=1,
        free_bytes=10**12,
        keep=6,
    )

    assert warm.download_bytes == 0
    assert warm.first_bytes == 0
    assert warm.builds == 0
    assert any("nothing to build" in line for line in warm.lines())
    assert warm.seconds < cold.seconds


def test_a_budget_below_the_need_is_said():
    """G11: repeats inside repeats exceeded a day without a word."""
    found = make_plan(
        problem(max_runs=50), certain=False, run_s=1, download_bytes=0, disk_bytes=0, free_bytes=0, keep=6
    )

    assert any("more than --max-runs 50" in line for line in found.lines())


def test_capacity_of_a_run():
    """The Z-channel: one bit when bad builds always fail, none when they hardly do."""
    assert capacity(1.0) == 1.0
    assert capacity(0.5) == pytest.approx(0.3219, abs=1e-3)
    assert 0 < capacity(0.01) < 0.01


def test_what_is_left_shrinks_to_the_suspects():
    """G01: the remaining range, and the runs for it at the rate seen at the bad endpoint."""
    mass = dict.fromkeys(NAMES, 0.0) | {NAMES[30]: 0.48, NAMES[31]: 0.5, NAMES[32]: 0.01}
    seen = [
        Observation(candidate=NAMES[-1], conclusion=conclusion, seconds=60.0)
        for conclusion in (Conclusion.BAD, Conclusion.GOOD, Conclusion.GOOD)
    ]
    left = left_of(problem(), seen, Posterior(by_candidate=tuple(mass.items()), none=0.01), certain=False)

    assert (left.first, left.last, left.count) == (NAMES[30], NAMES[31], 2)
    assert (
        left.runs
        > left_of(problem(), seen[:1], Posterior(by_candidate=tuple(mass.items()), none=0.01), certain=True).runs
    )
