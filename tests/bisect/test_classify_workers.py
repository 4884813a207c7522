"""A worker that died is no clean run, though the others finish and the exit code is 0."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Outcome

import pytest

HEAD = "torch.__version__ 2.11.0+cu130\n3 drafter threads\ncompiled 4 graphs\n"
END = "training finished\n"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/job/train.py", line 3, in forward\n'
    "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1\n"
)


def steps(workers, numbers=range(1, 21), total="/20"):
    """Lines of steps, the workers in turn."""
    return "".join(f"[drafter-{worker}] step {number}{total} loss 2.5\n" for number in numbers for worker in workers)


def labelled(text, worker):
    return "".join(f"[drafter-{worker}] {line}\n" for line in text.splitlines())


def outcome(log, **evidence):
    found = classify(Evidence(log=log, **{"returncode": 0, "threads": 3} | evidence))
    return str(found.outcome), conclude(found, Outcome.parse("fx_flag_race")).value, found.evidence[0]


@pytest.mark.parametrize(
    ("log", "expected", "proof"),
    [
        (steps([1], range(1, 4)) + labelled(TRACEBACK, 1) + steps([0, 2]), "harness_error", "The size of tensor"),
        (TRACEBACK + steps([0, 2]), "harness_error", "The size of tensor"),
        (steps([1], [1]) + "drafter-1 is no longer alive, continuing with 2 drafters\n" + steps([0, 2]), "unknown", "no longer alive"),
        (steps([0, 1, 2], [1]) + "[drafter-1] terminated unexpectedly\n" + steps([0, 1, 2], range(2, 21)), "unknown", "terminated"),
        (steps([0, 1, 2], range(1, 4)) + steps([0, 2], range(4, 21)), "unknown", "drafter-1 made no step after step 3 of 20"),
        (steps([0, 1, 2], range(1, 4), "") + steps([0, 2], range(4, 9), ""), "unknown", "drafter-1 made no step after step 3,"),
        (steps([0, 2]), "unknown", "drafter-0, drafter-2 alone, of 3 worker threads"),
        (steps([0]), "unknown", "drafter-0 alone, of 3 worker threads"),
        ("[drafter-1] started\n[drafter-2] started\n" + steps([0]), "unknown", "drafter-0 alone, of 3 worker threads"),
        (steps([0, 1, 2], [1, 2]) + labelled(TRACEBACK, 1) + steps([0, 2], range(3, 21)), "harness_error", "The size of tensor"),
    ],
)  # fmt: skip
def test_a_drafter_that_stepped_no_more_is_no_clean_run(log, expected, proof):
    """Two drafters that finish would count as three, and the build as good."""
    name, conclusion, shown = outcome(f"{HEAD}{log}{END}")

    assert (name, conclusion) == (expected, "skip")
    assert proof in shown


@pytest.mark.parametrize(
    "log",
    [
        steps([0, 1, 2]),
        steps([0]) + steps([1]) + steps([2]),
        "".join(steps([number % 3], [number]) for number in range(1, 21)),
        steps([0, 1, 2], range(0, 20, 5)),
        steps([0, 1, 2], range(1, 9), "") + steps([0, 2], [9, 10], ""),
        steps([0, 1, 2], [1]) + labelled(TRACEBACK, 1) + steps([0, 1, 2], range(2, 21)),
        steps([0, 1, 2], range(1, 8)) + "[drafter-1] finished early\n" + steps([0, 2], range(8, 21)),
        "".join(f"[drafter-{worker}] epoch {epoch} step {number}/5\n" for epoch in (1, 2) for number in range(1, 6) for worker in range(3)),
    ],
)  # fmt: skip
def test_workers_that_go_on_at_their_own_pace_leave_the_run_clean(log):
    """Drafters that share their steps, print one after the other or outlive an exception would give no vote."""
    assert outcome(f"{HEAD}{log}{END}")[:2] == ("ok", "good")


def test_workers_that_are_named_and_make_no_step_count_without_a_number_of_threads():
    """Two drafters that hang in their first step would be no part of the run, and the one that goes on all of it."""
    started = "".join(f"[drafter-{worker}] started\n" for worker in range(3))

    assert outcome(started + steps([0]) + END, threads=None)[:2] == ("unknown", "skip")
    assert outcome(started + steps([0, 1, 2]) + END, threads=None)[:2] == ("ok", "good")


def test_one_worker_is_enough_where_one_ran():
    """A control with one thread would be no control."""
    assert outcome(steps([0]) + END, threads=1)[0] == "too_few_threads"


def test_a_thread_of_another_kind_is_none_of_the_workers():
    """A loader's thread that is named once would be a drafter that never made a step."""
    log = f"Thread-5 (loader) started\n{steps([0, 1, 2])}{END}"

    assert outcome(log, threads=None)[:2] == ("ok", "good")


def test_a_log_that_names_no_worker_stays_as_it_is():
    """A trainer that names nobody would give no vote."""
    assert outcome(steps([0]).replace("[drafter-0] ", "") + END)[:2] == ("ok", "good")


def test_a_watchdog_after_the_last_step_was_not_outlived():
    """A collective that hung at the end of training would be a remark on a good run."""
    log = (
        HEAD
        + steps([0, 1, 2])
        + "[rank0]:[E1130 12:00:00.0 x.cpp:685] [Rank 0] Watchdog caught collective operation timeout: x\n"
    )

    assert outcome(log)[0] == "hang(nccl_watchdog)"
    assert outcome(log + END)[0] == "ok"


@pytest.mark.parametrize(
    "line",
    [
        "args: Namespace(compile=False, backend='eager', threads=3)",
        "config: {'compile': False, 'threads': 3}",
        "running: python train.py --no-compile --threads 3",
        "torch.compile backend: eager",
        "use_compile: false",
        "--compile=off",
    ],
)
def test_a_configuration_without_compilation_is_no_clean_run(line):
    """A run that compiled nothing could not have shown the race, and would count as good."""
    log = f"3 drafter threads\n{line}\n{steps([0, 1, 2])}{END}"

    assert outcome(log)[:2] == ("compile_disabled", "skip")
    assert outcome(f"compiled 4 graphs\n{log}")[:2] == ("ok", "good")


@pytest.mark.parametrize(
    "line",
    [
        "precompile=False",
        "compile=True, backend='inductor'",
        "compile_cache: none",
        "attn_backend: eager",
        "recompile: False",
    ],
)
def test_other_settings_that_are_off_leave_the_run_clean(line):
    """A healthy run would give no vote for a setting that has nothing to do with compiling the model."""
    assert outcome(f"3 drafter threads\n{line}\n{steps([0, 1, 2])}{END}")[:2] == ("ok", "good")


LAUNCHERS = (
    "srun: error: node3: task 1: Exited with exit code 1",
    "E1130 12:00:00.000 77 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 1 (pid: 33) of binary: x",
    "[Root Cause (first observed failure):\n  exitcode  : 1 (pid: 33)",
    "[2026-11-30 12:00:00,000] [ERROR] [launch.py:325:sigkill_handler] ['python', 'x.py'] exits with return code = 1",
    "  Process name: [[1,1],0]\n  Exit code:    1",
)


@pytest.mark.parametrize("line", LAUNCHERS)
def test_the_launchers_own_word_stands_against_an_exit_code_of_0(line):
    """`srun ... | tee log` gives 0 whatever happened, and a failed task would count as a clean run."""
    log = f"{HEAD}{steps([0, 1, 2])}{END}"

    for mixed in (
        f"{log}{line}\n",
        f"{HEAD}{steps([0, 1, 2], range(1, 4))}{line}\n{steps([0, 1, 2], range(4, 21))}{END}",
    ):
        name, conclusion, proof = outcome(mixed)
        assert (name, conclusion) == ("unknown", "skip")
        assert "exit code 1" in proof


def test_a_launcher_that_tells_of_a_signal_names_the_end():
    """A task that the kernel killed would be an open question behind a pipe."""
    assert (
        outcome(f"{HEAD}{steps([0, 1])}srun: error: node3: task 1: Exited with exit code 137\n")[0]
        == "out_of_memory(host)"
    )


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node3: task 1: Exited with exit code 0",
        "INFO wandb: exit code 1 means offline",
    ],
)
def test_what_is_no_failure_of_a_launcher_leaves_the_run_clean(line):
    """A line that speaks of an exit code would take the vote of a healthy run."""
    assert outcome(f"{HEAD}{steps([0, 1, 2])}{line}\n{END}")[:2] == ("ok", "good")


def test_a_rank_that_stepped_no_more_is_no_clean_run():
    """A process that died without a word would leave a good run, as long as the others finish."""
    log = steps([0, 1, 2], range(1, 4)) + steps([0, 2], range(4, 21))

    name, conclusion, proof = outcome(f"{HEAD}{log}{END}".replace("[drafter-", "[rank"))

    assert (name, conclusion) == ("unknown", "skip")
    assert proof == "line 11: rank-1 made no step after step 3 of 20, and the others went on"


def test_rank_0_speaks_for_its_threads():
    """A log of which each line begins with the rank would give no vote: one rank is no thread of three."""
    assert outcome(f"{HEAD}{steps([0])}{END}".replace("[drafter-0]", "[rank0]:"))[:2] == ("ok", "good")
