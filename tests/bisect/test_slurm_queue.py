"""What is concluded from Slurm's words, without a Slurm: no answer is no answer, and nobody waits silently for ever."""

import json
import threading
from bisect.launch import JobLostError, Stop
from bisect.slurm.job import run_tasks
from bisect.slurm.launcher import SlurmLauncher
from bisect.slurm.profile import Profile, job_parameters
from bisect.slurm.queue import Job, Queue, hint_for, parse_queue
from bisect.slurm.watch import Moved, Watch

import pytest

from envs.errors import CannotRunError

LINES = "7|PENDING|(Resources)||bisect-x-run-0001\n8|RUNNING|None|n3|bisect-x-run-0002\n"


def test_the_lines_of_squeue_are_read():
    """A state taken for a reason would give up every job."""
    assert parse_queue(LINES) == (
        Job(id="7", state="PENDING", reason="Resources", name="bisect-x-run-0001"),
        Job(id="8", state="RUNNING", reason="None", node="n3", name="bisect-x-run-0002"),
    )
    assert parse_queue("") == parse_queue("slurm_load_jobs error: Unable to contact slurm controller\n") == ()


@pytest.mark.parametrize(
    ("state", "under_way", "blamed"),
    [
        ("PENDING", True, ""),
        ("COMPLETING", True, ""),
        ("CANCELLED", False, ""),
        ("PREEMPTED", False, ""),
        ("TIMEOUT", False, ""),
        ("NODE_FAIL", False, "n1"),
        ("FAILED", False, "n1"),
    ],
)
def test_only_ends_that_are_the_nodes_fault_are_blamed_on_it(state, under_way, blamed):
    """Two jobs cancelled by hand would exclude a healthy node."""
    job = Job(id="1", state=state, node="n1")

    assert job.is_under_way is under_way
    if not under_way:
        assert job.blamed == blamed


def test_the_controller_is_asked_once_for_many_jobs():
    """A hundred waiting threads would ask it a hundred times a second."""
    asked, now = [], [0.0]
    queue = Queue(ask=lambda: asked.append(1) or LINES, clock=lambda: now[0])
    for _ in range(100):
        queue.jobs()
    assert len(asked) == 1
    now[0] = 2.0
    queue.jobs()
    assert len(asked) == 2
    queue.jobs(since=2.5)
    assert len(asked) == 3


class Waiting:
    """A launcher whose squeue says what is given, one answer a question, the last one for ever."""

    def __init__(self, tmp_path, answers, **profile):
        self.answers, self.said = list(answers), []
        queue = Queue(ask=self.answer, clock=iter(range(10**6)).__next__)
        self.launcher = SlurmLauncher(
            profile=Profile(**profile), folder=tmp_path / "slurm", say=self.said.append, queue=queue
        )
        self.directory = tmp_path / "run-0001"

    def answer(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self):
        return self.launcher._wait([self.directory], "7", Stop())


def test_a_controller_that_does_not_answer_loses_no_job(tmp_path):
    """While slurmctld restarts, every job would be taken for gone and submitted again."""
    waiting = Waiting(tmp_path, [None, None, None, "7|RUNNING|None|n1|x", None, "7|CANCELLED|None|n1|x"], grace_s=0)

    with pytest.raises(JobLostError, match="job 7 is gone and left no record: CANCELLED on n1"):
        waiting.wait()
    assert len(waiting.answers) == 1


def test_whether_a_run_was_submitted_is_not_guessed(tmp_path):
    """A second submission is worse than an error."""
    waiting = Waiting(tmp_path, [None])
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "run-0001.task").touch()

    with pytest.raises(CannotRunError, match="squeue does not answer, so nobody knows whether run-0001 was submitted"):
        waiting.launcher.began([waiting.directory])


def test_a_queue_that_never_starts_ends_with_the_reason_and_a_hint(tmp_path):
    """A search that waits for a partition that is down looks like one that works."""
    waiting = Waiting(tmp_path, ["7|PENDING|PartitionDown||x"], pending_min=0)

    with pytest.raises(CannotRunError, match=r"job 7 \(run-0001\) waits in the queue .*: PartitionDown") as raised:
        waiting.wait()
    assert raised.value.hint.startswith("the partition is down: name another one in the profile; jobs stay")
    assert "sinfo -R" in hint_for("ReqNodeNotAvail, UnavailableNodes:n1")


def test_a_job_waits_its_turn_while_others_of_the_search_move():
    """With four jobs on two free nodes, two wait for hours and nothing is wrong; the reason is told once."""
    said, moved = [], Moved(at=0.0)
    watch = Watch(run="run-0003", number="7", grace_s=1, pending_s=100.0, moved=moved, say=said.append)
    waits = Job(id="7", state="PENDING", reason="Resources")
    for now in range(0, 1000, 10):
        watch.see(waits, float(now))
        moved.at = float(now)
    assert said == ["run-0003: job 7 waits in the queue: Resources"]

    with pytest.raises(CannotRunError, match=r"since 18 min"):
        watch.see(waits, 1100.0)


def test_a_job_that_comes_back_after_a_requeue_is_not_given_up():
    """A requeued job is away for a moment, and its time in the queue begins anew."""
    watch = Watch(run="r", number="7", grace_s=5, pending_s=60.0, moved=Moved(at=0.0), say=repr)
    watch.see(Job(id="7", state="RUNNING", node="n1"), 0.0)
    watch.see(None, 10.0)
    watch.see(Job(id="7", state="PENDING", reason="BeginTime"), 14.0)
    watch.see(Job(id="7", state="RUNNING", node="n2"), 50.0)
    watch.see(None, 90.0)

    with pytest.raises(JobLostError):
        watch.see(None, 96.0)


def test_a_stopped_wait_leaves_the_job_alone(tmp_path):
    """Ctrl-C in the driver must not cancel what the same command will find again."""
    waiting, stop, left = Waiting(tmp_path, ["7|RUNNING|None|n1|x"]), Stop(), []

    def wait():
        try:
            waiting.launcher._wait([waiting.directory], "7", stop)
        except KeyboardInterrupt:
            left.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    stop.set(for_good=False)
    thread.join(timeout=30)

    assert left == [True]


def test_a_job_that_is_started_again_after_its_end_does_nothing(tmp_path):
    """A requeue after the record was read would move the evidence away, and burn a node-hour."""

    class Task:
        directory = tmp_path / "run-0001"

    Task.directory.mkdir()
    ended = {"returncode": 0, "timed_out": False, "seconds": 1.0, "last_progress": {}}
    (Task.directory / "record.json").write_text(json.dumps({"environment": "cu130", "argv": [], "ended": ended}))
    run_tasks([Task])

    assert [path.name for path in tmp_path.iterdir()] == ["run-0001"]


def test_a_profile_becomes_the_parameters_of_a_job():
    """A node that is avoided, an account or a whole node that never reaches sbatch."""
    profile = Profile(partition="gpu", account="ml", gpus=8, exclude=("n1",), extra=(("hold", True), ("qos", False)))
    found = job_parameters(profile, name="x", root="/shared", avoid=("n2", "n1"), exclusive=True)

    assert (found["partition"], found["gpus_per_node"], found["exclude"], found["exclusive"]) == (
        "gpu",
        8,
        "n1,n2",
        True,
    )
    assert found["additional_parameters"] == {"hold": True, "account": "ml"}
    assert "partition" not in job_parameters(Profile(), name="x", root="/", avoid=(), exclusive=False)
