"""How a real container ends, and what it is called: each in its own class, with advice."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from bisect.classify import Evidence, classify
from pathlib import Path

import pytest

from envs import place, sandbox, settings
from envs.errors import CannotRunError

from . import engines

pytestmark = pytest.mark.container

SHM = """
import mmap
with open("/dev/shm/block", "wb+") as file:
    file.truncate(8 << 20)
    with mmap.mmap(file.fileno(), 0) as block:
        block[:] = bytes(8 << 20)
"""


@pytest.fixture
def small(environ, small_image, tmp_path, monkeypatch):
    """A place in the small image, with a store of the test's own."""
    monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
    here = place.place_of(settings.Settings(store=tmp_path / "store", backend="container", base_image=small_image))
    yield here
    here.engine.close()


def _run(where, directory, *argv, **changes):
    log = directory / "log.txt"
    boxed = dataclasses.replace(where, **changes)
    return boxed.run(argv, cwd=directory, env={}, writable=(directory,), output=log, timeout_s=120.0)


@pytest.mark.parametrize(
    ("code", "limits", "returncode", "outcome", "told"),
    [
        (
            "x = bytearray(10**9)",
            {"memory_bytes": 64 << 20},
            137,
            "out_of_memory(host)",
            "(OOMKilled)",
        ),
        ("import os; os.kill(os.getpid(), 11)", {}, 139, "segfault", "FAULTHANDLER"),
        ("import os; os.abort()", {}, 134, "abort", "FAULTHANDLER"),
        (SHM, {"shm_bytes": 1 << 20}, 135, "harness_error", "shared memory"),
    ],
)
def test_each_end_is_its_own_outcome(small, tmp_path, code, limits, returncode, outcome, told):
    """Too little memory for the container would be called a crash of the build, and the build convicted."""
    ended = _run(small, tmp_path, "python3", "-c", code, limits=sandbox.Limits(**limits))

    found = classify(Evidence(log=(tmp_path / "log.txt").read_text(), returncode=ended.returncode))
    assert (ended.returncode, str(found.outcome)) == (returncode, outcome)
    assert told in " ".join((found.advice, *found.evidence))


def test_a_missing_gpu_runtime_is_told_before_anything_runs(small, tmp_path):
    """The run would go to the CPU, or look like a torch that sees no GPU."""
    if list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has GPUs")

    with pytest.raises(CannotRunError) as raised:
        _run(small, tmp_path, "true", gpus="all")

    assert (raised.value.outcome, raised.value.exit_code) == ("no_gpu", 6)


def test_a_run_is_held_to_everything_that_was_asked(small):
    """The engine of this test is believed only because a container of it says so."""
    assert small.shortcomings() == ()
    (kept,) = small.answers.glob("*.seal.json")
    facts = json.loads(kept.read_text())
    assert (facts["memory_bytes"], facts["capabilities"], facts["interfaces"]) == (small.limits.memory_bytes, 0, [])


def test_files_belong_to_the_user_who_ran(small, tmp_path):
    """A user could not remove a run directory that holds files of root."""
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, 1234, 1234)

    ended = _run(small, own, "python3", "-c", f"open({str(own / 'made')!r}, 'w')", user="1234:1234")

    assert ended.returncode == 0
    assert {path.name: path.stat().st_uid for path in own.iterdir()} == {"made": 1234, "log.txt": 1234}


def test_an_engine_that_dies_in_the_middle_is_neither_a_crash_nor_a_pass(daemon, small, tool, environ, tmp_path):
    """The loss of dockerd would be counted against the build; and what it ran must go when it is back."""
    if daemon is None:
        pytest.skip("the engine is not this test's to kill")
    raised = []

    def work():
        try:
            _run(small, tmp_path, "sleep", "100")
        except CannotRunError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    label = f"{sandbox.LABEL}={small.owner}"
    running = engines.eventually(lambda: small.engine._client.containers(filters={"label": label}))
    daemon.kill()
    thread.join(60)
    own = {**environ, "ENVS_STORE": str(tmp_path / "store")}
    refused = tool(own, "envs", "build", "cu130", "--backend", "container", code=6)

    assert running
    assert [error.outcome for error in raised] == ["harness_error(engine_gone)"]
    assert "no container engine answers" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 2

    assert daemon.start(), daemon.why()
    assert small.engine.remove_leftovers(small.owner, alive=lambda _: False)
    assert small.engine._client.containers(all=True, filters={"label": label}) == []
