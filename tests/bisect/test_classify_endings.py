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


@pytest.mark.parametrize(
    ("log", "returncode"),
    [
        ("Killed\n", 137),
        ("[rank3]: Killed\n", 137),
        ("run.sh: line 7: 4242 Killed                  python train.py\n", 137),
        (TORCHRUN, 1),
        ("  exitcode  : -9 (pid: 4242)\n", 1),
        ("  traceback : Signal 9 (SIGKILL) received by PID 4242\n", 1),
        ("srun: error: node01: task 3: Killed\n", 1),
        ("srun: error: node01: tasks 0-3: Killed\n", 137),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL\n", 1),
        ("[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9\n", 247),
        ("mpirun noticed that process rank 3 with PID 4242 on node n1 exited on signal 9 (Killed).\n", 137),
    ],
)
def test_one_kill_is_called_the_same_whoever_reports_it(log, returncode):
    """Torchrun's word for it was an error of the harness, and a shell's a want of memory: two failures in a table."""
    found = classify(Evidence(log=ST + log, returncode=returncode, threads=3))

    assert (str(found.outcome), found.detail, found.flags) == ("out_of_memory(host)", "killed", ("presumed",))
    assert found.secondary == ()
    assert conclude(found, Outcome.parse("out_of_memory")) is Conclusion.RETRY


@pytest.mark.parametrize(
    "said",
    [
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.batch. Some of your processes may have been killed.\n",
        "srun: error: node01: task 3: Out Of Memory\n",
        (
            "srun: error: node01: task 3: Out Of Memory\nslurmstepd: error: *** STEP 77.0 ON node01 CANCELLED AT "
            "2026-10-01T10:00:00 ***\nsrun: error: node01: tasks 0-2: Killed\n"
        ),
    ],
)
def test_slurms_word_that_memory_ran_out_is_taken(said):
    """It is the scheduler's own measurement: doubted like a bare signal, a search for it would never hit."""
    found = classify(Evidence(log=ST + said, returncode=1, threads=3))

    assert (str(found.outcome), found.flags) == ("out_of_memory(host)", ())
    assert conclude(found, Outcome.parse("out_of_memory")) is Conclusion.BAD


OTHERS = """\
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : {signal} (pid: 4240)
  traceback : Signal {name} received by PID 4240
--------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4242)
========================================================
"""
FORCED = "api.py:919] Unable to shutdown process 4241 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
OWN = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 8, in <module>\n    load()\n'
    "ValueError: cannot make sense of shard 7\n"
)
SRUN = "srun: error: node01: task 1: Exited with exit code 1\nsrun: Terminating StepId=77.0\n"
CANCELLED = (
    "slurmstepd: error: *** STEP 77.0 ON node01 CANCELLED AT 2026-10-01T10:00:00 ***\n"
    "srun: error: node01: tasks 0,2-3: Killed\n"
)


def torn_down(code, signal, name):
    """What torchrun says of one rank's failure and of another that it ended for it."""
    failed = f"api.py:874] failed (exitcode: {code}) local_rank: 1 (pid: 4242) of binary: python\n"
    return FORCED + failed + OTHERS.format(code=code, signal=signal, name=name)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"{FX}\n" + torn_down(1, -9, "9 (SIGKILL)"), "fx_flag_race"),
        (OWN + torn_down(1, -9, "9 (SIGKILL)"), "harness_error"),
        (OWN + torn_down(1, -15, "15 (SIGTERM)"), "harness_error"),
        (torn_down(-11, -9, "9 (SIGKILL)"), "segfault"),
        (torn_down(1, -9, "9 (SIGKILL)"), "unknown"),
        (f"{FX}\n" + SRUN + CANCELLED, "fx_flag_race"),
        (OWN + SRUN + CANCELLED, "harness_error"),
        (SRUN + CANCELLED, "unknown"),
        (OWN + "Killed\n", "harness_error"),
    ],
)
def test_ranks_that_the_launcher_ended_are_not_what_happened(log, expected):
    """One rank failed and the launcher killed the others: their SIGKILL would be the root cause, presumed memory."""
    found = classify(Evidence(log=ST + log, returncode=1, threads=3))

    assert str(found.outcome) == expected
    assert found.detail not in ("killed", "terminated", "step_cancelled")
    assert conclude(found, Outcome.parse("out_of_memory")) is not Conclusion.BAD


def test_a_lost_connection_does_not_hide_the_rank_that_was_killed():
    """The other ranks see only that their peer is gone: named first, it would send its reader to the network."""
    peer = OWN.replace("ValueError: cannot make sense of shard 7", "RuntimeError: Connection closed by peer [10.0.0.3]")
    for said in (TORCHRUN, "srun: error: node01: task 3: Killed\n"):
        found = classify(Evidence(log=ST + peer + said, returncode=1, threads=3))

        assert (str(found.outcome), found.detail) == ("out_of_memory(host)", "killed")


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
