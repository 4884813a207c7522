"""Slurm's queue: what it says of our jobs, asked for all of them at once; and what that means.

Slurm is asked where a job is, never what came of it: that is the record in the run directory. An answer that did not
come is not an answer: a job is gone only when a query that worked does not list it among those that may still run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass, field
from pathlib import Path

from envs import process

EVERY_S = 1.0
"""Seconds between two questions to the controller, however many jobs wait."""
FORMAT = "%i|%T|%r|%N|%j"
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED", "SPECIAL_EXIT"})
UNDER_WAY = WAITING | {"RUNNING", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
FAULT_OF_NODE = frozenset({"NODE_FAIL", "BOOT_FAIL", "FAILED"})
"""Ends without a record for which the node is blamed; a job cancelled, preempted or out of time blames none."""
HINTS: Mapping[str, str] = {
    "PartitionDown": "the partition is down: name another one in the profile",
    "PartitionTimeLimit": "time_min of the profile is more than the partition allows",
    "PartitionNodeLimit": "the partition does not have such nodes: see gpus and cpus in the profile",
    "BadConstraints": "no node fits: see gpus, cpus, exclude and extra in the profile",
    "JobHeldUser": "somebody holds the job: scontrol release it",
    "JobHeldAdmin": "an administrator holds the job",
    "ReqNodeNotAvail": "the nodes that are left are down or reserved: see sinfo -R",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of the queue. `node` is empty until the job has one."""

    id: str
    state: str
    reason: str = ""
    node: str = ""
    name: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it has not begun, or has to begin again."""
        return self.state in WAITING

    @property
    def is_under_way(self) -> bool:
        """Whether a record may still come."""
        return self.state in UNDER_WAY

    @property
    def blamed(self) -> str:
        """The node, when the job's end is its fault."""
        return self.node if self.state in FAULT_OF_NODE else ""


def parse_queue(text: str) -> tuple[Job, ...]:
    """The lines of squeue in `FORMAT`. `7|PENDING|(Resources)||bisect-x` -> a waiting job."""
    parts = (line.strip().split("|", maxsplit=4) for line in text.splitlines() if line.count("|") >= 4)
    return tuple(
        Job(id=number, state=state, reason=reason.strip("()"), node=node, name=name)
        for number, state, reason, node, name in parts
    )


def hint_for(reason: str) -> str:
    """What to do about a reason for waiting."""
    return HINTS.get(reason.partition(",")[0], "see squeue --start for when Slurm expects to start it")


def ask_squeue() -> str | None:
    """Every job of this user that Slurm still remembers, ended ones included; None where it does not answer."""
    argv = ["squeue", "--me", "--states=all", "--noheader", f"--format={FORMAT}"]
    asked = process.capture(argv, cwd=Path.cwd(), env=dict(os.environ))
    return asked.stdout if asked.returncode == 0 else None


@dataclass(slots=True, kw_only=True)
class Queue:
    """Asks squeue for all jobs of ours, at most every `EVERY_S` seconds. Thread-safe.

    Attributes:
        ask: the text of squeue in `FORMAT`, or None where it did not answer.
        clock: seconds.
    """

    ask: Callable[[], str | None] = ask_squeue
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _jobs: tuple[Job, ...] | None = None
    _asked_at: float = float("-inf")

    def jobs(self, *, since: float = float("-inf")) -> tuple[Job, ...] | None:
        """What the queue says, asked after `since` and not long ago; None when it does not answer."""
        with self._lock:
            now = self.clock()
            if now - self._asked_at >= EVERY_S or self._asked_at < since:
                text = self.ask()
                self._asked_at, self._jobs = now, None if text is None else parse_queue(text)
            return self._jobs
