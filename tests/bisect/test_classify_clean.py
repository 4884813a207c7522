"""`ok` is said only of a run that could have failed: what shows no step, a dead worker or no compilation is no clean run."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.logs.text import read_lines
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX

TWO = "step 1 loss 9.1\nstep 2 loss 8.7\n"
FLAG = Outcome.parse("fx_flag_race")


def judged(log, hunt="fx_flag_race", **evidence):
    """Outcome and conclusion of a run with exit code 0 and three threads."""
    found = classify(Evidence(log=log, **{"returncode": 0, "threads": 3} | evidence))
    return str(found.outcome), conclude(found, Outcome.parse(hunt)).value


@pytest.mark.parametrize(
    "log",
    [
        "hello world\n",
        "Loading model\nDownload completed\n",
        "Loading checkpoint shards: 100%|####| 4/4 [00:10<00:00,  2.5s/it]\n",
        "Downloading model.bin:  50%|##  | 1/2 [00:10<00:10]\nDownloading model.bin: 100%|####| 2/2 [00:20<00:00]\n",
        "loading training data: done\n",
        "***** Running training *****\n  Gradient Accumulation steps = 1\n  Total optimization steps = 500\n",
        "Training finished after 0 steps\n",
        "dry run completed, training not started\n",
        "Job 17 finished\n",
        "fx_flag_trace  safe  0.3 s\nfx_flag_compile  safe  0.6 s\n",
        '{"max_steps": 100, "batch": 8}\n',
        "logging steps: 10\nwarm-up steps: 100\n",
        "importing the trainer\ndone\n",
        "Collecting torch\nSuccessfully installed torch-2.11.0\n",
    ],
)
def test_a_run_that_shows_no_step_is_no_clean_run(log):
    """A script that never came to its training would vote that the build is good."""
    assert judged(log) == ("unknown", "skip")
    assert judged(log, hunt="segfault") == ("unknown", "skip")
    assert judged(log, threads=1) == ("unknown", "skip")

    assert "result file" in classify(Evidence(log=log, returncode=0, threads=3)).advice


@pytest.mark.parametrize(
    "log",
    [
        "Training finished.\n",
        "finished training in 12 s\n",
        "{'train_runtime': 12.2, 'train_samples_per_second': 3.2}\n",
        "Epoch 1/3 done\nEpoch 2/3 done\n",
        "Saved final model to out/\n",
        "all drafters finished\n",
        "{'loss': 2.3, 'epoch': 0.1}\n{'loss': 2.2, 'epoch': 0.2}\n",
        " 90%|### | 9/10 [00:09<00:01]\r100%|####| 10/10 [00:10<00:00]\n",
    ],
)
def test_a_last_word_or_a_progress_bar_shows_steps(log):
    """A healthy run whose trainer prints its own form would give no vote."""
    assert judged(log) == ("ok", "good")


def test_an_installation_says_nothing_of_training():
    """`pip install` with exit code 0 would count as a training run without a crash."""
    log = "Collecting torch\nSuccessfully installed torch-2.11.0\n"

    assert judged(log, threads=None, hunt="segfault") == ("ok", "skip")
    assert judged(log, threads=None, hunt="resolution_conflict") == ("ok", "good")
    assert judged(TWO + log, threads=None, hunt="segfault") == ("ok", "good")


@pytest.mark.parametrize(
    "log",
    [
        "usage: train.py [-h]\n  --step 1\n  --step 2 number of steps\n",
        "options:\n  --max-steps 100\n  --batch 8, -step 2\n  --iter=3\n",
        "+ python train.py --steps 100 --iter 3\n+ python train.py [--iter 4]\n",
    ],
)
def test_the_name_of_an_option_is_no_step(log):
    """A usage text would be reported as two steps of training."""
    assert judged(log) == ("unknown", "skip")


@pytest.mark.parametrize(
    "log",
    [
        "step 0 of 100\n",
        "[drafter-0] step 0 of 100\n[drafter-1] step 0 of 100\n[drafter-2] step 0 of 100\n",
        "batch 8\nstep 0\n",
        "  0%|    | 0/100 [00:00<?, ?it/s]\n  1%|    | 1/100 [00:01<01:39]\n",
        "resuming from step 99\nstep 100\n",
        "step 0 of 100\ndata loading done\n",
        "[drafter-0] [1/100] loss 9\n[drafter-1] [1/100] loss 9\n",
    ],
)
def test_one_step_that_nothing_follows_is_no_clean_run(log):
    """A run that ended as it announced its first step would vote that the build is good."""
    assert judged(log) == ("unknown", "skip")


@pytest.mark.parametrize(
    "log",
    [
        "step 0 of 2\nstep 1 of 2\n",
        "step 0 of 100\ndone\n",
        "step 1 of 1\n",
        "epoch 1 step 0 loss 9\nepoch 2 step 0 loss 8\n",
        "- step 1\n- step 2\n",
        "--- step 1 loss 9\n--- step 2 loss 8\n",
        "steps: 10 loss 9\nsteps: 20 loss 8\n",
        "epoch 1 loss 9\nepoch 2 loss 8\n",
        "".join(f"drafter {worker} step {step} loss 9\n" for step in (1, 2) for worker in range(3)),
        "[99/100] loss 9\n[100/100] loss 8\n",
        "| epoch 1 | 2600/ 2983 batches | loss 9\n| epoch 1 | 2800/ 2983 batches | loss 8\n",
    ],
)
def test_a_second_step_or_an_end_shows_that_training_went_on(log):
    """A short healthy run would give no vote."""
    assert judged(log) == ("ok", "good")


def made(first, last, total, every=1):
    """The steps of one worker in a log."""
    return "".join(f"step {number}/{total} loss 9\n" for number in range(first, last + 1, every))


@pytest.mark.parametrize(
    "log",
    [
        made(1, 9, 40) + "[d",
        made(0, 200, 1000, every=100),
        "step 0 of 100\nstep 1 of 100\n",
        " 10%|#   | 1/10 [00:01<00:09]\r 20%|##  | 2/10 [00:02<00:08]\n",
        "| epoch 1 |  200/ 2983 batches | loss 9\n| epoch 1 |  400/ 2983 batches | loss 8\n",
        "".join(f"epoch 1 {line}\n" for line in made(1, 40, 40).splitlines()) + "epoch 2 step 1/40 loss 9\n",
        "Epoch 1/3: 100%|####| 40/40 [00:10<00:00]\nEpoch 2/3:  20%|#  | 8/40 [00:02<00:08]",
        "Loading checkpoint shards: 100%|####| 4/4 [00:10<00:00]\n" + made(1, 3, 40),
        made(1, 9, 40) + "Evaluating:  50%|#| 5/10 [00:01<00:01]\rEvaluating: 100%|##| 10/10 [00:02<00:00]\n",
    ],
)
def test_a_log_that_stops_short_of_its_last_step_is_no_clean_run(log):
    """A log that was cut when it was copied, before the failure, would vote that the build is good."""
    assert judged(log) == ("unknown", "skip")
    assert judged(log, hunt="segfault") == ("unknown", "skip")
    assert judged(f"{log}\ntraining finished\n") == ("ok", "good")

    found = classify(Evidence(log=log, returncode=0, threads=3))
    assert "no word that training ended" in found.evidence[0]
    assert "the whole log" in found.advice


@pytest.mark.parametrize(
    "log",
    [
        made(0, 39, 40),
        made(0, 990, 1000, every=10),
        made(1, 39, 40) + made(1, 40, 40),
        made(1, 40, 40),
        made(1, 40, 40) + "Evaluating:  50%|#| 5/10 [00:01<00:01]\rEvaluating: 100%|##| 10/10 [00:02<00:00]\n",
        made(1, 9, 40) + "early stopping at step 9\n",
        made(1, 2, 5).replace("step", "iter") + made(1, 40, 40),
    ],
)
def test_a_log_that_comes_to_its_last_step_is_whole(log):
    """A healthy run that counts from 0, or tells every tenth step, would give no vote."""
    assert judged(log) == ("ok", "good")


DEATHS = (
    "ERROR: drafter-2 stopped: worker died",
    "[rank1]: worker 2 died",
    "2026-11-29 12:00:01,123 ERROR thread drafter-1 crashed",
    "CRITICAL - trainer - replica 3 is dead",
    "ERROR:train:drafter-0 failed",
    "process 77 exited with code 3",
    'level=error msg="worker 2 lost"',
    "Exception in thread Thread-3 (train_loop):",
    "2 of 3 workers died",
    "INFO launcher: drafter-2 died",
    "ERROR drafter-1: KeyError: 3",
)


@pytest.mark.parametrize("line", DEATHS)
def test_a_run_in_which_a_worker_died_is_not_clean(line):
    """Two of three drafters would count as a run of three, though the third may have met the failure."""
    assert judged(f"{TWO}{line}\n") == ("unknown", "skip")
    assert judged(f"step 1 loss 9\n{line}\nstep 2 loss 8\nstep 3 loss 7\n") == ("unknown", "skip")
    assert judged(f"{TWO}{line}\n", control="clean", hunt="other_thread_race") == ("unknown", "skip")


@pytest.mark.parametrize("line", DEATHS)
def test_a_worker_that_died_explains_no_named_failure(line):
    """The race would be hidden behind what followed from it."""
    found = classify(Evidence(log=f"{TWO}{line}\n{FX}\n", returncode=1, threads=3))

    assert (str(found.outcome), found.secondary) == ("fx_flag_race", ())
    assert str(classify(Evidence(log=f"{TWO}{line}\n", returncode=137, threads=3)).outcome) == "out_of_memory(host)"


def test_an_exception_of_the_run_itself_keeps_its_name_when_it_tells_of_a_worker():
    """A mistake of the user's own launcher would be an open question."""
    traceback = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in main\n    check()\nRuntimeError: worker 2 died\n'

    assert judged(TWO + traceback, returncode=1) == ("harness_error", "skip")


@pytest.mark.parametrize(
    "line",
    [
        "INFO worker 3 stopped",
        "no worker died",
        "workers died: 0",
        "0 workers failed",
        "drafter-2 finished",
        "if a worker died it is restarted",
        "drafter-1 failed to pin memory, using pageable memory",
        "hint: worker died means that the host is short of memory",
        "ERROR: wandb upload thread died",
        "ERROR worker-1: ConnectionError, retrying",
    ],
)
def test_a_worker_that_lives_leaves_the_run_clean(line):
    """A line that denies a death, or tells of a helper's, would take the vote of a healthy run."""
    assert judged(f"{TWO}{line}\n") == ("ok", "good")


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: torch.compile is disabled (TORCHDYNAMO_DISABLE=1)",
        "W0101 12:00:01.12 77 torch/_dynamo/eval_frame.py:164] Dynamo disabled by Justknob: x, skipping set_eval_frame",
        "[INFO] torch.compile disabled via config.",
        "WARNING 04-21 12:32:11 [vllm.py:848] Enforce eager set, disabling torch.compile and CUDAGraphs.",
        "env: OMP_NUM_THREADS=4 TORCHDYNAMO_DISABLE=1",
        "  TORCH_COMPILE_DISABLE: 1",
        "os.environ['TORCHDYNAMO_DISABLE'] = '1'",
        "+ OMP_NUM_THREADS=1 TORCH_COMPILE_DISABLE=1 python train.py",
        "docker run -e TORCHDYNAMO_DISABLE=1 image",
        "torch._dynamo.config.disable = True",
        "DynamoStance(stance='force_eager')",
    ],
)
def test_a_run_without_compilation_could_not_have_failed(line):
    """A run that compiled nothing would vote that the build compiles without a race."""
    assert judged(f"{line}\n{TWO}") == ("compile_disabled", "skip")
    assert judged(f"{TWO}{line}\n") == ("compile_disabled", "skip")
    assert judged(f"{line}\n{TWO}{FX}\n", returncode=1) == ("fx_flag_race", "bad")


@pytest.mark.parametrize(
    "line",
    [
        "hint: set TORCH_COMPILE_DISABLE=1 to turn compilation off",
        "try TORCHDYNAMO_DISABLE=1 if it crashes",
        "torch.compile disabled: False",
        "torch.compile is not disabled",
        "if torch.compile is disabled, attention runs dense",
        "torch.compile is disabled for evaluation",
        "TORCHDYNAMO_DISABLE=0",
        'You can do this by removing the `torch.compile` call, or by using `torch.compiler.set_stance("force_eager")`.',
        "compile cache disabled",
        "Online softmax is disabled on the fly since Inductor decides to split the reduction.",
    ],
)
def test_a_run_that_compiled_is_clean_whatever_is_said_of_switches(line):
    """A hint of torch's own, or another switch, would take the vote of a healthy run."""
    assert judged(f"{line}\n{TWO}") == ("ok", "good")


def test_counted_compilations_outweigh_a_part_that_was_not_compiled():
    """One module left out of compilation would void a run in which the others compiled."""
    found = classify(
        Evidence(log=f"torch.compile is disabled for layer 3\n{TWO}compile events: 12\n", returncode=0, threads=3)
    )

    assert (str(found.outcome), [str(outcome) for outcome in found.secondary]) == ("ok", ["compile_disabled"])
    assert conclude(found, FLAG) is Conclusion.GOOD


@pytest.mark.parametrize("text", ["error a ", '{"step": 17, "errors": 0}, ', "fail "])
def test_one_text_repeated_without_a_newline_is_kept_a_few_times_only(text):
    """Twenty megabytes of it would be searched piece by piece for a quarter of a minute."""
    once, twice = (len(read_lines([text * (size // len(text))])) for size in (2_000_000, 4_000_000))

    assert once < 1300
    assert twice - once < 100


def test_a_count_of_thousands_of_digits_is_no_end():
    """The classifier would stop with an error of its own on a line of digits."""
    assert judged(f"step {'1' * 5000} of 3\n") == ("unknown", "skip")
    assert judged(f"threads: {'1' * 5000}\n{TWO}") == ("ok", "good")


def test_an_error_behind_a_repeated_text_is_found():
    """The pieces that look like earlier ones would take the error with them."""
    log = TWO + "error a " * 400_000 + FX + "error a " * 400_000

    assert judged(log) == ("fx_flag_race", "bad")
