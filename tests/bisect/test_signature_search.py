"""A signature is looked for with a deadline, and gives way at once when the search ends."""

import threading
from bisect.judge import Question
from bisect.model import Conclusion
from bisect.probe import RunKind, RunRequest, load_record
from bisect.signature_search import search_log

import pytest

from .killing import wait_until
from .test_executor import run, runner

pytestmark = pytest.mark.subprocess
ENDLESS = "(a+)+$"
TEXT = "a" * 40 + "b\n"


def log(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_bytes(text.encode())
    return path


def test_the_first_lines_that_match_are_the_proof(tmp_path):
    """The report would show the end of the log instead of the line that counts."""
    path = log(tmp_path, "start\r 10%\rKeyError: 'é'\n" + "KeyError\n" * 9 + "x" * 3_000_000)

    assert search_log(path, r"^KeyError").lines == ("KeyError: 'é'", "KeyError", "KeyError", "KeyError")
    assert search_log(path, "nothing like it").lines == ()


def test_a_signature_that_backtracks_without_end_is_given_up(tmp_path):
    """The search would hang in the first log that has a long line, deaf to any signal."""
    found = search_log(log(tmp_path, TEXT), ENDLESS, patience_s=0.5)

    assert found.lines == ()
    assert ENDLESS in found.fault


def test_a_search_that_is_left_leaves_the_signature_too(tmp_path):
    """Ctrl-C and SIGTERM would wait for the deadline of the signature."""
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()

    with pytest.raises(KeyboardInterrupt):
        search_log(log(tmp_path, TEXT), ENDLESS, patience_s=3600, stop=stop)


def test_leaving_a_run_ends_its_judging(tmp_path):
    """A search that is interrupted while it judges would not come to its end."""
    question = Question(kind=RunKind.COMMAND, signature=ENDLESS)
    request = RunRequest(kind=RunKind.COMMAND, command=("printf", TEXT), timeout_s=30)
    here = runner(tmp_path, {"a": ""}, question=question, request=request)
    here.start("a", "run-0001")
    wait_until(lambda: load_record(tmp_path / "out" / "run-0001") is not None)

    here.cancel("run-0001")

    assert isinstance(here._pool._ended.get()[1], KeyboardInterrupt)


def test_a_command_is_judged_by_its_signature(tmp_path):
    """A run whose output matches would count by its exit code."""
    question = Question(kind=RunKind.COMMAND, signature="KeyError")
    request = RunRequest(kind=RunKind.COMMAND, command=("echo", "KeyError: 3"), timeout_s=30)

    found = run(runner(tmp_path, {"a": ""}, question=question, request=request), "a", "run-0001")

    assert [finding.observation.conclusion for finding in found] == [Conclusion.BAD]
