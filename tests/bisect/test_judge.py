"""What one run means for the question: BAD only for the hunted failure, never GOOD when it could not have shown it."""

import json
from bisect.judge import Question, control_verdict, judge, judge_command
from bisect.model import Conclusion, Outcome
from bisect.probe import RunKind, RunRecord
from bisect.signature_search import Matches
from dataclasses import replace
from pathlib import Path

import pytest

from .fake_python import GOLDEN


def record(tmp_path, *, result=None, log="", returncode=0, timed_out=False, name="run-0001"):
    """A run directory as `run_once` leaves it."""
    directory = Path(tmp_path) / name
    directory.mkdir(parents=True)
    (directory / "record.json").write_text(json.dumps({"variables": {}}))
    (directory / "log.txt").write_text(log)
    if result is not None:
        (directory / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    return RunRecord(
        directory=directory,
        returncode=returncode,
        timed_out=timed_out,
        seconds=1.0,
        result_path=directory / "result.json",
        log_path=directory / "log.txt",
    )


FX = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function.\n"


@pytest.mark.parametrize("found", [True, False])
def test_a_run_that_was_ended_for_its_log_counts_by_what_stands_in_it(tmp_path, found):
    """A flood would be a hang, or a clean run that was cut; the failure in the middle of one would be lost."""
    steps = "".join(f"step {step}/40 loss 9.1\n" for step in range(30))
    log = f"{steps}{FX if found else ''}{'warning, once more' * 9}\n" * 3
    ended = replace(record(tmp_path, log=log, returncode=-6), cut="its log passed 1 GiB")
    judged = judge(ended, Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race"), threads=3))

    assert judged.conclusion is (Conclusion.BAD if found else Conclusion.SKIP)
    assert judged.outcome == ("fx_flag_race" if found else "harness_error")
    assert found or "its log passed 1 GiB" in judged.reason
    assert control_verdict(replace(ended, returncode=0)) == "failed"


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("returncode", [0, 143])
def test_a_command_that_was_ended_for_its_log_counts_by_its_signature_alone(found, returncode):
    """Its exit code is of our signal: 0 after one would be good, and 128 and above end the search."""
    matches = Matches(lines=("AssertionError: 3",) if found else ())
    cut = "its log passed 1 GiB"
    judged = judge_command(("...",), returncode=returncode, timed_out=False, matches=matches, cut=cut)

    assert judged.conclusion is (Conclusion.BAD if found else Conclusion.SKIP)
    assert found or (judged.outcome, judged.reason) == ("harness_error", "the command was ended: its log passed 1 GiB")


@pytest.mark.parametrize(
    ("returncode", "conclusion"),
    [
        (0, Conclusion.GOOD),
        (1, Conclusion.BAD),
        (124, Conclusion.BAD),
        (125, Conclusion.SKIP),
        (126, Conclusion.BAD),
        (127, Conclusion.BAD),
        (128, Conclusion.ABORT),
        (255, Conclusion.ABORT),
        (-11, Conclusion.ABORT),
    ],
)
def test_the_protocol_of_git_bisect_run(returncode, conclusion):
    """People bring scripts written for git bisect run; each code must mean the same here."""
    judged = judge_command(("some output",), returncode=returncode, timed_out=False, matches=None)

    assert judged.conclusion is conclusion


@pytest.mark.parametrize(
    ("matched", "returncode", "conclusion"),
    [
        (("KeyError: 'custom'",), 1, Conclusion.BAD),
        (("KeyError: 'custom'",), 0, Conclusion.BAD),
        (("KeyError: 'custom'",), -11, Conclusion.BAD),
        ((), 0, Conclusion.GOOD),
        ((), 1, Conclusion.SKIP),
        ((), -11, Conclusion.SKIP),
        ((), 125, Conclusion.SKIP),
        ((), 134, Conclusion.SKIP),
        ((), 255, Conclusion.SKIP),
        ((), 130, Conclusion.ABORT),
        ((), -2, Conclusion.ABORT),
    ],
)
def test_with_a_signature_only_its_match_is_bad(matched, returncode, conclusion):
    """An ImportError counted as the hunted KeyError sends the search to the wrong build."""
    matches = Matches(lines=matched)
    judged = judge_command(("the end",), returncode=returncode, timed_out=False, matches=matches)

    assert judged.conclusion is conclusion
    assert not matched or judged.evidence == matched


def test_a_signature_that_comes_to_no_end_is_no_vote():
    """Every run would wait for its deadline, and the one without an answer would count."""
    judged = judge_command(
        (), returncode=0, timed_out=False, matches=Matches(fault="the signature '(a+)+$' did not end")
    )

    assert (judged.conclusion, judged.outcome) == (Conclusion.ABORT, "harness_error")
    assert "(a+)+$" in judged.reason


def test_running_out_of_time_is_no_vote():
    """A slow machine must not look like a bad build."""
    judged = judge_command(("...",), returncode=-15, timed_out=True, matches=None)

    assert (judged.conclusion, judged.outcome) == (Conclusion.SKIP, "hang(deadline)")


def hazards(answer):
    content = json.loads((GOLDEN / "hazards.json").read_text())
    content["hazards"] = [{**content["hazards"][0], "name": "fx_flag_trace", "answer": answer}]
    return content


@pytest.mark.parametrize(
    ("answer", "conclusion"),
    [
        ("leaks", Conclusion.BAD),
        ("safe", Conclusion.GOOD),
        ("not-applicable", Conclusion.SKIP),
        ("could-not-test", Conclusion.SKIP),
    ],
)
def test_a_hazard_that_was_not_tested_is_never_good(tmp_path, answer, conclusion):
    """`not tested` must never look like `ok`."""
    question = Question(kind=RunKind.HAZARDS, hazard="fx_flag_trace")

    assert judge(record(tmp_path, result=hazards(answer)), question).conclusion is conclusion


def test_a_missing_answer_is_a_skip_with_the_reason(tmp_path):
    """A probe that crashed, or an old one without this hazard, says nothing."""
    question = Question(kind=RunKind.HAZARDS, hazard="fx_patcher")
    other = judge(record(tmp_path, result=hazards("leaks")), question)
    crashed = judge(record(tmp_path, name="b", returncode=1, log="ImportError: no torch"), question)
    log = "error: workaround thread-local-flag cannot be used: the flag is a thread's\nhint: choose another one"
    refused = judge(record(tmp_path, name="c", returncode=2, log=log), question)

    assert refused.reason == "no answer of the probe: " + log.splitlines()[0].removeprefix("error: ")
    assert (other.conclusion, other.reason) == (Conclusion.SKIP, "fx_patcher: could-not-test")
    assert crashed.conclusion is Conclusion.SKIP


def race():
    return json.loads((GOLDEN / "train.json").read_text())


def test_the_hunted_race_behind_another_one_is_bad_and_said_so(tmp_path):
    """`BAD other_thread_race(metrics_context)` in a hunt for the FX race looks like a mistake."""
    content = race()
    first = next(thread for thread in content["threads"] if thread["exceptions"])
    metrics = {
        **first["exceptions"][0],
        "type": "RuntimeError",
        "message": "Cannot update compile_metrics when metrics_context is not in progress",
        "at_s": 0.1,
        "fx_flag": False,
    }
    content["threads"][-1].update(exceptions=[metrics], completed=False)
    judged = judge(
        record(tmp_path, result=content, returncode=1),
        Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race")),
        control="clean",
    )

    assert judged.conclusion is Conclusion.BAD
    assert judged.outcome.startswith("other_thread_race")
    assert judged.reason == "fx_flag_race was seen behind it"


def test_the_hunted_race_is_bad_and_another_hunt_skips_it(tmp_path):
    """A race seen while hunting an out-of-memory is neither."""
    run = record(tmp_path, result=race(), returncode=1)
    hunted = Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race"))
    other = Question(kind=RunKind.TRAIN, hunted=Outcome.parse("out_of_memory(gpu)"))

    assert judge(run, hunted, control="clean").conclusion is Conclusion.BAD
    assert judge(run, other, control="clean").conclusion is not Conclusion.BAD
    assert judge(run, other, control="clean").conclusion is not Conclusion.GOOD


def test_a_race_with_a_failing_control_is_not_one(tmp_path):
    """If one thread fails the same way, three threads failing prove no race."""
    run = record(tmp_path, result=race(), returncode=1)
    question = Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race"))

    assert judge(run, question, control="failed").conclusion is not Conclusion.BAD


@pytest.mark.parametrize("text", ["", "{", '{"schema": 99, "kind": "train"}', "[]"])
def test_an_unreadable_result_is_never_good(tmp_path, text):
    """A torn result file beside exit 0 must not pass for a clean run."""
    question = Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race"))
    judged = judge(record(tmp_path, result=text), question)

    assert judged.conclusion not in (Conclusion.GOOD, Conclusion.BAD)


def test_the_control_passes_when_it_gets_through(tmp_path):
    """Ending well is what the control is for; that one thread cannot race is no finding."""
    assert control_verdict(record(tmp_path)) == "clean"
    assert control_verdict(record(tmp_path, name="b", returncode=1)) == "failed"
    assert control_verdict(record(tmp_path, name="c", timed_out=True)) == "failed"
