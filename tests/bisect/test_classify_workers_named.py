"""Workers as trainers name them, losses as they call them, and the last words of a run that was broken off."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX, ST

NAMES = [
    "INFO thread={worker} step={step} loss={loss}",
    "[T{worker}] step {step} loss {loss}",
    "[GPU {worker}] step {step} loss {loss}",
    "cuda:{worker} | step {step} | loss {loss}",
    "[drafter@cuda:{worker}] step {step} loss {loss}",
    '{{"worker": {worker}, "step": {step}, "loss": {loss}}}',
    "replica={worker} step={step} loss={loss}",
    "ThreadPoolExecutor-0_{worker} INFO step {step} loss {loss}",
    "dp{worker} | step {step} | loss {loss}",
    "(Trainer pid=410{worker}, ip=10.0.0.1) step {step} loss {loss}",
    "{worker}: step {step} loss {loss}",
    "[1,{worker}]<stdout>: step {step} loss {loss}",
]


def judged(log, **evidence):
    found = classify(Evidence(log=log, **{"returncode": 0, "threads": 3, "control": "clean"} | evidence))
    return str(found.outcome), conclude(found, Outcome.parse("fx_flag_race"))


def steps(shape, *, last_of_2):
    lines = (
        shape.format(worker=worker, step=step, loss=9.8 - step / 100)
        for step in range(20)
        for worker in range(3)
        if worker != 2 or step <= last_of_2
    )
    return "\n".join(lines) + "\ntraining finished\n"


@pytest.mark.parametrize("shape", NAMES)
def test_a_worker_that_falls_silent_is_missed_however_it_is_named(shape):
    """The only trace of some deaths is silence; read without names, the log of two of three workers is a clean run."""
    assert judged(steps(shape, last_of_2=5)) == ("unknown", Conclusion.SKIP)
    assert judged(steps(shape, last_of_2=19)) == ("ok", Conclusion.GOOD)


@pytest.mark.parametrize("prefix", ["(Trainer pid=410{rank}, ip=10.0.0.1) ", "{rank}: ", "[1,{rank}]<stderr>: "])
def test_launchers_that_mix_the_lines_of_processes_do_not_tear_a_traceback_apart(prefix):
    """Without its frames the failure of one-thread processes counts as a hit of the race."""
    trace = (
        "Traceback (most recent call last):",
        '  File "/env/torch/fx/experimental/proxy_tensor.py", line 2504, in _trace_inner',
        "    t = dispatch_trace(",
        FX,
    )
    log = "\n".join(prefix.format(rank=rank) + line for line in trace for rank in range(4))

    assert judged(log, returncode=1, threads=None, control="") == ("nested_fx", Conclusion.SKIP)


@pytest.mark.parametrize("loss", ["ce: nan", "nll=nan", "loss 9.8 gnorm=nan", "cross_entropy nan"])
def test_a_loss_under_another_name_is_a_loss(loss):
    """A run whose numbers were lost would count as a clean one."""
    log = "".join(f"step {step} {loss if step > 3 else 'loss 9.8'} lr 6e-4\n" for step in range(9))

    assert judged(log) == ("nan_loss", Conclusion.SKIP)


@pytest.mark.parametrize(
    "end",
    [
        "caught SIGUSR1 (time limit in 120 s), writing checkpoint\nsaved checkpoint /ckpt/step60",
        "emergency checkpoint saved",
        "training aborted after 60 steps, saved checkpoint /ckpt/step60",
        "training finished: 2 of 3 drafters completed",
        "done with 1 error(s)",
        "finished (drafter-2 did not report)",
        "stopping: a drafter is gone",
        "interrupted by user, state saved",
    ],
)
def test_a_run_that_was_broken_off_is_no_clean_one_whatever_it_saved(end):
    """The checkpoint that a preempted run still saves would pass for the end of its work."""
    assert judged(f"{ST}{end}\n") == ("unknown", Conclusion.SKIP)


@pytest.mark.parametrize(
    "end",
    [
        "training finished: 3 of 3 drafters completed",
        "training finished, no drafter was lost, 0 aborted",
        "training finished, never interrupted",
        "wandb: run was interrupted while syncing",
        "launcher: training finished, target servers got SIGTERM and exited",
        "3 samples were lost to truncation",
        "slurm: preemption mode CANCEL, requeue enabled",
        "error count 0",
    ],
)
def test_what_an_end_denies_leaves_it_clean(end):
    """A summary that counts no losses would take the vote of a healthy run."""
    assert judged(f"{ST}{end}\n") == ("ok", Conclusion.GOOD)


def test_a_signal_after_the_last_of_all_steps_broke_nothing_off():
    """A scheduler that ends the job of a run that was done would take its vote."""
    log = "".join(f"step {step}/4 loss 9.1\n" for step in range(1, 5))

    assert judged(f"{log}caught SIGTERM\n") == ("ok", Conclusion.GOOD)
    assert judged(f"{log.replace('/4', '')}caught SIGTERM\n") == ("unknown", Conclusion.SKIP)


@pytest.mark.parametrize("title", ["Training drafter: ", "[loader=map-style, cached features] epoch 0: "])
def test_a_bar_of_training_is_no_worker_and_no_bar_of_a_loader(title):
    """`drafter: 1%|` would name a worker that fell silent, and a setting before the bar would hide every step."""
    bars = "".join(f"\r{title}{done}%|#| {done}/50 [00:{done:02d}<01:00, 1.2it/s, loss=9.1]" for done in range(1, 51))

    assert judged(bars) == ("ok", Conclusion.GOOD)


def test_the_cleaner_of_left_over_segments_is_no_part_of_the_run():
    """A race of the interpreter's own helper at exit would cost a healthy run its verdict."""
    trace = 'Traceback (most recent call last):\n  File "/usr/lib/python3.12/{}", line 247, in main\n    f()\nKeyError: "/x"\n'

    assert judged(ST + trace.format("multiprocessing/resource_tracker.py")) == ("ok", Conclusion.GOOD)
    assert judged(ST + trace.format("queue.py"))[0] != "ok"


def in_thread(name, place, error):
    return (
        f"Exception in thread {name}:\nTraceback (most recent call last):\n"
        f'  File "/usr/lib/python3.12/{place}", line 239, in run\n    f()\n{error}\n'
    )


def test_what_a_worker_died_of_has_its_name_though_the_others_went_on():
    """The advice would ask for a traceback that stands in the log."""
    log = (
        ST
        + in_thread("Thread-2 (worker)", "triton/jit.py", "RuntimeError: Triton Error [CUDA]: invalid device context")
        + ST
    )

    found = classify(Evidence(log=log, returncode=1))

    assert str(found.outcome) == "harness_error"
    assert "set_device" in found.advice


def test_a_helper_of_a_package_that_lost_its_peer_is_no_download_of_the_run():
    """The advice would be a mirror, for a dashboard that could not be reached."""
    place = "site-packages/wandb/sdk/wandb_run.py"
    error = "ConnectionResetError: [Errno 104] Connection reset by peer"

    found = classify(Evidence(log=ST + in_thread("NetStatThr", place, error) + ST, returncode=0, threads=3))

    assert str(found.outcome) != "download_failed"


@pytest.mark.parametrize(
    ("error", "conclusion"),
    [
        ("BrokenPipeError: [Errno 32] Broken pipe", Conclusion.SKIP),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", Conclusion.SKIP),
        ("queue.Full", Conclusion.SKIP),
        ("AttributeError: 'NoneType' object has no attribute 'shape'", Conclusion.BAD),
    ],
)
def test_a_peer_that_went_away_is_no_race_of_threads(error, conclusion):
    """A search for another thread race would take a closed pipe for a hit."""
    log = in_thread("QueueFeederThread", "multiprocessing/queues.py", error)

    found = classify(Evidence(log=log, returncode=0, threads=3, control="clean"))

    assert conclude(found, Outcome.parse("other_thread_race")) is not Conclusion.GOOD
    assert (conclude(found, Outcome.parse("other_thread_race")) is Conclusion.BAD) == (conclusion is Conclusion.BAD)


def test_a_torch_without_one_of_its_own_modules_is_told_from_a_package_that_is_missing():
    """The advice would be to add a package that is torch itself."""
    log = "ModuleNotFoundError: No module named 'torch._inductor.kernel.flex'\n"

    found = classify(Evidence(log=log, returncode=1, expected_torch="2.11.0"))

    assert "Torch 2.11.0 has no module torch._inductor.kernel.flex" in found.advice
    assert "add its package" in classify(Evidence(log=log.replace("torch._inductor", "apex"), returncode=1)).advice


XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
FULL = "OSError: [Errno 28] No space left on device: '/tmp/x'\n"
MEMORY = "RuntimeError: CUDA error: an illegal memory access was encountered\n"


@pytest.mark.parametrize(
    ("log", "hunt", "expected"),
    [
        (ST + XID + MEMORY, "cuda_error", Conclusion.RETRY),
        (ST + MEMORY, "cuda_error", Conclusion.BAD),
        (ST + XID + "Watchdog caught collective operation timeout\n", "hang", Conclusion.RETRY),
        (ST + XID + FX, "fx_flag_race", Conclusion.BAD),
        (ST + XID, "hardware_fault", Conclusion.BAD),
        (FULL + "torch._inductor.exc.InductorError: CppCompileError\n", "compile_error", Conclusion.ABORT),
    ],
)
def test_what_a_broken_machine_brings_about_is_no_hit_of_a_search_for_it(log, hunt, expected):
    """A card that fell off the bus would convict the build that ran on it."""
    found = classify(Evidence(log=log, returncode=1, threads=3))

    assert conclude(found, Outcome.parse(hunt)) is expected
