"""`train`: the verdict sentence, the counts, the control, the exit code, and a repeat command that parses."""

import argparse
import io
import json
import shlex
from bisect.classify import Classification
from bisect.cli import split_rest
from bisect.commands import train as command
from bisect.launch import LocalLauncher
from bisect.model import Outcome, OutcomeName
from bisect.result import WorkaroundRecord
from bisect.result_file import parse_train
from bisect.train_figures import duration
from bisect.train_report import JudgedRun, TrainAnswer, as_json, count_line, render, verdict
from dataclasses import replace

import pytest

from envs import settings, spec
from envs.errors import UsageError

from .fake_python import CLEAN, GOLDEN, RACE, fake_environment

RACED = parse_train((GOLDEN / "train.json").read_text())


def judged(outcome="ok", *, result=RACED, threads=3, name="run-0001", completed=True, **fields):
    found = Classification(**{"outcome": Outcome.parse(outcome), "evidence": (), **fields})
    return JudgedRun(
        name=name,
        threads=threads,
        classification=found,
        result=result,
        directory=f"runs/x/{name}",
        seconds=21.0,
        completed=completed,
    )


def answer(*runs, control=None):
    return TrainAnswer(
        environment="cu130",
        runs=runs,
        control=control,
        directory="runs/x",
        reproduce="python -m bisect train cu130",
        token_budget=1e9,
    )


def test_the_verdict_names_thread_step_and_control():
    """The sentence must answer what, where, when, and whether it is a race at all."""
    text = verdict(answer(judged("fx_flag_race"), control=judged(threads=1)))

    assert text == (
        "fx_flag_race: thread drafter-1 failed at step 2 in its forward, the FX tracing flag was set "
        "in cu130 (torch 2.11.0+cu130); the 1-thread control passed."
    )


def test_an_ok_under_a_workaround_says_so():
    """`ok in cu130` of runs that the lock protected would put the bare build on a cluster."""
    locked = replace(RACED, workaround=WorkaroundRecord(name="lock"))
    report = answer(judged(result=locked))

    assert "in cu130 (torch 2.11.0+cu130) with workaround lock" in verdict(report)
    assert as_json(report)["workaround"] == "lock"
    assert "workaround" not in verdict(answer(judged()))
    assert as_json(answer(judged()))["workaround"] == "none"


def test_runs_that_all_passed_say_what_they_still_allow():
    """`ok in 3/3 runs: 29-100 %` is a rate of success, where every other count is one of failures."""
    text = render(answer(*(judged() for _ in range(3)), control=judged(threads=1)))

    assert "failed in 0/3 runs: up to 63 % of runs may still fail (95 %)" in text
    assert "ok in 3/3" not in text


def test_a_control_that_fails_too_is_said():
    """Without a clean control the word race would be a guess."""
    text = verdict(answer(judged("nested_fx"), control=judged("nested_fx", threads=1, completed=False)))

    assert "the 1-thread control did not pass either (nested_fx)" in text


def test_the_verdict_is_about_the_first_failure_of_many_runs():
    """One failure hidden among eleven passes is the answer, not noise."""
    runs = [judged() for _ in range(8)] + [judged("fx_flag_race") for _ in range(4)]
    report = answer(*runs, control=judged(threads=1))

    assert verdict(report).startswith("fx_flag_race")
    assert "fx_flag_race in 4/12 runs, 95 %: 10-65 %" in render(report)
    assert as_json(report)["failed"] == 4


def test_an_amplified_run_is_labelled_everywhere():
    """An amplified rate quoted as a real one would be a lie."""
    amplified = parse_train(json.dumps(json.loads((GOLDEN / "train.json").read_text()) | {"amplified": True}))
    report = answer(*[judged("fx_flag_race", result=amplified)] * 2)

    assert ", amplified; " in verdict(report)
    assert "fx_flag_race in 2/2 runs, 95 %: 16-100 %, amplified: no rate of real training" in render(report)
    assert as_json(report)["amplified"] is True


def test_a_dead_run_without_a_result_is_reported_from_its_evidence():
    """A segfault writes no result; the report must not need one."""
    report = answer(judged("segfault", result=None, evidence=("Fatal Python error: Segmentation fault",)))

    assert "segfault: Fatal Python error: Segmentation fault in cu130; no 1-thread control" in render(report)


def test_the_whole_report_is_the_golden_one():
    """Everything promised stands in the report: table, throughput beside its context, ETA, directory, command."""
    report = render(
        answer(
            judged("fx_flag_race", evidence=("RuntimeError: Detected ...",), advice="use --workaround lock"),
            control=judged(threads=1),
        )
    )

    assert report + "\n" == (GOLDEN / "train_report.txt").read_text()


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (180, "3.0 min"), (7200, "2.0 hours"), (37 * 86400, "37.0 days")]
)
def test_durations_read_well(seconds, text):
    """An ETA of 3.2e6 s is no answer."""
    assert duration(seconds) == text


def test_no_failure_still_has_an_upper_bound():
    """0 of 12 is not never: the interval says what the clean runs still allow."""
    assert count_line(0, 12) == "0/12 runs, 95 %: 0-26 %"


@pytest.mark.parametrize(
    ("name", "code"), [("ok", 0), ("fx_flag_race", 0), ("no_gpu", 6), ("disk_full", 6), ("unknown", 4)]
)
def test_exit_codes(name, code):
    """Scripts on a cluster branch on these."""
    assert command.exit_code(answer(judged(name))) == code


def request(tmp_path, **fields):
    values = {
        "definition": spec.load("cu130"),
        "settings": settings.Settings(store=tmp_path / "store"),
        "arguments": (),
        "threads": None,
        "repeat": 1,
        "control": True,
        "cache": "cold",
        "token_budget": 1e9,
        "timeout_s": 30.0,
        "directory": tmp_path / "out",
        "reproduce": "",
    }
    return command.Request(**{**values, **fields})


@pytest.mark.subprocess
def test_a_race_is_told_from_the_control(tmp_path):
    """Fails with three threads, passes with one: that, and only that, is a race."""
    built = fake_environment(tmp_path, RACE)
    found = command.train(request(tmp_path, repeat=2), built, LocalLauncher(), stderr=io.StringIO())

    assert [run.classification.outcome.name for run in found.runs] == [OutcomeName.FX_FLAG_RACE] * 2
    assert found.control.completed
    assert found.control.threads == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["control", "run-0001", "run-0002"]


@pytest.mark.subprocess
def test_a_warm_cache_comes_from_a_run_made_for_it(tmp_path):
    """`--cache warm` must measure a run that starts with what another run compiled."""
    body = CLEAN + "\nd = os.environ['TORCHINDUCTOR_CACHE_DIR']\nos.makedirs(d, exist_ok=True)\n"
    body += "print(os.listdir(d))\nopen(d + '/graph', 'w').close()"
    built = fake_environment(tmp_path, body)
    found = command.train(request(tmp_path, cache="warm", control=False), built, LocalLauncher(), stderr=io.StringIO())

    assert found.control is None
    assert (tmp_path / "out" / "fill-cache" / "log.txt").read_text() == "[]\n"
    assert (tmp_path / "out" / "run-0001" / "log.txt").read_text() == "['graph']\n"


@pytest.mark.subprocess
def test_a_refused_profile_is_a_usage_error_with_the_benchmarks_reason(tmp_path):
    """`--profile node8` on a laptop must say what is missing, not 'unknown outcome'."""
    built = fake_environment(tmp_path, "print('node8 needs 8 GPUs, 0 are here'); sys.exit(2)")

    with pytest.raises(UsageError, match="node8 needs 8 GPUs, 0 are here"):
        command.train(request(tmp_path), built, LocalLauncher(), stderr=io.StringIO())


def parse(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options, rest = split_rest(words)
    return parser.parse_args(options, argparse.Namespace(rest=rest, argv=words))


def test_the_repeat_command_means_the_same_run():
    """The printed command is what people paste into an issue."""
    words = "cu130 --threads 4 --steps 7 --repeat 3 --amplify --workaround lock --set a=1 --cache warm --no-control"
    args = parse(*shlex.split(words), "--", "--deadline-s", "5")
    first = command.request_of(args)

    again = command.request_of(parse(*shlex.split(first.reproduce)[4:]))

    assert again.arguments == first.arguments
    assert (again.threads, again.repeat, again.cache, again.control) == (4, 3, "warm", False)


@pytest.mark.parametrize(
    "words", ["cu130 --cache hot", "cu130 --repeat 0", "cu130 --threads 0", "cu13", "cu130 --date 2026-02-15"]
)
def test_wrong_options_are_usage_errors_with_a_hint(words):
    """A wrong option must fail before anything is built."""
    with pytest.raises(UsageError):
        command.request_of(parse(*words.split()))


@pytest.mark.subprocess
def test_a_used_run_directory_is_refused_before_anything_is_built(tmp_path):
    """Nothing half-made: neither the environment nor the directory."""
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(UsageError, match="exists already"):
        command.run(parse("cu130", "--out", str(tmp_path)), stdout=io.StringIO(), stderr=io.StringIO())


def test_json_has_no_nan():
    """NaN is not JSON; a run that measured nothing has null."""
    text = (GOLDEN / "train.json").read_text()
    empty = json.loads(text)
    empty["throughput"] = {}
    result = parse_train(json.dumps(empty))

    json.dumps(as_json(answer(judged(result=result))), allow_nan=False)


def test_a_gpu_is_named_with_how_busy_and_how_full_it_was():
    """Near-idle GPUs with full memory were the incident's clue; a raw dictionary is not readable."""
    content = json.loads((GOLDEN / "train.json").read_text())
    content["environment"]["gpus"] = [
        {"index": 0, "name": "NVIDIA H200", "capability": "9.0", "memory_bytes": 150_000_000_000}
    ]
    content["process"] |= {"gpu_utilization": [31.4], "peak_gpu_bytes": [64 * 2**30]}
    text = render(answer(judged(result=parse_train(json.dumps(content)))))

    assert "GPU:        NVIDIA H200 (9.0, 140 GiB); busy 31 %; peak memory 64.0 GiB" in text
