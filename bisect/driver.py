"""The loop of a search: ask for the next steps, start them, append what was seen, repeat.

The loop owns the order of things and nothing else: deciding is the engine's, running is the `Runner`'s it is given,
remembering is the journal's. What it knows at any moment is `State.replay(entries)`, so going on after a kill is the
same as going on.

With several workers, whatever ends first is taken first; the engine is then asked again, told what is still under way,
and runs that became pointless are cancelled. A run is written down as started before it is begun, and as cancelled
before it is ended, so a kill between the two is mended by whoever goes on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from envs.errors import CannotBuildError, CannotRunError

from .again import resume_command
from .model import Conclusion, Observation, Probe, Problem, Step, Wait
from .state import BuildFacts, Finding, State, run_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .journal import Journal

MAX_RETRIES = 2  # runs lost to the infrastructure before the candidate's run is counted as a skip


class Runner(Protocol):
    """The effects of a search. A fake one is a search in memory."""

    def build(self, candidate: str) -> BuildFacts:
        """Make the candidate's environment, or say why it cannot be made."""

    def start(self, candidate: str, run: str) -> None:
        """Begin to run the candidate once, under this run name."""

    def resume(self, candidate: str, run: str) -> bool:
        """Take up a run begun before a kill, so that `take` gives its finding; False when nothing is left of it."""

    def take(self) -> Finding:
        """Wait for the next run to end; what it showed."""

    @property
    def has_ended(self) -> bool:
        """Whether `take` would not wait."""

    def cancel(self, run: str) -> None:
        """End a run whose answer nobody wants any more; nothing of it will be taken."""

    def avoid(self, nodes: Iterable[str]) -> None:
        """Give these nodes no more runs."""


class Decide(Protocol):
    """An engine: `engine.next_step`, the throughput one, or the one for certain probes."""

    def __call__(
        self, problem: Problem, observations: Sequence[Observation], *, workers: int, pending: Sequence[str]
    ) -> Step | Wait: ...


def nothing_useless(
    _problem: Problem, _observations: Sequence[Observation], _pending: Sequence[str]
) -> tuple[str, ...]:
    """For engines that never change their mind about a run under way."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search over its journal; `run` goes on from whatever the journal says until there is a verdict.

    Attributes:
        problem: the question.
        journal: where everything seen goes, and what is replayed.
        runner: the effects.
        decide: the engine.
        show: told what is about to happen and what happened, for progress lines.
        workers: runs under way at the same time.
        useless: which of the pending candidates need no answer any more.
        taken: the highest number of a run on disk, which a journal that was restored may know nothing of.
    """

    problem: Problem
    journal: Journal
    runner: Runner
    decide: Decide
    show: Callable[[Event], None]
    workers: int = 1
    useless: Callable[[Problem, Sequence[Observation], Sequence[str]], tuple[str, ...]] = nothing_useless
    taken: int = 0

    def run(self) -> tuple[Step, State]:
        """The verdict, and what is known. CannotRunError when a run says that the search must stop."""
        state = self._resumed(State.replay(self.journal.contents.entries))
        while True:
            problem = state.problem(self.problem)
            if state.open_runs:
                state = self._cancel(state, _runs_of(self.useless(problem, state.evidence, state.pending), state))
            free = _free(state, workers=self.workers, max_runs=self.problem.max_runs)
            if free > 0 or not state.open_runs:
                step = self.decide(problem, state.evidence, workers=max(1, free), pending=state.pending)
                if isinstance(step, Probe):
                    self.show(Event(step=step, state=state, problem=problem))
                    state = self._start(step, state)
                elif not isinstance(step, Wait):
                    return step, self._cancel(state, [run for _, run in state.open_runs])
            state = self._take_what_ended(state)

    def _resumed(self, state: State) -> State:
        """Take up what was under way, end what was cancelled, forget what never began."""
        for entry in self.journal.contents.of("cancelled"):
            self.runner.cancel(entry["run"])
        self.runner.avoid(node.node for node in state.faulty_nodes)
        for candidate, run in state.open_runs:
            if not self.runner.resume(candidate, run):
                state = self._append(state, "lost", run=run)
        return state

    def _start(self, step: Probe, state: State) -> State:
        """Build and start each; a run that ended during a build may have changed what to ask next."""
        for candidate in (step.candidate, *step.also):
            is_new = candidate not in state.builds
            if is_new:
                state = self._build(state, candidate)
            if state.builds[candidate].outcome:
                continue
            run = run_name(max(state.last_run, self.taken) + 1)
            state = self._append(state, "started", candidate=candidate, run=run)
            self.runner.start(candidate, run)
            if is_new and self.runner.has_ended:
                break
        return state

    def _take_what_ended(self, state: State) -> State:
        """Wait for one run, and take every other that has ended by then: the engine sees them together."""
        waits = True
        while state.open_runs and (waits or self.runner.has_ended):
            state = self._take(state, self.runner.take())
            waits = False
        return state

    def _cancel(self, state: State, runs: Sequence[str]) -> State:
        for run in runs:
            state = self._append(state, "cancelled", run=run)
            self.runner.cancel(run)
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
        self.runner.avoid(node.node for node in state.faulty_nodes)
        if seen.conclusion is Conclusion.ABORT:
            raise CannotRunError(
                f"the search stops: {finding.reason or seen.outcome} ({seen.candidate}, {seen.run})",
                hint=f"the journal is intact: mend the cause, then {resume_command(self.journal.path.parent)}",
                outcome=seen.outcome,
            )
        return state

    def _append(self, state: State, event: str, **fields: object) -> State:
        return state.after(self.journal.append(event, **fields))


def _free(state: State, *, workers: int, max_runs: int) -> int:
    """How many runs may start: no more than workers, and together with those under way no more than the budget."""
    under_way = len(state.open_runs)
    return min(workers - under_way, max_runs - len(state.evidence) - under_way)


def _runs_of(candidates: Sequence[str], state: State) -> list[str]:
    """A run under way for each entry of `candidates`, the newest first: it has done the least."""
    left = list(reversed(state.open_runs))
    found = []
    for candidate in candidates:
        pair = next(pair for pair in left if pair[0] == candidate)
        left.remove(pair)
        found.append(pair[1])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something to tell: a step about to be made, or a finding just taken."""

    state: State
    problem: Problem
    step: Probe | None = None
    finding: Finding | None = None
