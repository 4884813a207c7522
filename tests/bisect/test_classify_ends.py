"""A counter that stopped short of its total: only the plain word that the whole work is finished overrides it."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Outcome

import pytest

PARTS = (
    "evaluation finished",
    "saving checkpoint ... done",
    "saving checkpoint ...\ndone",
    "checkpoint save completed in 3.1 s",
    "saved checkpoint /ckpt/step20",
    "checkpoint: done",
    "dataloader finished shard 4",
    "done loading shard 3",
    "data prefetch done",
    "2026-11-30 12:00:01,123 INFO trainer.data - loading finished",
    "epoch 1 training finished",
    "Epoch 1/3 done",
    "epoch 1: training finished",
    "training finished for epoch 1",
    "finished training epoch 1",
    "finished training data preparation",
    "warmup training finished, starting main run",
    "training finished, moving on to the next phase",
    "all workers finished loading",
    "all workers done with warm-up",
    "2 of 3 drafters completed",
    "20/40 done",
    "[20/40] done",
    "[eval] finished",
    "process 3 finished",
    "previous training finished",
    "first run finished",
    "training finished: 9/40 steps",
    "Loading checkpoint shards: 100%|####| 4/4",
)
DENIED = (
    "Training completed: 50%",
    "training 50% complete",
    "training complete (50%)",
    "INFO training not yet finished",
    "training finished: not yet",
    "training is not finished",
    "Training finished: False",
    "training_finished=False",
    '{"event": "training finished: no"}',
    "training finished?",
)
TO_COME = (
    "Training complete soon: 20 steps left",
    "training complete in about 5 min",
    "saving checkpoint so that training can be finished later",
    "training will be finished by 12:00",
    "when training is done, the model is uploaded",
    "to be done: training",
)
QUOTED = (
    'config: message_at_end="training finished"',
    "config: early stopping, patience 3",
    "+ echo training finished",
    "# training finished",
    "on_end: print('training finished')",
    "args: max time reached -> stop",
)
NO_STOP = (
    "early stopping counter: 1 of 5",
    "early stopping=True",
    "early stopping: patience 3",
    "early stopping is disabled",
    "early stopping triggered: false",
    "no early stopping at step 9",
    "max time not reached",
)
ONE_OF_SEVERAL = (
    "drafter-0: training finished\ndrafter-1 is stuck in flex_attention",
    "[drafter-0] training finished\n[drafter-1] waiting",
    "drafter-0 finished",
    "[drafter-1] early stopping at step 9\n[drafter-0] waiting",
    "[rank1]: training finished\n[rank0]: waiting",
)
WHOLE = (
    "training finished",
    "Training finished.",
    "2026-11-30 12:00:01,123 - trainer - INFO - Training completed in 600.2 s",
    "[2026-11-30 12:00:01] [INFO] [train.py:88] Training done!",
    "INFO:train:training is complete, saved checkpoint /ckpt/last",
    'level=info ts=12:00 msg="training finished"',
    '{"level": "info", "message": "Training finished"}',
    "finished training in 12 s",
    "done training",
    "training finished, test accuracy 71%",
    "training finished: 3 of 3 drafters completed",
    "training finished, no drafter was lost, 0 aborted",
    "launcher: training finished, target servers got SIGTERM and exited",
    "all drafters finished",
    "all 3 drafters finished training",
    "all 3 drafter threads have finished",
    "drafter-0: training finished\ndrafter-1: training finished\ndrafter-2: training finished",
    "[drafter-0] done\n[drafter-1] done",
    "[rank0]: training finished",
    "Job 17 finished",
    "run completed successfully",
    "Epoch 3/3 done",
    "done",
    "All done.",
    "=== finished in 12.3 s ===",
    "{'train_runtime': 12.2, 'train_samples_per_second': 3.2}",
    "Saved final model to out/",
    "early stopping at step 9",
    "INFO Early stopping: no improvement in 3 epochs",
    "stopped early",
    "max time reached",
    "max training time of 600 s reached",
    "`Trainer.fit` stopped: `max_steps=9` reached.",
)


def judged(log, **evidence):
    found = classify(Evidence(log=log, threads=3, **evidence))
    return str(found.outcome), conclude(found, Outcome.parse("fx_flag_race")).value


def cut_at(last, total="/40"):
    return "".join(f"step {step}{total} loss {3 - step / 100:.2f}\n" for step in range(1, last + 1))


@pytest.mark.parametrize("returncode", [None, 0])
@pytest.mark.parametrize("last", [9, 20])
@pytest.mark.parametrize("line", [*PARTS, *DENIED, *TO_COME, *QUOTED, *NO_STOP, *ONE_OF_SEVERAL])
def test_no_other_word_lets_a_log_that_was_cut_vote(line, last, returncode):
    """A log that was cut before the race at 20/40 would clear a build that has it."""
    assert judged(f"{cut_at(last)}{line}\n", returncode=returncode) == ("unknown", "skip")


@pytest.mark.parametrize("line", [*PARTS, *DENIED, *TO_COME, *QUOTED, *NO_STOP, *ONE_OF_SEVERAL])
def test_steps_without_a_total_and_an_exit_code_need_the_end_of_the_whole(line):
    """Nothing would show that the log of nine steps was not cut as well."""
    assert judged(f"{cut_at(9, '')}{line}\n") == ("unknown", "skip")


@pytest.mark.parametrize("returncode", [None, 0])
@pytest.mark.parametrize("line", [*DENIED, *TO_COME, *QUOTED, *NO_STOP])
def test_an_end_denied_or_to_come_is_none_where_no_step_is_counted(line, returncode):
    """A run that never trained would vote for what it says it has yet to do."""
    assert judged(f"importing the trainer\n{line}\n", returncode=returncode) == ("unknown", "skip")


@pytest.mark.parametrize("total", ["/40", ""])
@pytest.mark.parametrize("line", WHOLE)
def test_the_plain_end_of_the_whole_work_is_one(line, total):
    """A healthy run that stopped early on purpose, or counts otherwise, would give no vote."""
    assert judged(f"{cut_at(9, total)}{line}\n") == ("ok", "good")


def test_a_worker_that_trains_alone_ends_the_whole():
    """The control with one thread would be no control."""
    log = "".join(f"[drafter-0] step {step}/40 loss 2.9\n" for step in range(1, 10)) + "[drafter-0] training finished\n"

    assert str(classify(Evidence(log=log, threads=1)).outcome) == "too_few_threads"


def test_many_workers_that_end_in_their_own_time_end_the_whole():
    """A run of more ranks than a log's last lines, or of drafters that end one by one, would give no vote."""
    ranks = "".join(f"[rank{rank}]: training finished\n" for rank in range(16))
    steps = [f"[drafter-{worker}] step {{}}/40 loss 2.9\n" for worker in range(3)]
    ends = [f"[drafter-{worker}] training finished\n" for worker in range(3)]
    first = "".join(line.format(step) for step in range(1, 10) for line in steps)
    later = "".join(steps[2].format(step) for step in range(10, 12))

    assert judged(cut_at(9) + ranks) == ("ok", "good")
    assert judged(first + "".join(ends))[0] == "ok"
    assert judged(first + ends[0] + ends[1] + steps[2].format(10) + ends[2], returncode=0)[0] == "ok"
    assert judged(first + ends[0] + ends[1] + later)[0] == "unknown"
    assert judged("".join(ends) + first + ends[1] + ends[2])[0] == "unknown"
