"""The recommendation follows stated rules, says what risk remains, and asks for cells when it cannot know."""

from __future__ import annotations

from bisect.matrix import Rules, State
from bisect.matrix.recommend import Advice, recommend
from bisect.matrix.state import assess

import pytest

from .matrix_cells import OK, RACE, blocked, cell, session

LOOSE = Rules(allowed_rate=0.6)


def advise(*cells, current="cu128", rules=None, leaks=()):
    view = assess(cells, rules or Rules())
    return recommend(view, current=current, machine=view.machines[0], leaks=leaks)


def test_a_clean_newer_build_is_recommended_with_the_risk_that_remains():
    """`safe` without the bound would promise more than six runs can."""
    advice = advise(cell("cu128", [OK] * 6), cell("cu130", [OK] * 6))

    assert advice.advice is Advice.UPGRADE
    assert advice.sentence == "Upgrade to cu130 without a workaround."
    assert any("up to 39% of the runs" in risk for risk in advice.risks)


def test_the_workaround_is_part_of_the_advice():
    """The incident: the build races, with the lock it does not."""
    advice = advise(cell("cu128", [OK] * 6), cell("cu130", [RACE, RACE]), cell("cu130", [OK] * 6, workaround="lock"))

    assert advice.sentence == "Upgrade to cu130 with workaround lock."


def test_a_workaround_free_way_is_preferred():
    """A lock that nobody needs costs throughput."""
    advice = advise(cell("cu128", [OK] * 6), cell("cu130", [OK] * 6, workaround="lock"), cell("cu132", [OK] * 6))

    assert (advice.build, advice.workaround) == ("cu132", "none")


def test_when_every_other_build_is_bad_the_advice_is_to_stay():
    """An upgrade to the least bad build would still be an outage."""
    advice = advise(cell("cu128", [OK] * 6), cell("cu130", [RACE, RACE]), blocked("cu132"))

    assert advice.advice is Advice.STAY
    assert "Stay on cu128 without a workaround" in advice.sentence
    assert any("race 2/2" in reason for reason in advice.reasons)
    assert any("driver too old" in reason for reason in advice.reasons)


def test_staying_on_a_build_that_races_too_says_so_and_names_its_workaround():
    """`stay` must not sound like `today's build is fine`."""
    with_lock = advise(cell("cu128", [RACE] * 2), cell("cu128", [OK] * 6, workaround="lock"), cell("cu130", [RACE] * 2))
    without = advise(cell("cu128", [RACE] * 2), cell("cu130", [RACE] * 2))

    assert with_lock.sentence.startswith("Stay on cu128 with workaround lock")
    assert any("not shown to be safe either" in risk for risk in without.risks)


def test_too_few_runs_ask_for_the_missing_ones():
    """Two passes would be taken for an answer."""
    advice = advise(cell("cu128", [OK] * 6), cell("cu130", [OK] * 2), cell("cu132"))

    assert advice.advice is Advice.NOT_ENOUGH_EVIDENCE
    assert {(item.cell.cell.key.build, item.runs) for item in advice.run_next} == {("cu130", 4), ("cu132", 6)}
    assert "cu130, workaround none, cold cache (4 more)" in advice.sentence


def test_contamination_decides_too():
    """Clean passes; the residue of an uninstalled package brings the race in."""
    advice = advise(
        cell("cu128", [OK] * 6),
        cell("cu130", [OK] * 6),
        cell("cu130", [RACE, RACE], history="sglang-residue"),
        cell("cu132", [OK] * 6),
        cell("cu132", [OK] * 6, history="sglang-residue"),
    )

    assert advice.build == "cu132"


def test_a_build_that_is_only_good_when_clean_is_recommended_for_fresh_environments_only():
    """The reader would upgrade in place, over the residue; and would miss why the clean one is good."""
    advice = advise(
        cell("cu128", [OK] * 6), cell("cu130", [OK] * 6), cell("cu130", [RACE, RACE], history="sglang-residue")
    )

    assert "in a fresh environment only" in advice.sentence
    assert [reason.split(", ")[0] for reason in advice.reasons] == ["cu130", "cu130+sglang-residue"]
    assert any(risk.startswith("not covered: cu130+sglang-residue") for risk in advice.risks)


def test_a_slower_build_is_not_recommended():
    """No crash, 4.6 instead of 12-20 Ktok/s: the crash column good, the throughput column bad."""
    cells = session({"cu128": 12.0, "cu130": 4.6}, rounds=6, noise=0.01)

    advice = advise(*cells)

    assert advice.advice is Advice.STAY
    assert any("throughput 0.38x" in reason for reason in advice.reasons)


def test_a_loss_within_the_allowed_slowdown_is_accepted():
    """A sure two percent would block every upgrade."""
    cells = session({"cu128": 100.0, "cu130": 98.0}, rounds=6, noise=0.002)

    assert assess(cells, Rules()).assessments[1].state is State.SLOWER
    assert advise(*cells).advice is Advice.UPGRADE


def test_an_interval_that_reaches_below_the_limit_asks_for_more_runs():
    """Noise would be sold as an answer."""
    cells = session({"cu128": 100.0, "cu130": 97.0}, rounds=6, noise=0.06, seed=1)

    advice = advise(*cells, rules=Rules(width=0.001))

    assert advice.advice is Advice.NOT_ENOUGH_EVIDENCE
    assert advice.run_next[0].runs >= 1


def test_a_proven_leak_outweighs_lucky_passes():
    """The probe shows the hole in seconds; six passes only show luck."""
    advice = advise(
        cell("cu128", [OK] * 6),
        cell("cu130", [OK] * 6),
        cell("cu130", [OK] * 6, workaround="lock"),
        leaks=(("cu130", "fx_flag_trace"),),
    )

    assert advice.workaround == "lock"
    assert any("fx_flag_trace" in risk for risk in advice.risks)


def test_one_build_alone_is_no_comparison():
    """`upgrade` needs something to upgrade to."""
    advice = advise(cell("cu128", [OK] * 6))

    assert advice.advice is Advice.NOT_ENOUGH_EVIDENCE
    assert "no other build" in advice.sentence


@pytest.mark.parametrize("state", [state for state in State if state not in (State.OK, State.SLOWER)])
def test_no_state_but_ok_leads_to_an_upgrade(state):
    """A cell that was never run, or cannot run, would be recommended."""
    other = cell("cu130") if state is State.NOT_TESTED else blocked("cu130", state)

    assert advise(cell("cu128", [OK] * 6), other).advice is not Advice.UPGRADE


def test_a_build_whose_environment_was_changed_is_not_called_unacceptable():
    """`No other build is acceptable` would be the word on a build that was not looked at."""
    changed = blocked("cu130", State.INCONSISTENT, reason="cu130 was changed after it was built", unblock="prune it")

    advice = advise(cell("cu128", [OK] * 6), changed)

    assert advice.advice is Advice.NOT_ENOUGH_EVIDENCE
    assert "inconsistent env: cu130 was changed after it was built (to unblock: prune it)" in advice.reasons[0]
