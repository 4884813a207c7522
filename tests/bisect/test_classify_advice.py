"""What `classify` says to do next: why a clean run is no vote, what is still to be given, and nothing that was given already."""

from __future__ import annotations

import argparse
import io
import json
from bisect.classify import Evidence, classify
from bisect.classify.conclusion import advise
from bisect.commands import classify as command

import pytest

from .wordings import FX


def rows(*arguments):
    """The rows of `--json`."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    stdout = io.StringIO()
    command.run(parser.parse_args(["--json", *map(str, arguments)]), stdout=stdout, stderr=io.StringIO())
    return json.loads(stdout.getvalue())


HF_LOSSES = "".join(f"{{'loss': {9 - step}.1, 'grad_norm': 1.2, 'epoch': 0.{step}}}\n" for step in (3, 6, 9))
HF_BARS = "".join(f" {33 * step}%|###| {step}/3 [00:0{step}<00:01,  1.00s/it]\r" for step in (1, 2))
HF_SUMMARY = "{'train_runtime': 12.2, 'train_steps_per_second': 0.2, 'train_loss': 8.6, 'epoch': 1.0, 'step': 3}\n"


@pytest.mark.parametrize(
    "text",
    [
        HF_LOSSES + HF_SUMMARY,
        HF_LOSSES + "100%|####| 3/3 [00:12<00:00,  4.07s/it]" + HF_SUMMARY,
        HF_LOSSES + HF_SUMMARY + "100%|####| 3/3 [00:12<00:00,  4.07s/it]\n",
        HF_BARS + HF_LOSSES + HF_SUMMARY,
        HF_LOSSES + "TrainOutput(global_step=3, training_loss=8.6)\n" + HF_SUMMARY,
        HF_LOSSES.replace("8.1", "'8.1'") + HF_SUMMARY,
        "".join(f"[drafter-{worker}] step {step}/3\n" for step in (1, 2, 3) for worker in range(3)),
    ],
)
def test_each_step_is_counted_once_however_often_it_is_told(tmp_path, text):
    """A summary, a bar and each of three workers would be steps of their own, and the proof a wrong count."""
    path = tmp_path / "run.log"
    path.write_text(text)

    (row,) = rows(path, "--rc", 0)

    assert row["evidence"][0].startswith("3 steps reported,")


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (HF_LOSSES + HF_SUMMARY, (), "more than one ran: give how many (--threads N)"),
        (HF_LOSSES + HF_SUMMARY, ("--hunt", "any"), "more than one ran: give how many (--threads N)"),
        ("[drafter-0] step 1/2\n[drafter-0] step 2/2\n", (), "more than one ran: give how many (--threads N)"),
        ("Collecting torch\nSuccessfully installed torch-2.11.0\n", (), "give the log of the training"),
    ],
)
def test_a_clean_run_that_does_not_count_says_why_and_what_to_give(tmp_path, text, words, told):
    """A clean run without a vote would be told that there is nothing to do."""
    path = tmp_path / "run.log"
    path.write_text(text)

    (row,) = rows(path, "--rc", 0, *words)

    assert (row["class"], row["conclusion"]) == ("ok", "skip")
    assert "It does not count because" in row["advice"]
    assert told in row["advice"]
    assert "Nothing to do" not in row["advice"]


def test_a_clean_run_that_counts_asks_for_another():
    """Nobody would be told that one clean run is weak evidence."""
    found = classify(Evidence(log=HF_LOSSES + HF_SUMMARY, returncode=0, threads=3))

    assert "a single clean run is weak evidence" in advise(found)


ASKED = {"--rc": ("--rc", 1), "--threads": ("--threads", 3), "--env": ("--env", "OMP_NUM_THREADS=8")}


@pytest.mark.parametrize("given", [(), ("--rc",), ("--threads",), ("--rc", "--threads"), tuple(ASKED)])
def test_an_unknown_run_asks_only_for_what_was_not_given(tmp_path, given):
    """Somebody who gave the exit code would be asked for it, and look for a mistake of their own."""
    path = tmp_path / "run.log"
    path.write_text("step 1 loss 9\nstep 2 loss 8\n")

    (row,) = rows(path, *(word for option in given for word in ASKED[option]))

    assert row["class"] == "unknown"
    assert {option for option in ASKED if option in row["advice"]} == set(ASKED) - set(given)
    assert "the whole log" in row["advice"]


@pytest.mark.parametrize("line", [FX, "RuntimeError: dictionary changed size during iteration"])
@pytest.mark.parametrize(("words", "asks"), [((), True), (("--control", "clean"), False)])
def test_a_control_is_asked_for_only_where_there_was_none(tmp_path, line, words, asks):
    """After `the 1-thread control passed` the advice would be to run one."""
    path = tmp_path / "run.log"
    path.write_text(
        f'Traceback (most recent call last):\n  File "/env/torch/_dynamo/convert_frame.py", line 1, in f\n    x\n{line}\n'
    )

    (row,) = rows(path, "--threads", 3, *words)

    assert row["class"].partition("(")[0] in ("fx_flag_race", "other_thread_race")
    assert ("1-thread control" in row["advice"]) == asks


def test_memory_of_the_host_is_no_matter_of_the_gpu(tmp_path):
    """Somebody whose loader workers took all memory would look at the attention, and make the batch smaller."""
    path = tmp_path / "run.log"
    path.write_text(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the tasks have been OOM Killed.\n"
    )

    (row,) = rows(path, "--rc", 1)
    (behind,) = rows(path, "--rc", 1, "--hunt", "out_of_memory(host)")

    assert row["class"] == "out_of_memory(host)"
    assert row["advice"] == behind["advice"]
    assert all(word in row["advice"] for word in ("--mem", "loader workers", "dmesg"))
    assert not any(word in row["advice"] for word in ("attention", "batch", "anchors"))
