"""The line that runs a container once more: as sealed as the run that it repeats."""

from itertools import pairwise

import pytest

from envs.run_line import Sealed, client_of, run_line
from envs.sandbox import Limits, Mount, Sandbox


def line(**changes):
    values = {"image": "sha256:1234", "argv": ("python", "-c", "1"), "cwd": "/run", **changes}
    return run_line(Sealed(client=("docker",), box=Sandbox(**values)))


def values_of(option, words):
    return [value for name, value in pairwise(words) if name == option]


def test_the_line_has_the_limits_of_the_run():
    """With more memory or shared memory than the run had, its failure would not come back."""
    words = line(limits=Limits(memory_bytes=2**30, shm_bytes=2**28, num_processes=99, num_files=77), user="7:8")

    assert (values_of("--memory", words), values_of("--memory-swap", words)) == ([str(2**30)], [str(2**30)])
    assert (values_of("--shm-size", words), values_of("--pids-limit", words)) == ([str(2**28)], ["99"])
    assert values_of("--ulimit", words) == ["core=0:0", "nofile=77:77"]
    assert values_of("--user", words) == ["7:8"]


def test_no_limit_of_memory_is_none():
    """`--memory 0` is refused by some engines."""
    assert "--memory" not in line(limits=Limits(memory_bytes=0))


@pytest.mark.parametrize(("gpus", "asked"), [("", []), ("all", ["all"]), ("0,2", ['"device=0,2"'])])
def test_gpus_are_asked_for_as_the_run_asked(gpus, asked):
    """A repetition on the CPU answers another question."""
    assert values_of("--gpus", line(gpus=gpus)) == asked


def test_a_path_with_a_comma_stays_one_path():
    """Mounts are a line of CSV: the rest of the path would be read as an option."""
    words = line(mounts=(Mount(path="/a,b"),))

    assert values_of("--mount", words) == ['type=bind,"source=/a,b","target=/a,b",readonly']


@pytest.mark.parametrize(
    ("engine", "client"),
    [("docker 28.2.2", ("docker", "--host", "unix:///sock")), ("podman 4.3.1", ("podman", "--url", "unix:///sock"))],
)
def test_the_client_asks_the_engine_of_the_run(engine, client):
    """Another engine may hold no such image, or another seal."""
    assert client_of(engine, "unix:///sock") == client
