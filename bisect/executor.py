"""The effects of a search: build a candidate, run it wherever runs happen, judge what the run left.

A run that happened is judged from its directory alone, so one that ended just before a kill is judged later instead
of being made again.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from envs.errors import CannotBuildError

from .changed import OUTCOME
from .files import cap_log
from .judge import Judgement, Question, control_verdict, judge, train_result
from .launch import JobLostError, Recipe, Stop, Task
from .model import Conclusion, Observation, OutcomeName
from .pace import log_ratio, pace_of
from .pool import Pool
from .probe import EvidenceGoneError, RunKind, RunRecord, RunRequest, load_record
from .state import BuildFacts, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from .builds import Builder
    from .launch import Launcher
    from .probe import Environment

CONTROLS = ("control", "control-2", "control-3")
"""Directories of the tries at the run with one thread; the first that ended counts."""


@dataclass(slots=True, kw_only=True)
class ProbeRunner:
    """Runs a search's probes.

    Attributes:
        builder: makes the environments.
        launcher: makes the runs.
        request: what is run in each environment.
        question: what is asked of a run.
        directory: the run directory of the search.
        say: told lines for a person.
        baseline: the candidate that throughput is compared with.
        baseline_request: what is run in it, where that is not `request`.
        control_at: the candidate in which the same run is made with one thread first; '' for none.
    """

    builder: Builder
    launcher: Launcher
    request: RunRequest
    question: Question
    directory: Path
    say: Callable[[str], None]
    baseline: str = ""
    baseline_request: RunRequest | None = None
    control_at: str = ""
    _pool: Pool[Finding] = field(default_factory=Pool)
    _under_way: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What runs may not be removed to make room."""
        self.builder.in_use = lambda: frozenset(
            {*self._under_way.values(), *((self.baseline,) if self.question.throughput else ())}
        )

    def build(self, candidate: str) -> BuildFacts:
        """Make the candidate's environment and ask it what it is; only lock it where nodes build for themselves."""
        return self.builder.resolved(candidate) if self.launcher.node_store else self.builder.facts(candidate)

    def start(self, candidate: str, run: str) -> None:
        """Begin a run, or a pair with the baseline; the control comes first where it is due."""
        self._under_way[run] = candidate
        built = self._environment(candidate)
        if candidate == self.control_at:
            self._control(built)
        tasks = self._tasks(built, run)
        self._pool.start(run, lambda stop: self._one(candidate, run, lambda: self.launcher.run(tasks, stop), stop))

    def resume(self, candidate: str, run: str) -> bool:
        """Take up a run begun before a kill; False when nothing is left of it."""
        directories = [self.directory / name for name in self._names(run)]
        if not self.launcher.began(directories):
            return False
        self._under_way[run] = candidate
        self._pool.start(
            run, lambda stop: self._one(candidate, run, lambda: self.launcher.resume(directories, stop), stop)
        )
        return True

    @property
    def has_ended(self) -> bool:
        """Whether a finding is there."""
        return self._pool.has_ended

    def take(self) -> Finding:
        """Wait for the next run to end."""
        finding = self._pool.take()
        self._under_way.pop(finding.observation.run, None)
        return finding

    def cancel(self, run: str) -> None:
        """End a run for good, wherever it is: one of this process, or one that a killed process had cancelled."""
        if self._under_way.pop(run, None):
            self._pool.leave(run)
        else:
            self.launcher.drop(self.directory / run)

    def avoid(self, nodes: Iterable[str]) -> None:
        """Give these nodes no more runs."""
        self.launcher.avoid(nodes)

    def close(self) -> None:
        """Leave every run; the children of this process end, jobs elsewhere go on and are found again."""
        self._pool.close()

    def _environment(self, candidate: str) -> Environment | Recipe:
        store = self.launcher.node_store
        if store is None:
            return self.builder.built(candidate)
        return Recipe(
            definition=self.builder.define(candidate),
            settings=replace(self.builder.settings, store=store),
            needs_compiler=self.builder.needs_compiler,
        )

    def _names(self, run: str) -> tuple[str, ...]:
        """Directories of a run, in the order of its parts: a pair alternates who comes first (ABBA)."""
        if not self.question.throughput:
            return (run,)
        pair = (run, f"{run}-baseline")
        return pair if int(run.rpartition("-")[2]) % 2 else pair[::-1]

    def _tasks(self, built: Environment | Recipe, run: str) -> tuple[Task, ...]:
        baseline = self._environment(self.baseline) if self.question.throughput else built
        other = self.baseline_request or self.request
        return tuple(
            Task(
                built=built if name == run else baseline,
                request=self.request if name == run else other,
                directory=self.directory / name,
            )
            for name in self._names(run)
        )

    def _one(self, candidate: str, run: str, make: Callable[[], Sequence[RunRecord]], stop: Stop) -> Finding:
        try:
            records = {record.directory.name: record for record in make()}
        except JobLostError as error:
            return _nothing_seen(candidate, run, Conclusion.RETRY, "harness_error", error.message, node=error.node)
        except (CannotBuildError, EvidenceGoneError) as error:
            return _nothing_seen(candidate, run, Conclusion.SKIP, error.outcome, error.message)
        if self.question.throughput:
            return self._pair(candidate, run, mine=records[run], other=records[f"{run}-baseline"])
        (record,) = records.values()
        judged = judge(record, self.question, control=self._control_verdict(), stop=stop.event)
        if self.question.kind is RunKind.COMMAND and (line := self.builder.edited(candidate)):
            reason = f"the command changed its environment: {line}"
            judged = Judgement(conclusion=Conclusion.ABORT, outcome=OUTCOME, reason=reason)
        _tidy(record.directory)
        return _finding(candidate, run, judged, seconds=record.seconds, node=record.node)

    def _pair(self, candidate: str, run: str, *, mine: RunRecord, other: RunRecord) -> Finding:
        """A run of the candidate and one of the baseline as one observation."""
        pace, base = pace_of(train_result(mine)), pace_of(train_result(other))
        seconds = mine.seconds + other.seconds
        for record in (mine, other):
            _tidy(record.directory)
        if pace is None or base is None:
            judged = judge(mine if pace is None else other, self.question)
            judged = replace(judged, conclusion=Conclusion.SKIP, reason="one of the pair measured no throughput")
            return _finding(candidate, run, judged, seconds=seconds, node=mine.node)
        value, drifts = log_ratio(pace, base), [one.drift for one in (pace, base) if one.drift is not None]
        line = f"{math.exp(value):.4f} of {self.baseline}'s throughput"
        judged = Judgement(conclusion=Conclusion.GOOD, outcome="ok", evidence=(line,))
        found = _finding(candidate, run, judged, seconds=seconds, node=mine.node)
        measured = replace(
            found.observation,
            value=value,
            drift=fmean(drifts) if drifts else None,
            stalled=round(pace.stalled - base.stalled, 4),
        )
        return replace(found, observation=measured)

    def _control(self, built: Environment | Recipe) -> None:
        """The same run with one drafter thread, once: without it nothing may be called a race."""
        if self._control_verdict():
            return
        self.say("control: the same run with one drafter thread")
        alone = replace(self.request, arguments=(*self.request.arguments, "--threads", "1"))
        for name in CONTROLS:
            try:
                self._control_try(Task(built=built, request=alone, directory=self.directory / name))
            except JobLostError as error:
                if name == CONTROLS[-1]:
                    raise
                self.say(f"control: {error.message}; once more")
            else:
                return

    def _control_try(self, task: Task) -> None:
        if self.launcher.began([task.directory]):
            self.launcher.resume([task.directory], Stop())
        else:
            shutil.rmtree(task.directory, ignore_errors=True)
            self.launcher.run((task,), Stop())
        _tidy(task.directory)

    def _control_verdict(self) -> str:
        records = (load_record(self.directory / name) for name in CONTROLS)
        return next((control_verdict(record) for record in records if record is not None), "")


def import_is_the_question(question: Question) -> bool:
    """Whether a torch that cannot be imported may be the failure that is hunted."""
    hunted = question.hunted
    return bool(question.signature) or bool(hunted and hunted.name is OutcomeName.IMPORT_BROKEN)


def _nothing_seen(
    candidate: str, run: str, conclusion: Conclusion, outcome: str, reason: str, *, node: str = ""
) -> Finding:
    seen = Observation(candidate=candidate, conclusion=conclusion, outcome=outcome, run=run, node=node)
    return Finding(observation=seen, reason=reason)


def _finding(candidate: str, run: str, judged: Judgement, *, seconds: float, node: str = "") -> Finding:
    observation = Observation(
        candidate=candidate,
        conclusion=judged.conclusion,
        outcome=judged.outcome,
        run=run,
        seconds=round(seconds, 3),
        node=node,
    )
    return Finding(observation=observation, evidence=judged.evidence, reason=judged.reason)


def _tidy(directory: Path) -> None:
    """A cold run's compile caches are no evidence, and a search makes hundreds; nor is a log without end."""
    for name in ("caches", "home"):
        shutil.rmtree(directory / name, ignore_errors=True)
    cap_log(directory / "log.txt")
