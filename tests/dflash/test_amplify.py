"""Amplification: wider windows, labelled, and threads that go on after a failed step."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time

import pytest

from dflash import amplify
from dflash.profiles import SMOKE
from dflash.result import Request, ResultFile
from dflash.train import Run
from dflash.workarounds.base import Workaround

TINY = dataclasses.replace(  # one drafter: a second one would meet it in a real race on older builds
    SMOKE, num_drafters=1, steps=3, warmup_steps=1, num_layers=1, layer_types=("full",), max_context=128
)


class FailsFirst(Workaround):
    """Every drafter's first step raises, as a race would."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[object] = set()

    def step(self, shape):  # noqa: ARG002 - all shapes alike
        name = sys._getframe(1).f_locals["worker"].name
        if name not in self.seen:
            self.seen.add(name)
            raise RuntimeError("collided")
        return contextlib.nullcontext()


def run(tmp_path, *, amplified: bool) -> dict:
    request = Request(
        argv=(),
        output=tmp_path / "r.json",
        progress=None,
        profile="smoke",
        workaround="none",
        amplify=amplified,
        force="",
        imports=(),
    )
    interval = sys.getswitchinterval()
    config = dataclasses.replace(TINY, average_every=0)
    try:
        Run(request, config, FailsFirst(), ResultFile(request, config, clock=time.time())).execute()
    finally:
        sys.setswitchinterval(interval)
    return json.loads((tmp_path / "r.json").read_text())


def test_more_threads_more_shapes_and_no_meetings():
    """The rate of collisions rises with the threads, with what they compile, and with how freely they drift."""
    config = amplify.configure(SMOKE)

    assert config.num_drafters > SMOKE.num_drafters
    assert config.context_multiple < SMOKE.context_multiple
    assert config.average_every == 0
    assert config.recompile_limit > SMOKE.recompile_limit


def test_a_larger_profile_is_not_made_smaller():
    """Amplification never takes threads away."""
    config = dataclasses.replace(SMOKE, num_drafters=9, recompile_limit=999)

    assert amplify.configure(config).num_drafters == 9
    assert amplify.configure(config).recompile_limit == 999


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
def test_an_amplified_thread_goes_on_after_a_failed_step_and_does_not_count_as_completed(tmp_path):
    """One run should show every kind of failure; but a run with a failure must never look healthy."""
    result = run(tmp_path, amplified=True)
    drafters = [thread for thread in result["threads"] if thread["role"] == "drafter"]

    assert result["amplified"] is True
    assert [thread["steps"] for thread in drafters] == [2]
    assert [error["message"] for thread in drafters for error in thread["exceptions"]] == ["collided"]
    assert not any(thread["completed"] for thread in drafters)


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
def test_without_amplification_a_failed_step_ends_its_thread(tmp_path):
    """What happens in real training must not be softened."""
    result = run(tmp_path, amplified=False)

    assert [thread["steps"] for thread in result["threads"] if thread["role"] == "drafter"] == [0]
