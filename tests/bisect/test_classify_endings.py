"""An end from outside, by a signal that anybody can send: whatever it is named after, it is no proof of that."""

from __future__ import annotations

from bisect.classify import Evidence, classify
from bisect.classify.conclusion import conclude, explain
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX, ST

TORCHRUN = (
    "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 4242) of binary: python\n"
    "  exitcode  : -9 (pid: 4242)\n  traceback : Signal 9 (SIGKILL) received by PID 4242\n"
)
SENDERS = ("scancel", "docker", "preemption")
STALLED = "".join(f"2026-10-01 10:00:{2 * step:02d} step {step} loss 9.1\n" for step in range(20))


@pytest.mark.parametrize(
    ("log", "returncode", "hunted"),
    [
        (ST, 137, "out_of_memory"),
        (ST, -9, "out_of_memory(host)"),
        (ST + "run.sh: line 7: 4242 Killed                  python train.py\n", 137, "out_of_memory"),
        (ST + TORCHRUN, 1, "out_of_memory"),
        (ST + TORCHRUN, 137, "out_of_memory"),
        (TORCHRUN + ST, 0, "out_of_memory"),
        (ST, 143, "hang"),
        (ST, -15, "hang"),
        (ST + "torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15\n", 1, "hang"),
    ],
)
def test_a_signal_from_outside_is_no_hit_and_sends_to_who_can_tell(log, returncode, hunted):
    """A job that was cancelled or preempted would be a hit, and its owner would be told to reduce the batch."""
    found = classify(Evidence(log=log, returncode=returncode, threads=3))

    for asked in (None, Outcome.parse(hunted), Outcome.parse("fx_flag_race")):
        assert conclude(found, asked) is Conclusion.RETRY
    assert all(word in found.advice for word in ("sacct", "docker inspect", "dmesg"))
    assert "batch" not in found.advice


@pytest.mark.parametrize("returncode", [137, 143])
def test_a_name_that_a_signal_alone_suggests_is_told_as_presumed(returncode):
    """`out_of_memory` would be read as what happened."""
    found = classify(Evidence(log=ST, returncode=returncode, threads=3))
    told = explain(found, hunted="any failure", conclusion=conclude(found), advice=found.advice)

    assert f"{found.outcome} (presumed). Proof: exit code {returncode}: SIG" in told
    assert all(sender in found.evidence[0] for sender in SENDERS)


def test_a_worker_that_launchers_say_was_killed_is_no_want_of_memory():
    """Torchrun says the same of a worker that was preempted."""
    found = classify(Evidence(log=ST + TORCHRUN, returncode=1, threads=3))

    assert (str(found.outcome), found.detail, found.secondary) == ("harness_error", "killed", ())


@pytest.mark.parametrize("returncode", [1, 137])
def test_what_says_that_memory_ran_out_is_still_a_hit(returncode):
    """The kernel's own word would be doubted like an exit code."""
    said = "Out of memory: Killed process 3141 (python3) total-vm:99999kB, anon-rss:88888kB\n"
    found = classify(Evidence(log=ST + said + TORCHRUN, returncode=returncode, threads=3))

    assert (str(found.outcome), found.flags) == ("out_of_memory(host)", ())
    assert conclude(found, Outcome.parse("out_of_memory")) is Conclusion.BAD


@pytest.mark.parametrize("returncode", [137, 143])
def test_a_signal_behind_a_failure_that_has_a_name_is_only_shown(returncode):
    """A race whose job was then killed would be a hit in a search for hangs or for want of memory."""
    found = classify(Evidence(log=f"{ST}{FX}\n", returncode=returncode, threads=3))

    assert (str(found.outcome), found.secondary, found.flags) == ("fx_flag_race", (), ("no_control",))
    assert any(f"exit code {returncode}" in line for line in found.evidence)
    assert conclude(found, Outcome.parse("hang")) is Conclusion.SKIP
    assert conclude(found, Outcome.parse("out_of_memory")) is Conclusion.SKIP


def test_a_run_that_stood_still_before_it_was_ended_hung():
    """The time stamps that show the silence would be thrown away for the doubt about the signal."""
    found = classify(Evidence(log=f"{STALLED}2026-10-01 10:30:00 terminating\n", returncode=143, threads=3))

    assert (str(found.outcome), found.flags) == ("hang(deadline)", ())
    assert conclude(found, Outcome.parse("hang")) is Conclusion.BAD
    assert "py-spy" in found.advice


def test_a_run_that_still_made_steps_was_not_short_of_time_for_a_signal():
    """A cancelled job would be told to take more time."""
    found = classify(Evidence(log=f"{STALLED}2026-10-01 10:00:41 terminating\n", returncode=143, threads=3))

    assert str(found.outcome) == "harness_error"
    assert "sacct" in found.advice
