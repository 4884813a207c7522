"""One job over time: when waiting is told, when it is gone, when it never starts. Pure: the clock is an argument."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass

from envs.errors import CannotRunError

from ..launch import JobLostError
from .queue import Job, hint_for

SAY_WAITING_S = 30.0
"""Seconds in the queue after which the reason is told."""


@dataclass(slots=True, kw_only=True)
class Moved:
    """When any job of a search last started or ended: while some do, the others only wait for their turn."""

    at: float


@dataclass(slots=True, kw_only=True)
class Watch:
    """What was seen of a job.

    Attributes:
        run: the run it makes.
        number: its number.
        grace_s: seconds it may be gone before its record is given up.
        pending_s: seconds it may wait, no job of the search moving, before the search ends.
        moved: shared by all jobs of the search.
        say: told lines for a person.
    """

    run: str
    number: str
    grace_s: float
    pending_s: float
    moved: Moved
    say: Callable[[str], None]
    _job: Job | None = None
    _waiting_since: float | None = None
    _gone_since: float | None = None
    _said: str = ""

    def see(self, job: Job | None, now: float) -> None:
        """Take in what the queue says; JobLostError when it is gone, CannotRunError when nothing ever starts."""
        self._job = job or self._job
        if job is not None and job.is_under_way:
            self._gone_since = None
            if job.is_waiting:
                self._waits(job, now)
            else:
                self._waiting_since, self.moved.at = None, now
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since > self.grace_s:
            raise self._lost()

    def _waits(self, job: Job, now: float) -> None:
        since = self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if now - since > SAY_WAITING_S and job.reason != self._said:
            self._said = job.reason
            self.say(f"{self.run}: job {job.id} waits in the queue: {job.reason}")
        if now - max(since, self.moved.at) > self.pending_s:
            raise CannotRunError(
                f"job {job.id} ({self.run}) waits in the queue since {(now - since) / 60:.0f} min, and no other job of "
                f"this search starts either: {job.reason}",
                hint=f"{hint_for(job.reason)}; jobs stay in the queue; the same command with the same --out goes on "
                "(pending_min)",
            )

    def _lost(self) -> JobLostError:
        state = self._job.state if self._job else "no longer known to Slurm"
        hint = "; raise time_min of the profile" if state == "TIMEOUT" else ""
        where = f" on {self._job.node}" if self._job and self._job.node else ""
        error = JobLostError(f"job {self.number} is gone and left no record: {state}{where}{hint}")
        error.node = self._job.blamed if self._job else ""
        return error
