"""The tool killed with SIGKILL at every request it makes; the engine is a fake one that kills it."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from envs import container, machine, sandbox

from .fake_engine import FakeEngine, serving

pytestmark = [pytest.mark.socket, pytest.mark.subprocess]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["envs.container"])
OWNER = "store-1"


def _work(address, archive):
    """Import a base image and run in it, as a build does."""
    engine = container.connect({"DOCKER_HOST": address})
    engine.import_image(archive, "base:test", owner=OWNER)
    box = sandbox.Sandbox(
        image="base:test", argv=("true",), cwd="/", owner=OWNER, driver=machine.process_name(os.getpid())
    )
    engine.run(box)


def _child(address, archive):
    child = CONTEXT.Process(target=_work, args=(address, archive))
    child.start()
    return child


def test_a_kill_at_any_request_leaves_nothing_after_a_prune(tmp_path):
    """A container that no list of ours names would hold the GPUs until the node is restarted."""
    archive = tmp_path / "rootfs.tar"
    archive.write_bytes(b"root")
    fake = FakeEngine(looks=0)
    with serving(fake, tmp_path) as address:
        calm = _child(address, archive)
        calm.join(60)
        assert calm.exitcode == 0
        assert len(fake.created) == len(fake.removed) == 1
        killed = 0
        for number in range(1, fake.num_requests + 1):
            killed += _killed_at(number, fake, address, archive)
            _prune(fake, address)
            assert fake.containers() == [], f"killed at request {number}"

    assert killed > 6


def _killed_at(number, fake, address, archive):
    """Whether the child was killed at that request: carried out, and not answered yet."""
    fake.num_requests = 0
    child = _child(address, archive)
    fake.done = lambda reached: os.kill(child.pid, signal.SIGKILL) if reached == number else None
    child.join(60)
    fake.done = lambda _: None
    return child.exitcode == -signal.SIGKILL


def _prune(fake, address):
    engine = container.connect({"DOCKER_HOST": address})
    engine.remove_leftovers(OWNER, alive=machine.may_live)
    engine.close()


def test_a_living_driver_is_known_by_more_than_its_number():
    """Process numbers come again: the container of a dead run would be taken for that of whoever has its number now."""
    own = machine.process_name(os.getpid())
    node, boot, pid, started = own.split()

    assert machine.may_live(own)
    assert not machine.may_live(f"{node} {boot} {pid} {int(started) - 1}")
    assert not machine.may_live(f"{node} other-boot {pid} {started}")
    assert not machine.may_live("")
    assert machine.may_live(f"another-{node} {boot} {pid} 1")
