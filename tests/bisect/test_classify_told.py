"""A failure that a log names before the run began is no hit, and one that this run showed stays one."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

from .test_classify_workers import END, HEAD, steps
from .wordings import FX

RUN = HEAD + steps([0, 1, 2]) + END
TRACEBACK = f'Traceback (most recent call last):\n  File "/x/torch/_dynamo/eval_frame.py", line 1039, in f\n{FX}\n'


def judged(log, hunt="fx_flag_race", **evidence):
    found = classify(Evidence(log=log, **{"returncode": 0, "threads": 3} | evidence))
    return str(found.outcome), conclude(found, Outcome.parse(hunt))


@pytest.mark.parametrize("returncode", [0, None])
@pytest.mark.parametrize(
    "line",
    [
        f"resuming after job 771 which ended with {FX}",
        f"==> old.log <==\n{FX}\n==> new.log <==",
        f"==> old.log <==\n{TRACEBACK}\n==> new.log <==",
        f"Log of attempt 1 (torch 2.9.1): {FX}\nattempt 2:",
        f"NOTE last week's job 771 died of {FX}",
        FX,
        "history: CUDA error: an illegal memory access was encountered, Segmentation fault, Killed",
    ],
)
def test_a_failure_told_before_a_run_that_then_went_on_gives_no_vote(line, returncode):
    """What an earlier job ended with would count as a hit of this one."""
    for log in (f"{line}\n{RUN}", f"{HEAD}{line}\n{steps([0, 1, 2])}{END}"):
        outcome, conclusion = judged(log, returncode=returncode)

        assert (outcome, conclusion) == ("unknown", Conclusion.SKIP)
        assert "as if nothing had happened" in classify(Evidence(log=log, returncode=returncode, threads=3)).advice


@pytest.mark.parametrize(
    "log",
    [
        f"{HEAD}{TRACEBACK}{steps([0, 1, 2])}{END}",
        f"{HEAD}ERROR:train:{FX}\n{steps([0, 1, 2])}{END}",
        f"{HEAD}WARNING caught {FX}\n{steps([0, 1, 2])}{END}",
        f"{HEAD}{FX}\nretrying 1/3\n{steps([0, 1, 2])}{END}",
        f"{HEAD}drafter-1 died: {FX}\n{steps([0, 2])}{END}",
        f"{HEAD}drafter-1 died: {FX}\nstep 1 loss 2\nstep 2 loss 1\n{END}",
        f"{HEAD}{steps([0, 1, 2], [1])}{FX}\n{steps([0, 1, 2], range(2, 21))}{END}",
    ],
)
def test_a_failure_of_this_run_is_a_hit_though_the_run_went_on(log):
    """A race that a retry or the other threads outlived would be taken for an old story."""
    assert judged(log) == ("fx_flag_race", Conclusion.BAD)


@pytest.mark.parametrize("number", [1, 20])
def test_a_sentence_about_another_job_gives_no_vote_wherever_it_stands(number):
    """A note on an earlier job would be a hit of a run in which every drafter went on to its last step."""
    note = f"(for comparison, job 771 ended with {FX})\n"
    log = f"{HEAD}{steps([0, 1, 2], range(1, number + 1))}{note}{steps([0, 1, 2], range(number + 1, 21))}{END}"

    assert judged(log) == ("unknown", Conclusion.SKIP)
    assert judged(log.replace("[drafter-", "[")) == ("fx_flag_race", Conclusion.BAD)
    assert judged(log, returncode=1) == ("fx_flag_race", Conclusion.BAD)


def test_a_failure_told_before_a_run_that_did_not_go_on_is_its_own():
    """The only word of what killed the run would be an open question."""
    assert judged(f"{HEAD}worker 1: {FX}\n", returncode=1) == ("fx_flag_race", Conclusion.BAD)
    assert judged(f"{HEAD}{FX}\n{steps([0, 2], [1, 2])}", returncode=1) == ("fx_flag_race", Conclusion.BAD)


@pytest.mark.parametrize(
    ("hunt", "line"),
    [
        ("nan_loss", "nan_guard enabled: will abort on NaN loss"),
        ("nan_loss", "early stopping: stops on nan loss"),
        ("nan_loss", "[drafter-1] raises on a NaN loss"),
        ("out_of_memory", "wandb: run name: oom-killer-test"),
        ("segfault", "experiment_name='repro-SIGSEGV-17'"),
    ],
)
def test_a_guard_and_a_name_leave_the_run_clean(hunt, line):
    """A healthy run would count as a hit for what it is called, or for what it would do."""
    assert judged(f"{HEAD}{line}\n{steps([0, 1, 2])}{END}", hunt) == ("ok", Conclusion.GOOD)


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("nan_loss", "NaN loss at step 4"),
        ("nan_loss", "aborting: NaN loss detected"),
        ("out_of_memory(host)", "python invoked oom-killer: gfp_mask=0xcc0, order=0"),
        ("out_of_memory(host)", "oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=77"),
    ],
)
def test_what_the_guard_and_the_kernel_report_is_a_failure(expected, line):
    """The failure itself would be taken for the name of something."""
    assert judged(f"{HEAD}{steps([0, 1, 2], range(1, 5))}{line}\n", returncode=1)[0] == expected
