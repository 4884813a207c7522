"""What a cell says: counts and bounds, never a bare tick, and `not tested` never looks like ok."""

from __future__ import annotations

from bisect.matrix import MEANINGS, Blocked, Cell, CellRun, Rules, State
from bisect.matrix.state import assess, choose_baseline
from dataclasses import replace

import pytest

from .matrix_cells import OK, RACE, blocked, cell, key, session, steps


def only(*cells, rules=None):
    return assess(cells, rules or Rules()).assessments[-1]


def test_a_clean_cell_shows_its_count_and_what_it_still_allows():
    """A green tick would hide that six passes still allow a crash in two runs of five."""
    entry = only(cell(outcomes=[OK] * 6))

    assert entry.state is State.OK
    assert entry.label == "ok 0/6"
    assert 0.39 < entry.allowed < 0.40
    assert entry.is_settled


def test_a_cell_without_a_run_is_not_tested():
    """An untested cell that looks like ok is how a cluster breaks."""
    entry = only(cell())

    assert entry.state is State.NOT_TESTED
    assert entry.label == "not tested"
    assert entry.count == "-"
    assert entry.allowed is None


@pytest.mark.parametrize("outcome", ["nothing_compiled", "too_few_threads", "compile_disabled", "unknown"])
def test_runs_that_could_not_have_shown_the_race_leave_the_cell_untested(outcome):
    """A run on one thread, or without compilation, would count as a pass (E18)."""
    entry = only(cell(outcomes=[outcome] * 3))

    assert entry.state is State.NOT_TESTED
    assert f"3 x {outcome}" in entry.detail
    assert not entry.is_settled


def test_failures_of_the_machine_are_listed_apart_and_not_counted():
    """A DNS error or a broken GPU would make a build look bad (G09)."""
    entry = only(cell(outcomes=["hardware_fault", OK, "download_failed", OK]))

    assert entry.count == "0/2"
    assert entry.state is State.OK
    assert sum("outside the build" in note for note in entry.notes) == 2


def test_one_race_in_many_runs_is_a_race():
    """A lucky majority of passes would hide the crash."""
    entry = only(cell(outcomes=[OK] * 5 + [RACE]))

    assert entry.state is State.RACE
    assert entry.label == "race 1/6 (fx_flag_race)"


def test_a_race_beside_another_root_cause_is_still_a_race():
    """A segfault that followed from the race would hide it."""
    assert only(cell(outcomes=["segfault"], secondary=[RACE])).state is State.RACE


def test_another_failure_is_named():
    """`failed` alone sends people to the wrong bug."""
    entry = only(cell(outcomes=["out_of_memory(gpu)", "out_of_memory(gpu)"]))

    assert entry.state is State.FAILURE
    assert "out_of_memory(gpu)" in entry.label


def test_dense_attention_is_degraded_not_ok():
    """The incident trained at a quarter of its rate and every log was green."""
    first = cell(outcomes=[OK, OK])
    dense = replace(first, runs=tuple(replace(run, dense_calls=40) for run in first.runs))

    assert only(dense).state is State.DEGRADED
    assert only(cell(outcomes=["recompile_limit"])).state is State.DEGRADED
    assert only(cell(outcomes=["recompile_limit"])).count == "0/1"


def test_recompile_stalls_are_degraded_though_the_median_step_is_unchanged():
    """Six stalls of 8 s in 100 steps of 0.5 s: the median says nothing happened (E14)."""
    times = [0.5] * 100
    for position in (10, 25, 40, 55, 70, 85):
        times[position] = 8.0
    plain = cell(outcomes=[OK, OK])
    stalled = replace(plain, runs=tuple(replace(run, traces=(steps(*times),), recompiles=6) for run in plain.runs))

    entry = only(stalled)

    assert entry.state is State.DEGRADED
    assert "6 of 100 steps up to 8 s, not 0.5 s" in entry.detail


def test_stalls_that_the_baseline_has_too_are_not_held_against_a_cell():
    """A workload that recompiles everywhere would paint every cell."""

    def with_steps(one, *times):
        return replace(one, runs=tuple(replace(run, traces=(steps(*times),)) for run in one.runs))

    stalling = [0.5] * 20 + [9.0]
    cells = [with_steps(cell(build, [OK, OK]), *stalling) for build in ("cu128", "cu130")]
    smooth = with_steps(cell("cu128", [OK, OK]), *[0.5] * 21)

    assert [entry.state for entry in assess(cells, Rules()).assessments] == [State.OK, State.OK]
    assert assess((smooth, cells[1]), Rules()).assessments[1].state is State.DEGRADED


def test_a_blocked_cell_says_why_and_what_would_unblock_it():
    """`impossible` without a way out leaves the reader where they were."""
    entry = only(blocked("cu130"))

    assert entry.state is State.DRIVER_TOO_OLD
    assert entry.unblock == "update it"
    assert entry.is_settled


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ("not_published", State.NOT_PUBLISHED),
        ("driver_too_old", State.DRIVER_TOO_OLD),
        ("arch_unsupported", State.ARCH_UNSUPPORTED),
        ("no_gpu", State.NEEDS_GPU),
        ("resolution_conflict", State.CANNOT_BUILD),
        ("wrong_build", State.CANNOT_BUILD),
        ("harness_error", State.CANNOT_BUILD),
    ],
)
def test_an_outcome_of_building_becomes_its_state(outcome, state):
    """A build that was never published would be blamed on torch."""
    assert Blocked.from_outcome(outcome, reason="because").state is state


def test_a_run_that_found_the_driver_too_old_blocks_the_cell():
    """It ran without a GPU after a warning and would count as a pass (F01)."""
    entry = only(cell(outcomes=["driver_too_old"]))

    assert entry.state is State.DRIVER_TOO_OLD


def test_settings_that_change_nothing_measured_do_not_settle_a_cell_early():
    """Two passes would be called good enough."""
    assert not only(cell(outcomes=[OK, OK])).is_settled
    assert not only(cell(outcomes=[RACE])).is_settled
    assert only(cell(outcomes=[RACE, RACE])).is_settled


def test_a_cell_that_never_gets_good_enough_ends_at_max_runs():
    """One cell would eat the whole budget."""
    assert only(cell(outcomes=["nothing_compiled"] * 10)).is_settled


def test_a_slower_cell_shows_ratio_and_interval():
    """`slower` without a figure cannot be weighed against a crash."""
    cells = session({"cu128": 10.0, "cu130": 8.0}, rounds=6, noise=0.01)
    entry = assess(cells, Rules()).assessments[1]

    assert entry.state is State.SLOWER
    assert entry.label.startswith("slower 0.8")
    assert entry.label.endswith("0/6")
    assert entry.ratio.low < 0.8 < entry.ratio.high + 0.02


def test_a_changed_attention_backend_is_named_as_a_confounder():
    """5500 -> 3700 tokens/s was the library's other attention, not torch (E03)."""
    old, new = session({"cu128": 5.5, "cu130": 3.7}, rounds=4, noise=0.01)
    old = replace(old, runs=tuple(replace(run, facts=(("attention", "flex"),)) for run in old.runs))
    new = replace(new, runs=tuple(replace(run, facts=(("attention", "sdpa"),)) for run in new.runs))

    entry = assess((old, new), Rules()).assessments[1]

    assert entry.state is State.SLOWER
    assert any("attention differs from the baseline (flex -> sdpa)" in note for note in entry.notes)


def test_warm_up_and_compile_time_are_columns_of_their_own():
    """1.6 s more once a worker is no loss of throughput (E12)."""
    old, new = session({"cu128": 10.0, "cu130": 10.0}, rounds=4, noise=0.005)
    old = replace(old, runs=tuple(replace(run, warmup_s=0.24, compile_s=0.1) for run in old.runs))
    new = replace(new, runs=tuple(replace(run, warmup_s=3.3, compile_s=1.6) for run in new.runs))

    before, after = assess((old, new), Rules()).assessments

    assert after.state is State.OK
    assert after.warmup_s - before.warmup_s > 3
    assert after.compile_s == 1.6


def test_memory_is_a_question_of_its_own():
    """Peak memory grew at another date than the step time; one verdict would hide one of the two (E19)."""
    old, new = session({"cu128": 10.0, "cu130": 10.0}, rounds=4, noise=0.005)
    old = replace(old, runs=tuple(replace(run, peak_bytes=50380 * 2**20) for run in old.runs))
    new = replace(new, runs=tuple(replace(run, peak_bytes=52129 * 2**20) for run in new.runs))

    before, after = assess((old, new), Rules()).assessments

    assert after.state is State.OK
    assert "peak memory +3.5% against the baseline" in after.notes
    assert before.notes == ()


def test_too_few_steps_after_warm_up_are_said():
    """A rate over the compilation of three steps would be printed as throughput (E13)."""
    plain = cell(outcomes=[OK])
    short = replace(
        plain, runs=tuple(replace(run, traces=(steps(87.0, 0.4, 0.4),), warmup_steps=1) for run in plain.runs)
    )

    assert any("too few steps" in note for note in only(short).notes)


def test_machines_are_never_averaged():
    """The same build fails on one platform and works on another (A26)."""
    bad = cell("cu130", ["cuda_error"] * 3, platform="linux-aarch64", gpu="1x H100", node="n2")
    good = cell("cu130", [OK] * 6, platform="linux-x86_64", gpu="1x H100", node="n1")

    view = assess((bad, good), Rules())

    assert [entry.count for entry in view.assessments] == ["3/3", "0/6"]
    assert len(view.machines) == 2


def test_the_baseline_is_the_first_cell_that_trains():
    """A baseline that crashes gives no ratios at all."""
    first, second = cell("cu128", [RACE, RACE]), cell("cu128", [OK, OK], workaround="lock")

    assert choose_baseline((first, second)).key == second.key
    assert choose_baseline((blocked("cu128"),)) is None


def test_the_key_of_a_cell_covers_everything_that_may_change_a_result():
    """An old result would be reused for another driver or another benchmark."""
    plain = key()
    for field in plain.__dataclass_fields__:
        assert replace(plain, **{field: "other"}).digest != plain.digest


def test_every_state_has_a_meaning_for_the_legend():
    """A table people link to needs a legend (G10)."""
    assert set(MEANINGS) == set(State)


def test_a_cell_counts_only_its_own_runs():
    """The nouns hold no reference to another cell's evidence."""
    run = CellRun(cell="0" * 12, run="runs/x", outcome=OK)

    assert Cell(key=key(), runs=(run,)).telling == (run,)
