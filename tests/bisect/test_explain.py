"""Why a run is slow: the incident must be explained from one result, and a healthy run must not be accused."""

from __future__ import annotations

import json
from bisect.explain import compare, explain
from bisect.result_file import parse_train

import pytest

from .fake_python import GOLDEN


def result(*, process=None, drafter=None, throughput=None, **top):
    """The golden result made healthy, then changed."""
    content = json.loads((GOLDEN / "train.json").read_text())
    content |= top
    content["process"] |= {"recompiles": 0, "recompile_reasons": [], "recompile_limit_hits": [], "warnings": []}
    content["process"] |= process or {}
    content["throughput"] |= throughput or {}
    waits = {"queue_wait_s": 0.0, "lock_wait_s": 0.0, "average_wait_s": 0.0}
    for thread in content["threads"]:
        healthy = {"exceptions": [], "completed": True, "steps": 10, "step_times_s": [0.1] * 10, "step_compiles": []}
        thread.update(healthy | waits | ((drafter or {}) if thread["role"] == "drafter" else {}))
    return parse_train(json.dumps(content))


def names(found):
    return [reason.name for reason in explain(found)]


def incident():
    hits = [{"thread": f"drafter-{index}", "limit": 8, "step": 3} for index in range(3)]
    return result(
        process={
            "dense_calls": 900,
            "dense_first": {"thread": "drafter-1", "step": 3, "score_bytes": 11 * 2**30},
            "recompile_limit_hits": hits,
            "gpu_utilization": [90, 90, 90, 90, 90, 12, 9, 14],
        },
        drafter={"device": "cuda:6"},
        throughput={"ktok_s": 4.4},
        config={"recompile_limit": 64},
    )


def test_the_incident_is_explained_from_one_report():
    """4.4 instead of 15 Ktok/s: dense since step 3, the limit and why it was 8, idle GPUs."""
    dense, limit, idle = (reason.sentence for reason in explain(incident()))

    assert dense == (
        "900 attention calls ran dense instead of fused since step 3 of drafter-1, a score matrix of 11.0 GiB each: "
        "the recompile limit was reached"
    )
    assert limit == (
        "the recompile limit was reached in drafter-0 at step 3 (limit 8), drafter-1 at step 3 (limit 8), "
        "drafter-2 at step 3 (limit 8): later variants run uncompiled, without an error; 64 was configured, but the "
        "setting did not reach the thread that read it"
    )
    assert idle == "the drafters' GPUs were near idle: GPU 6 9 % busy"


def test_a_comparison_names_the_ratio_and_the_causes():
    """`0.29x` alone starts another guess; the causes beside it end it."""
    healthy = result(throughput={"ktok_s": 15.0})

    assert compare(incident(), healthy) == ("4.4 Ktok/s against 15 (0.29x): dense_fallback, recompile_limit, gpu_idle")


def test_a_healthy_run_is_not_accused():
    """A reason that is always given is no reason."""
    assert names(result()) == []


@pytest.mark.parametrize(
    ("field", "name"),
    [("queue_wait_s", "data_starvation"), ("lock_wait_s", "lock_waiting"), ("average_wait_s", "replica_waiting")],
)
def test_waiting_is_told_by_what_was_waited_for(field, name):
    """Data, a lock and other replicas have three different cures."""
    assert [name] == names(result(drafter={field: 0.6}))


def test_short_waits_are_not_worth_a_sentence():
    """Every run waits a little."""
    assert names(result(drafter={"queue_wait_s": 0.05})) == []


def test_recompiles_are_told_with_the_guard_that_failed():
    """`kv_len recompiles` was a suspicion; the guard is the proof."""
    found = result(
        process={
            "recompiles": 9,
            "recompile_reasons": [{"function": "flex", "reason": "k size mismatch at index 2", "count": 7}],
        },
        drafter={"step_compiles": [2] * 10},
    )

    assert names(found) == ["recompiles"]
    assert "(7x, flex): k size mismatch at index 2" in explain(found)[0].sentence


def test_compilations_of_the_warm_up_are_no_reason():
    """Every cold run compiles; only what goes on after the warm-up slows the steady part."""
    found = result(process={"recompiles": 3}, drafter={"step_compiles": [2, 2, 2] + [0] * 7})

    assert names(found) == []


def test_autotuning_and_dead_drafters_are_said():
    """A rate of two replicas must not be read as the rate of three."""
    content = json.loads((GOLDEN / "train.json").read_text())
    content["process"]["warnings"] = [{"text": "AUTOTUNE flex_attention(1x32)", "count": 1}]
    found = parse_train(json.dumps(content))

    assert {"autotuning", "dead_drafters"} <= set(names(found))


def test_a_forced_state_is_said_to_be_forced():
    """The degraded number on demand must not be mistaken for a finding."""
    found = result(process={"dense_calls": 5}, force="dense")

    assert "forced by --force dense" in explain(found)[0].sentence
