"""Ctrl-C while a run directory is worked in: how to go on is told, whatever the timing."""

import os
import signal
import time
from bisect.interrupts import NUMBERS, interruptible, stopped_search
from bisect.journal import Journal

import pytest

from envs.errors import InterruptedRunError

from .searches import HEADER


@pytest.fixture(autouse=True)
def _handlers():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt(number):
    """Send this process a signal and wait until it is there."""
    os.kill(os.getpid(), number)
    time.sleep(0.01)


@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("second", NUMBERS)
def test_a_second_signal_neither_breaks_off_the_ending_nor_takes_the_hint(first, second):
    """`uv run` sends Ctrl-C on to a child that got it already: the hint was lost in five of eight tries."""
    ended = []

    def told():
        interrupt(second)
        return InterruptedRunError("kept", hint="go on")

    def work():
        try:
            interrupt(first)
        finally:
            interrupt(second)
            ended.append("children")

    with pytest.raises(InterruptedRunError, match="kept"), interruptible(told):
        work()
    interrupt(second)

    assert ended == ["children"]


def test_without_a_signal_the_handlers_are_as_before():
    """A library that is called later would otherwise miss its Ctrl-C."""
    before = [signal.getsignal(number) for number in NUMBERS]

    with interruptible(lambda: InterruptedRunError("never")):
        pass

    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_a_search_without_a_journal_promises_nothing(tmp_path):
    """`resume` of an empty directory is an error."""
    nothing = stopped_search(tmp_path)
    Journal.create(tmp_path / "journal.jsonl", HEADER).close()

    assert nothing.hint == "give the command again"
    assert stopped_search(tmp_path).hint.endswith(f" resume {tmp_path}")
