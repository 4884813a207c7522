"""Result files: threads, controls, limits, losses and environments of the benchmark's own records."""

from __future__ import annotations

import json
import math
from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome
from bisect.result_file import parse_hazards, parse_train
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
FX = "Detected that you are using FX to symbolically trace a dynamo-optimized function. This is not supported."


def drafter(number, *, exception=None, steps=10, losses=(5.6, 5.4)):
    """A drafter thread that completed, or that died of `exception` (type, message)."""
    failure = {"type": "", "message": "", "traceback": "", "step": steps, "phase": "forward", "at_s": steps / 10}
    return {
        "name": f"drafter-{number}", "role": "drafter", "device": "cpu", "steps": steps,
        "completed": exception is None, "losses": list(losses),
        "exceptions": [] if exception is None else [{**failure, "type": exception[0], "message": exception[1], "fx_flag": True}],
    }  # fmt: skip


METRICS = (
    "\n\nPrevious Traceback:\n"
    + '  File "x.py", line 1, in compile\n' * 300
    + (
        "\n\nRuntimeError: Metric(s) {'is_forward'} have already been set in the current context."
        "  (see above for current and previous traceback)."
    )
)


def train(threads, **changes):
    """The golden result with other threads and without its oddities."""
    record = json.loads((GOLDEN / "train.json").read_text())
    record["threads"] = threads
    record["process"].update(
        {"recompile_limit_hits": [], "warnings": [], "dense_calls": 0, "dense_first": None, "compiles": 8}
    )
    record["environment"]["variables"] = {}
    for key, value in changes.items():
        target = record[key]
        record[key] = {**target, **value} if isinstance(target, dict) and isinstance(value, dict) else value
    return parse_train(json.dumps(record))


def judged(result, *, hunt=None, **evidence):
    found = classify(Evidence(result=result, **evidence))
    return str(found.outcome), conclude(found, Outcome.parse(hunt or "fx_flag_race")).value, found


HEALTHY = [drafter(0), drafter(1), drafter(2)]


def test_the_golden_result_shows_the_race_and_what_stands_behind_it():
    """The file that joins the rooms would be read as another failure."""
    outcome, conclusion, found = judged(parse_train((GOLDEN / "train.json").read_text()), returncode=1)

    assert (outcome, conclusion) == ("fx_flag_race", "bad")
    assert [str(other) for other in found.secondary] == ["recompile_limit", "dense_fallback"]
    assert "drafter-1" in found.evidence[0]
    assert "step 2" in found.evidence[0]


def test_three_healthy_threads_are_one_clean_run():
    """No search would ever end with a good build."""
    assert judged(train(HEALTHY), returncode=0)[:2] == ("ok", "good")


def test_a_healthy_single_thread_is_no_evidence_against_a_race_and_is_against_a_nan():
    """A control run would clear a build of the race."""
    single = train([drafter(0)])

    assert judged(single, returncode=0)[:2] == ("too_few_threads", "skip")
    assert judged(single, returncode=0, hunt="nan_loss")[:2] == ("too_few_threads", "good")


@pytest.mark.parametrize(
    ("control", "num", "expected"),
    [("", 3, "fx_flag_race"), ("clean", 3, "fx_flag_race"), ("failed", 3, "nested_fx"), ("", 1, "nested_fx")],
)
def test_the_control_and_the_number_of_threads_decide_what_is_a_race(control, num, expected):
    """The word race would be used for what one thread shows too."""
    threads = [drafter(0, exception=("RuntimeError", FX), steps=2), *(drafter(i) for i in range(1, num))]

    assert judged(train(threads), returncode=1, control=control)[0] == expected


def test_the_thread_that_traced_meanwhile_is_named_with_the_state_of_the_flag():
    """The report would say what happened and not who did it."""
    record = json.loads((GOLDEN / "train.json").read_text())
    failure = record["threads"][1]["exceptions"][0]
    failure["neighbours"] = [{"thread": "drafter-0", "phase": "forward", "step": 2, "tracing": True}]

    _, _, found = judged(parse_train(json.dumps(record)), returncode=1)

    assert "[FX flag set, drafter-0 was tracing]" in found.evidence[0]


@pytest.mark.parametrize(
    ("phase", "error", "expected"),
    [
        ("failed", ("ImportError", "libcudart.so.13: cannot open shared object file: No such file"), "import_broken"),
        ("failed", ("RuntimeError", "No CUDA GPUs are available"), "no_gpu"),
        ("refused", ("ConfigError", "profile node8 does not fit this machine: 8 GPUs"), "harness_error"),
        ("failed", ("ZeroDivisionError", "division by zero"), "unknown"),
    ],
)
def test_what_ended_the_main_thread_is_the_failure(phase, error, expected):
    """A run that never started its threads would be unknown in spite of its own explanation."""
    record = {"type": error[0], "message": error[1], "traceback": "Traceback ..."}

    outcome, conclusion, found = judged(train([], finished=False, phase=phase, error=record), returncode=1)

    assert (outcome, conclusion == "good") == (expected, False)
    assert error[1] in found.evidence[0]


def test_any_failure_of_the_build_is_a_question_of_its_own():
    """A search for whatever breaks would count a broken import, or miss a crash."""
    crashed = classify(Evidence(log="", returncode=-11))
    broken = classify(Evidence(log="ImportError: libx.so: undefined symbol: y", returncode=1))

    assert conclude(crashed, None) is Conclusion.BAD
    assert conclude(broken, None) is Conclusion.SKIP
    assert conclude(classify(Evidence(result=train(HEALTHY), returncode=0)), None) is Conclusion.GOOD


def test_several_failures_are_all_reported_first_cause_first():
    """The second kind of failure would be lost."""
    threads = [
        drafter(0, exception=("AssertionError", "CURRENT_PATCHER is None in finally block"), steps=5),
        drafter(1, exception=("RuntimeError", FX), steps=2),
        drafter(2, exception=("KeyError", "'custom'"), steps=7),
    ]
    outcome, _, found = judged(train(threads), returncode=1)

    assert outcome == "fx_flag_race"
    assert [str(other) for other in found.secondary] == [
        "other_thread_race(fx_patcher)",
        "other_thread_race(mask_metadata)",
    ]


def test_a_killed_run_is_named_by_its_exit_code_and_an_unfinished_one_is_unknown():
    """A segfault would be ok because nothing had failed until then."""
    cut = train([drafter(0, steps=3)], finished=False, phase="training")

    assert judged(cut, returncode=-11)[0] == "segfault"
    assert judged(cut)[:2] == ("unknown", "skip")
    assert judged(cut, timed_out=True, returncode=-9)[0] == "hang(deadline)"


def test_a_hang_of_the_heartbeat_is_a_hang():
    """The deadline of the benchmark itself would not be seen."""
    record = train(HEALTHY, finished=False, hang={"thread": "drafter-1", "step": 3, "silent_s": 60.0})
    outcome, conclusion, found = judged(record, returncode=3)

    assert (outcome, conclusion) == ("hang(deadline)", "retry")
    assert "drafter-1" in found.evidence[0]
    assert judged(record, returncode=3, hunt="hang")[1] == "bad"


def test_counted_degradations_are_named_in_the_order_of_cause():
    """A slow run would be a regression of the build."""
    process = {
        "recompile_limit_hits": [{"thread": "drafter-1", "limit": 8, "step": 4}],
        "dense_calls": 12,
        "dense_first": {"thread": "drafter-1", "step": 4},
    }

    outcome, conclusion, found = judged(train(HEALTHY, process=process), returncode=0)

    assert (outcome, conclusion) == ("recompile_limit", "skip")
    assert [str(other) for other in found.secondary] == ["dense_fallback"]
    assert judged(train(HEALTHY, process={"dense_calls": 3}), returncode=0)[0] == "dense_fallback"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_found_in_the_trajectory(value):
    """A run that trains nothing would count as healthy."""
    outcome, conclusion, found = judged(train([drafter(0), drafter(1, losses=(5.6, value))]), returncode=0)

    assert (outcome, conclusion) == ("nan_loss", "skip")
    assert "drafter-1" in found.evidence[0]


def test_nothing_compiled_and_compilation_disabled_are_never_good():
    """Every build would look clean once nothing is compiled."""
    assert judged(train(HEALTHY, process={"compiles": 0}), returncode=0)[:2] == ("nothing_compiled", "skip")
    disabled = train(HEALTHY, environment={"variables": {"TORCHDYNAMO_DISABLE": "1"}}, process={"compiles": 0})
    assert judged(disabled, returncode=0)[:2] == ("compile_disabled", "skip")


def test_another_torch_than_asked_for_voids_even_a_hit():
    """A candidate would be convicted by what another build did."""
    hit = train([drafter(0, exception=("RuntimeError", FX)), drafter(1)])

    outcome, conclusion, found = judged(hit, returncode=1, expected_torch="2.13.0+cu130")

    assert (outcome, conclusion) == ("wrong_build", "skip")
    assert [str(other) for other in found.secondary] == ["fx_flag_race"]
    assert judged(hit, returncode=1, expected_torch="2.11.0")[0] == "fx_flag_race"


def test_a_path_outside_the_environment_voids_the_run():
    """Somebody else's package would be measured."""
    outside = train(HEALTHY, environment={"sys_path_outside": ["/home/u/.local/lib/python3.11/site-packages"]})

    assert judged(outside, returncode=0)[:2] == ("env_not_isolated", "skip")
    moved = train(HEALTHY, environment={"torch_file": "/usr/lib/python3/torch/__init__.py"})
    assert judged(moved, returncode=0)[0] == "env_not_isolated"


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (("torch._dynamo.exc.FailOnRecompileLimitHit", "Hard failure due to fullgraph=True"), "recompile_limit"),
        (("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 11 GiB"), "out_of_memory(gpu)"),
        (("OutOfMemoryError", "out of resource: triton_tem Required: 139776 Hardware limit: 101376"), "out_of_memory(triton_smem)"),
        (("RuntimeError", "CUDA error: an illegal memory access was encountered"), "cuda_error"),
        (("ImportError", "cannot import name 'triton_key' from 'triton.compiler.compiler' (x)"), "inconsistent_env"),
        (("torch._inductor.exc.InductorError", "IndexError: tuple index out of range"), "compile_error"),
        (("ValueError", "something else entirely"), "unknown"),
        (("RuntimeError", METRICS), "other_thread_race(metrics_context)"),
    ],
)  # fmt: skip
def test_exceptions_of_threads_are_read_by_the_same_table(exception, expected):
    """A log and a result of the same run would get two names."""
    assert (
        judged(train([drafter(0, exception=exception), drafter(1, exception=exception)]), returncode=1)[0] == expected
    )


def test_the_probes_that_leak_are_named_and_an_untested_one_is_never_ok():
    """A probe that could not run would clear a build."""
    record = json.loads((GOLDEN / "hazards.json").read_text())
    leak = record["hazards"][0]
    outcome, conclusion, found = judged(parse_hazards(json.dumps(record)))
    assert (outcome, conclusion) == ("fx_flag_race", "bad")
    assert "fx_flag_trace" in found.evidence[0]

    record["hazards"] = [{**leak, "answer": "safe"}]
    assert judged(parse_hazards(json.dumps(record)))[:2] == ("ok", "good")
    record["hazards"].append({**leak, "name": "fx_patcher", "answer": "could-not-test"})
    assert judged(parse_hazards(json.dumps(record)))[:2] == ("unknown", "skip")
    record["hazards"][1]["answer"] = "leaks"
    assert judged(parse_hazards(json.dumps(record)))[:2] == ("other_thread_race(fx_patcher)", "skip")


def test_an_evidence_that_is_a_healthy_result_ignores_the_exit_code_zero_only():
    """A run that failed after writing its result would be ok."""
    assert judged(train(HEALTHY), returncode=1)[:2] == ("unknown", "skip")
    assert Conclusion.GOOD.value == judged(train(HEALTHY))[1]


MASKS = ("KeyError", "'custom'")
"""What torch 2.15.0 raises in a drafter that rebuilds its mask while another one compiles."""


@pytest.mark.parametrize(
    ("done", "amplified", "hunt", "conclusion"),
    [
        (18, True, "fx_flag_race", "good"),
        (18, True, "other_thread_race(mask_metadata)", "bad"),
        (18, False, "fx_flag_race", "skip"),
        (6, True, "fx_flag_race", "skip"),
    ],
)
def test_an_amplified_run_that_survived_another_race_could_have_shown_the_hunted_one(done, amplified, hunt, conclusion):
    """2.15.0 shows its own race in every amplified run: as no vote, no search could ever test that end."""
    threads = [drafter(number, exception=MASKS, steps=done) for number in range(4)]
    for thread in threads:
        thread["exceptions"][0] |= {"traceback": 'File "torch/nn/attention/flex_attention.py", line 1, in create_mask'}
    result = train(threads, config={"steps": 20, "num_drafters": 4}, amplified=amplified)
    outcome, concluded, _ = judged(result, hunt=hunt, control="clean", returncode=1)

    assert outcome == "other_thread_race(mask_metadata)"
    assert concluded == conclusion
