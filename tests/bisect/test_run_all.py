"""A fixed number of runs: what a killed process began is found again, what it lost is made again, nothing twice."""

from __future__ import annotations

import json
from bisect.commands import resume
from bisect.launch import JobLostError, Task
from bisect.run_all import TRIES, run_all
from bisect.run_directory import ANSWER, FILE_NAME, answered, keep_answer, take_up
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envs.errors import UsageError


@dataclass(frozen=True)
class Record:
    """What a run left, as far as the loop looks."""

    directory: Path


@dataclass
class Cluster:
    """Where runs happen in these tests: it knows which are under way, and which are lost when asked for."""

    under_way: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    made: list[str] = field(default_factory=list)
    taken_up: list[str] = field(default_factory=list)

    def run(self, tasks, _stop):
        (task,) = tasks
        task.directory.mkdir()  # as a real run does, which refuses a directory that is there
        self.made.append(task.directory.name)
        return self._ended(task.directory)

    def resume(self, directories, _stop):
        (directory,) = directories
        self.taken_up.append(directory.name)
        return self._ended(directory)

    def began(self, directories):
        return directories[0].name in self.under_way

    def _ended(self, directory):
        if directory.name in self.lost:
            raise JobLostError("the node is gone")
        return (Record(directory),)


def ask(root, cluster, names=("run-0001", "run-0002")):
    tasks = [Task(built=None, request=None, directory=root / name) for name in names]
    found = run_all(tasks, cluster, workers=1, check=lambda _record: None)
    return {name: record.directory.name for name, record in found.items()}


def test_a_run_that_a_killed_process_began_is_waited_for_and_not_made_again(tmp_path):
    """The cluster would run every job twice, and the first ones would answer to nobody."""
    cluster = Cluster(under_way={"run-0001"})

    assert ask(tmp_path, cluster) == {"run-0001": "run-0001", "run-0002": "run-0002"}
    assert (cluster.taken_up, cluster.made) == (["run-0001"], ["run-0002"])


def test_a_run_that_ended_with_its_process_is_made_again_from_nothing(tmp_path):
    """Half a run directory would be refused as used, or read as a run that ended."""
    (tmp_path / "run-0001").mkdir()
    (tmp_path / "run-0001" / "progress.jsonl").write_text("{}")
    cluster = Cluster()

    ask(tmp_path, cluster)

    assert cluster.made == ["run-0001", "run-0002"]
    assert not (tmp_path / "run-0001" / "progress.jsonl").exists()


def test_the_second_try_of_a_lost_run_is_found_again_too(tmp_path):
    """Its job would go on beside a third one."""
    cluster = Cluster(under_way={"run-0001", "run-0001-try-2"}, lost={"run-0001"})

    assert ask(tmp_path, cluster, ["run-0001"]) == {"run-0001": "run-0001-try-2"}
    assert (cluster.taken_up, cluster.made) == (["run-0001", "run-0001-try-2"], [])


def test_a_run_that_is_lost_every_time_is_given_up(tmp_path):
    """A node that swallows jobs would be fed for ever."""
    cluster = Cluster(lost={"run-0001", "run-0001-try-2", "run-0001-try-3"})

    with pytest.raises(JobLostError):
        ask(tmp_path, cluster, ["run-0001"])

    assert len(cluster.made) == TRIES


def test_the_same_command_goes_on_and_another_one_is_refused(tmp_path):
    """The runs of two questions would be counted together; or a killed train could never be gone on with."""
    directory = tmp_path / "out"

    assert take_up(directory, command="train", argv=["cu130"], identity="a") is False
    assert take_up(directory, command="train", argv=["cu130"], identity="a") is True
    with pytest.raises(UsageError, match="another command"):
        take_up(directory, command="train", argv=["cu130"], identity="b")


def test_a_finished_command_says_again_what_it_said_and_nothing_for_another_one(tmp_path):
    """The verdict could be had only by making every run again; or one command would be given the answer of another."""
    directory = tmp_path / "out"
    assert answered(directory, identity="a") is None
    take_up(directory, command="train", argv=["cu130"], identity="a")
    assert answered(directory, identity="a") is None

    kept = '{"kind": "train", "verdict": "hardware_fault"}'
    keep_answer(directory, text=kept, report="hardware fault\nrepeat with: x")

    found = answered(directory, identity="a")
    assert (found.json, found.report, found.code) == (kept, "hardware fault\nrepeat with: x", 6)
    with pytest.raises(UsageError, match="another command"):
        answered(directory, identity="b")
    (directory / ANSWER).write_text('{"kind": "train", "verdict": "sad"}')
    with pytest.raises(UsageError, match="is damaged"):
        answered(directory, identity="a")


def test_resume_gives_the_command_again_that_the_directory_keeps(tmp_path):
    """`resume` would look for a journal that a train has none of."""
    take_up(tmp_path / "out", command="train", argv=["cu130", "--repeat", "2"], identity="a")

    kept = resume.header_of(tmp_path / "out")

    assert (kept["command"], kept["argv"]) == ("train", ["cu130", "--repeat", "2"])
    assert json.loads((tmp_path / "out" / FILE_NAME).read_text())["cwd"] == str(Path.cwd())
