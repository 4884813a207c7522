"""The loop of a search: ask for the next step, run it, append what was seen, repeat.

The loop owns the order of things and nothing else: deciding is `engine.next_step`, running is the `Runner` it is
given, remembering is the journal. What it knows at any moment is `State.replay(entries)`, so going on after a kill
is the same as going on.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from envs.errors import CannotBuildError, CannotRunError

from .model import Conclusion, Observation, Probe, Problem, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .journal import Journal

MAX_RETRIES = 2  # runs lost to the infrastructure before the candidate's run is counted as a skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one run showed, before the search counts it.

    Attributes:
        observation: its conclusion may be RETRY or ABORT here; those never reach the engine.
        evidence: the log lines behind the outcome.
        reason: one line for a person: why it was skipped, retried or given up.
    """

    observation: Observation
    evidence: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts:
    """What an environment says it is, or why it could not be built (`outcome` is then set)."""

    candidate: str
    seconds: float = 0.0
    outcome: str = ""
    reason: str = ""
    hint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """What two environments that are the same code have in common, or '' where that cannot be known."""
        return str(self.facts.get("code", ""))


class Runner(Protocol):
    """The effects of a search. A fake one is a search in memory."""

    def build(self, candidate: str) -> BuildFacts:
        """Make the candidate's environment, or say why it cannot be made."""

    def run(self, candidates: Sequence[str], runs: Sequence[str]) -> Iterator[Finding]:
        """Run each candidate once under the given run names; findings as they come."""

    def recover(self, candidate: str, run: str) -> Finding | None:
        """Judge a run that ended just before a kill, from its directory; None if it never ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a search knows, replayed from its journal."""

    observations: tuple[Observation, ...] = ()
    builds: Mapping[str, BuildFacts] = field(default_factory=dict)
    open_runs: tuple[tuple[str, str], ...] = ()
    retries: Mapping[str, int] = field(default_factory=dict)
    num_started: int = 0

    @classmethod
    def replay(cls, entries: Sequence[Mapping[str, Any]]) -> State:
        """Fold the entries in order."""
        state = cls()
        for entry in entries:
            state = state.after(entry)
        return state

    def after(self, entry: Mapping[str, Any]) -> State:
        """The state one entry later; events this loop does not use change nothing."""
        match entry["event"]:
            case "built":
                build = BuildFacts(**{key: value for key, value in entry.items() if key != "event"})
                return dataclasses.replace(self, builds={**self.builds, build.candidate: build})
            case "started":
                started = (entry["candidate"], entry["run"])
                return dataclasses.replace(self, open_runs=(*self.open_runs, started), num_started=self.num_started + 1)
            case "lost":
                still_open = tuple(pair for pair in self.open_runs if pair[1] != entry["run"])
                return dataclasses.replace(self, open_runs=still_open)
            case "observed":
                return self._observed(entry)
            case _:
                return self

    def _observed(self, entry: Mapping[str, Any]) -> State:
        seen = observation_of(entry)
        still_open = tuple(pair for pair in self.open_runs if pair[1] != seen.run)
        if seen.conclusion in (Conclusion.RETRY, Conclusion.ABORT):
            retries = Counter(self.retries) + Counter([seen.candidate])
            return dataclasses.replace(self, open_runs=still_open, retries=retries)
        return dataclasses.replace(self, open_runs=still_open, observations=(*self.observations, seen))

    def problem(self, base: Problem) -> Problem:
        """The problem as known now: what is cached, what is the same code, and what a build really costs."""
        built = frozenset(name for name, build in self.builds.items() if not build.outcome)
        groups: dict[str, list[str]] = {}
        for name in base.candidates:
            if name in built and self.builds[name].code:
                groups.setdefault(self.builds[name].code, []).append(name)
        equal = tuple(tuple(group) for group in groups.values() if len(group) > 1)
        return dataclasses.replace(
            base, cached=base.cached | built, equal=base.equal + equal, build_cost=self._build_cost(base)
        )

    def _build_cost(self, base: Problem) -> float:
        """Seconds of a build over seconds of a run, once both were seen; before that, what was assumed."""
        builds = [build.seconds for build in self.builds.values() if not build.outcome and build.seconds > 1.0]
        runs = [seen.seconds for seen in self.observations if seen.seconds > 0.0]
        if not builds or not runs:
            return base.build_cost
        ratio = (sum(builds) / len(builds)) / (sum(runs) / len(runs))
        return min(100.0, max(0.1, ratio))


def observation_of(entry: Mapping[str, Any]) -> Observation:
    """The observation in a journal entry."""
    names = {name.name for name in dataclasses.fields(Observation)}
    fields = {key: value for key, value in entry.items() if key in names}
    return Observation(**{**fields, "conclusion": Conclusion(entry["conclusion"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search over its journal; `run` goes on from whatever the journal says until there is a verdict.

    Attributes:
        problem: the question.
        journal: where everything seen goes, and what is replayed.
        runner: the effects.
        decide: the engine, `next_step` or the throughput one.
        show: told what is about to happen and what happened, for progress lines.
    """

    problem: Problem
    journal: Journal
    runner: Runner
    decide: Callable[[Problem, Sequence[Observation]], Step]
    show: Callable[[Event], None]

    def run(self) -> tuple[Step, State]:
        """The verdict, and what is known. CannotRunError when a run says that the search must stop."""
        state = self._recover(State.replay(self.journal.contents.entries))
        while True:
            problem = state.problem(self.problem)
            step = self.decide(problem, state.observations)
            if not isinstance(step, Probe):
                return step, state
            self.show(Event(step=step, state=state, problem=problem))
            state = self._probe(step, state)

    def _recover(self, state: State) -> State:
        for candidate, run in state.open_runs:
            finding = self.runner.recover(candidate, run)
            state = self._append(state, "lost", run=run) if finding is None else self._take(state, finding)
        return state

    def _probe(self, step: Probe, state: State) -> State:
        wanted = (step.candidate, *step.also)
        for candidate in dict.fromkeys(wanted):
            if candidate not in state.builds:
                state = self._build(state, candidate)
        runnable = [name for name in wanted if not state.builds[name].outcome]
        names = []
        for candidate in runnable:
            names.append(f"run-{state.num_started + 1:04d}")
            state = self._append(state, "started", candidate=candidate, run=names[-1])
        for finding in self.runner.run(runnable, names):
            state = self._take(state, finding)
        return state

    def _build(self, state: State, candidate: str) -> State:
        build = self.runner.build(candidate)
        if build.outcome and candidate in (self.problem.good, self.problem.bad):
            self._append(state, "refused", **dataclasses.asdict(build))
            raise CannotBuildError(
                f"the endpoint {candidate} cannot be built: {build.reason}", hint=build.hint, outcome=build.outcome
            )
        state = self._append(state, "built", **dataclasses.asdict(build))
        if not build.outcome:
            return state
        skipped = Observation(candidate=candidate, conclusion=Conclusion.SKIP, outcome=build.outcome)
        return self._take(state, Finding(observation=skipped, reason=build.reason))

    def _take(self, state: State, finding: Finding) -> State:
        """Append a finding. The third run lost to the infrastructure is a skip; an abort ends the search."""
        seen = finding.observation
        if seen.conclusion is Conclusion.RETRY and state.retries.get(seen.candidate, 0) >= MAX_RETRIES:
            seen = dataclasses.replace(seen, conclusion=Conclusion.SKIP)
        fields = {**dataclasses.asdict(seen), "evidence": finding.evidence, "reason": finding.reason}
        state = self._append(state, "observed", **fields)
        self.show(Event(finding=dataclasses.replace(finding, observation=seen), state=state, problem=self.problem))
        if seen.conclusion is Conclusion.ABORT:
            raise CannotRunError(
                f"the search stops: {finding.reason or seen.outcome} ({seen.candidate}, {seen.run})",
                hint="the journal is intact: mend the cause, then give the same command again",
                outcome=seen.outcome,
            )
        return state

    def _append(self, state: State, event: str, **fields: object) -> State:
        return state.after(self.journal.append(event, **fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something to tell: a step about to be made, or a finding just taken."""

    state: State
    problem: Problem
    step: Probe | None = None
    finding: Finding | None = None
