"""What an engine does not keep is named, and a run that would mean nothing is refused."""

from __future__ import annotations

import pytest

from envs import sandbox, seal

LIMITS = sandbox.Limits(memory_bytes=2**30, shm_bytes=2**28, num_processes=99)
KEPT = {
    "pid": 7,
    "interfaces": [],
    "root_read_only": True,
    "no_new_privileges": True,
    "capabilities": 0,
    "core_bytes": 0,
    "shm_bytes": 2**28,
    "gpus": 0,
    "memory_bytes": 2**30,
    "memory_kill_told": True,
    "num_processes": 99,
}


def _broken(*, gpus="", owner=1000, **facts):
    found = seal.broken({**KEPT, **facts}, LIMITS, gpus=gpus, user=1000, owner=owner)
    return [(item.what, item.outcome) for item in found]


def test_an_engine_that_keeps_everything_is_not_spoken_of():
    """A line at every build about nothing would hide the one that matters."""
    assert _broken() == []


def test_a_gpu_inside_is_enough():
    """An engine that gives the GPUs would be refused."""
    assert seal.broken({**KEPT, "gpus": 8}, LIMITS, gpus="all", user=1000, owner=1000) == ()


def test_gpus_that_were_dropped_are_missed():
    """An engine ignores the request without a word, and the run on the CPU would be called a run on the GPU."""
    assert _broken(gpus="all") == [("GPUs (none is inside)", "no_gpu")]


def test_files_of_a_stranger_are_noticed():
    """The user could not remove the run directory."""
    assert _broken(owner=100999) == [("files owned by the user (they belong to 100999)", "harness_error(engine)")]


@pytest.mark.parametrize(
    ("facts", "what", "outcome"),
    [
        ({"interfaces": ["eth0"]}, "no network (there is eth0)", "harness_error(engine)"),
        ({"root_read_only": False}, "a read-only root", "harness_error(engine)"),
        ({"pid": 1}, "an init (a crash of process 1 may exit with 0)", "harness_error(engine)"),
        ({"capabilities": 1}, "no capabilities", ""),
        ({"no_new_privileges": False}, "no new privileges", ""),
        ({"core_bytes": -1}, "no core dumps", ""),
        ({"memory_bytes": 0}, "the memory limit", ""),
        ({"memory_bytes": 2**40}, "the memory limit", ""),
        ({"memory_bytes": None}, "the memory limit (it cannot be read inside)", ""),
        ({"num_processes": 0}, "the process limit", ""),
        ({"memory_kill_told": False}, "saying that a kill was for memory (any 137 may be one)", ""),
        ({"shm_bytes": 2**26}, "the size of /dev/shm (it has 64 MiB)", ""),
    ],
)
def test_each_broken_promise_has_its_words(facts, what, outcome):
    """A run without network, init or GPU would be believed; one without a limit may take the node down."""
    assert _broken(**facts) == [(what, outcome)]
