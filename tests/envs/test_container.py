"""What the engine is asked for, and what becomes of everything it can answer; against a fake engine."""

from __future__ import annotations

import signal

import pytest

from envs import container, sandbox
from envs.errors import CannotBuildError, CannotRunError

from .fake_engine import FakeEngine, serving

pytestmark = pytest.mark.socket


@pytest.fixture
def engine(tmp_path):
    """A fake engine with the real docker SDK connected to it."""
    fake = FakeEngine()
    with serving(fake, tmp_path) as address:
        fake.address = address
        fake.connection = container.connect({"DOCKER_HOST": address})
        yield fake
        fake.connection.close()


def _box(**changes):
    values = {"image": "base:test", "argv": ("python", "-c", "1"), "cwd": "/run", "owner": "store-1", **changes}
    return sandbox.Sandbox(**values)


def test_a_run_is_sealed(engine):
    """A benchmark could reach the network, gain privileges, or write over the environment it measures."""
    engine.connection.run(_box(mounts=(sandbox.Mount(path="/env"), sandbox.Mount(path="/run", read_only=False))))

    host = engine.created[0]["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == []
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert host["PidsLimit"] > 0
    assert [(mount["Target"], mount["ReadOnly"]) for mount in host["Mounts"]] == [("/env", True), ("/run", False)]


def test_limits_and_owner_reach_the_engine(engine):
    """A run without limits takes the node down; without a label nobody finds it after a kill."""
    limits = sandbox.Limits(memory_bytes=2**30, shm_bytes=2**28, num_processes=99, num_files=77, deadline_s=60)

    engine.connection.run(_box(limits=limits, user="1000:1000", driver="node boot 1 2"))

    body = engine.created[0]
    assert (body["HostConfig"]["Memory"], body["HostConfig"]["MemorySwap"]) == (2**30, 2**30)
    assert (body["HostConfig"]["ShmSize"], body["HostConfig"]["PidsLimit"]) == (2**28, 99)
    assert "60" in body["Cmd"]
    assert body["HostConfig"]["Ulimits"][1:] == [{"Name": "nofile", "Soft": 77, "Hard": 77}]
    assert body["User"] == "1000:1000"
    assert body["Labels"] == {"torch-upgrade-bisect": "store-1", "torch-upgrade-bisect.driver": "node boot 1 2"}


@pytest.mark.parametrize(("gpus", "request_"), [("all", {"Count": -1}), ("0,2", {"DeviceIDs": ["0", "2"]})])
def test_gpus_go_through_device_requests(engine, gpus, request_):
    """The container would run on the CPU and its pass would mean nothing."""
    engine.connection.run(_box(gpus=gpus))

    asked = engine.created[0]["HostConfig"]["DeviceRequests"][0]
    assert asked["Capabilities"] == [["gpu"]]
    assert {key: asked[key] for key in request_} == request_


def test_no_gpus_no_request(engine):
    """An engine without the NVIDIA runtime would refuse a CPU run."""
    engine.connection.run(_box())

    assert "DeviceRequests" not in engine.created[0]["HostConfig"]


@pytest.mark.parametrize(
    ("state", "returncode", "out_of_memory"),
    [
        ({"ExitCode": 0}, 0, False),
        ({"ExitCode": 3}, 3, False),
        ({"ExitCode": 139}, 139, False),
        ({"ExitCode": 134}, 134, False),
        ({"ExitCode": 137, "OOMKilled": True}, 137, True),
        ({"ExitCode": 0, "OOMKilled": True}, 137, True),
        ({"ExitCode": 137, "OOMKilled": False}, 137, False),
        ({"ExitCode": 135}, 135, False),
        ({"ExitCode": 0, "Error": "mount failed"}, 125, False),
    ],
)
def test_how_a_container_ended(engine, state, returncode, out_of_memory):
    """Killed for memory, crashed and told to stop are three different outcomes."""
    engine.ends = {"Status": "exited", **state}

    finished = engine.connection.run(_box())

    assert (finished.completed.returncode, finished.out_of_memory) == (returncode, out_of_memory)
    assert bool(finished.note) == (returncode in (137, 135, 125))


@pytest.mark.parametrize(("shm", "told"), [(64 << 20, True), (2 << 30, False)])
def test_a_bus_error_is_put_down_to_shared_memory_only_where_there_was_little(shm, told):
    """A crash of the build in a container with plenty of it would be the harness's fault, and run again for ever."""
    ended = sandbox.ending({"Status": "exited", "ExitCode": 135}, sandbox.Limits(shm_bytes=shm))

    assert f"it had {shm >> 20} MiB of /dev/shm" in ended.note
    assert ("insufficient shared memory" in ended.note) is told


def test_every_container_is_removed(engine):
    """Containers would pile up on the node, one per probe."""
    engine.connection.run(_box())

    assert len(engine.removed) == len(engine.created) == 1


def test_a_container_whose_start_was_refused_is_removed(engine):
    """A failed start leaves a created container behind."""
    engine.refuse["/start"] = (500, "OCI runtime create failed")

    with pytest.raises(CannotRunError):
        engine.connection.run(_box())

    assert len(engine.removed) == 1


def test_a_deadline_ends_it(engine):
    """A hanging run would hold the node for ever."""
    engine.looks = None

    finished = engine.connection.run(_box(), timeout_s=0.3)

    assert finished.completed.timed_out
    assert engine.signals == ["signal=15"]


def test_stacks_are_asked_for_from_inside(engine):
    """The init does not forward SIGABRT: sent from outside it would kill the container without a dump."""
    engine.looks = None

    engine.connection.run(_box(), watch=lambda elapsed: elapsed > 0.3, warn_signal=signal.SIGABRT)

    assert engine.execs == [["sh", "-c", sandbox.ABORT_PROGRAM]]


@pytest.mark.parametrize(
    ("message", "kind", "outcome"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', CannotRunError, "no_gpu"),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
            CannotRunError,
            "driver_too_old",
        ),
        ("nvidia-container-cli: initialization error: driver not loaded", CannotRunError, "no_gpu"),
        ("write /var/lib/docker/x: no space left on device", CannotRunError, "disk_full"),
        ("container-init binary not found on the host: stat catatonit", CannotRunError, "harness_error(engine)"),
        ("error setting rlimit type 7: operation not permitted", CannotRunError, "harness_error(engine)"),
        ("OCI runtime create failed: something new", CannotRunError, "harness_error(engine)"),
    ],
)
def test_a_refusal_is_named(engine, message, kind, outcome):
    """An engine that cannot give a GPU would look like a torch that has none."""
    engine.refuse["/start"] = (500, message)

    with pytest.raises(kind) as raised:
        engine.connection.run(_box())

    assert raised.value.outcome == outcome
    assert raised.value.hint
    assert message in raised.value.message


def test_a_missing_image_is_not_the_machines_fault(engine):
    """The advice would be to mend the engine instead of to make the image."""
    with pytest.raises(CannotBuildError) as raised:
        engine.connection.image("nowhere:1")

    assert raised.value.outcome == "not_published"


def test_an_engine_that_goes_away_is_an_error_of_its_own(engine):
    """The loss of the engine would be counted as a crash of the build."""
    engine.vanish_after = engine.num_requests + 3
    engine.looks = None

    with pytest.raises(CannotRunError) as raised:
        engine.connection.run(_box(), timeout_s=5)

    assert raised.value.outcome == "harness_error(engine_gone)"


def test_no_engine_is_one_sentence_and_exit_6(tmp_path):
    """A silent fall-back to the host would be reported as a sealed run."""
    with pytest.raises(CannotRunError) as raised:
        container.connect({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})

    assert raised.value.exit_code == 6
    assert "no container engine answers" in raised.value.message


def test_leftovers_are_removed_and_a_living_run_is_left_alone(engine):
    """After a kill nothing of ours may keep running, and a prune must not end the run of another terminal."""
    engine.looks = None
    for driver, owner in (("dead", "store-1"), ("alive", "store-1"), ("dead", "store-2")):
        engine.answer("POST", "/containers/create", "", sandbox.create_body(_box(driver=driver, owner=owner)))

    gone = engine.connection.remove_leftovers("store-1", alive=lambda driver: driver == "alive")

    assert (gone, engine.removed) == (("0" * 12,), [f"{1:064d}"])


def test_a_base_image_that_lost_its_name_goes_unless_an_environment_lives_in_it(engine):
    """Each new base image would leave the old one's half gigabyte, or the environments in it would not start again."""
    engine.unnamed = {"sha256:old": "store-1", "sha256:used": "store-1", "sha256:other": "store-2"}

    assert engine.connection.remove_old_images("store-1", used=frozenset({"sha256:used"})) == ("sha256:old",)
    assert sorted(engine.unnamed) == ["sha256:other", "sha256:used"]


@pytest.mark.parametrize(
    ("options", "rootless"), [(["name=seccomp", "name=rootless"], True), (["name=seccomp"], False)]
)
def test_a_rootless_engine_is_noticed(engine, options, rootless):
    """Under one, files written as the user's id inside belong to a stranger outside."""
    engine.security = options

    assert engine.connection.rootless() is rootless


def test_an_error_in_the_middle_of_a_pull_is_an_error(engine):
    """The engine answers 200 and tells in the last line that the disk is full."""
    engine.pulled = [{"status": "Pulling"}, {"error": "write /data/x: no space left on device"}]

    with pytest.raises(CannotRunError) as raised:
        engine.connection.pull("base:2")

    assert raised.value.outcome == "disk_full"


@pytest.mark.parametrize(("podman", "name"), [(False, "docker 1.2.3"), (True, "podman 1.2.3")])
def test_the_engine_is_named(engine, podman, name):
    """Podman ignores GPU requests silently; the evidence must say which engine it was."""
    engine.podman = podman
    connection = container.connect({"DOCKER_HOST": engine.address})
    connection.close()

    assert connection.name == name
