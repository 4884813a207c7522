"""What a search knows, replayed from its journal. Pure: the same entries give the same state, whoever wrote them.

A run is `started`, and then `observed` (it ended), `lost` (killed before it could be begun, or with the driver) or
`cancelled` (nobody wants to know any more). Only an observation is evidence.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import nodes
from .model import Conclusion, Observation, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance

    from .nodes import FaultyNode

_RUN = re.compile(r"run-([0-9]{4,9})(?![0-9])")


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
        return commit_in({"git_version": self.facts.get("code", "")})


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a search knows, replayed from its journal.

    Attributes:
        observations: every run that ended and says something, or says that it cannot.
        lost: runs that ended without a result; no evidence about a candidate.
        builds: what each environment says it is.
        open_runs: (candidate, run) of the runs under way.
        retries: runs lost so far, by candidate.
        last_run: the highest number that a run has; the next one's is higher.
    """

    observations: tuple[Observation, ...] = ()
    lost: tuple[Observation, ...] = ()
    builds: Mapping[str, BuildFacts] = field(default_factory=dict)
    open_runs: tuple[tuple[str, str], ...] = ()
    retries: Mapping[str, int] = field(default_factory=dict)
    last_run: int = 0

    @classmethod
    def replay(cls, entries: Sequence[Mapping[str, Any]]) -> State:
        """Fold the entries in order."""
        state = cls()
        for entry in entries:
            state = state.after(entry)
        return state

    def after(self, entry: Mapping[str, Any]) -> State:
        """The state one entry later; events and keys that this loop does not use change nothing."""
        named = max(self.last_run, run_number(entry.get("run") or ""))
        return dataclasses.replace(self._after(entry), last_run=named)

    def _after(self, entry: Mapping[str, Any]) -> State:
        match entry["event"]:
            case "built":
                build = BuildFacts(**known_fields(BuildFacts, entry))
                return dataclasses.replace(self, builds={**self.builds, build.candidate: build})
            case "started":
                started = (entry["candidate"], entry["run"])
                return dataclasses.replace(self, open_runs=(*self.open_runs, started))
            case "lost" | "cancelled":
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
            return dataclasses.replace(self, open_runs=still_open, retries=retries, lost=(*self.lost, seen))
        return dataclasses.replace(self, open_runs=still_open, observations=(*self.observations, seen))

    @property
    def faulty_nodes(self) -> tuple[FaultyNode, ...]:
        """Nodes that fail whatever they are given."""
        return nodes.faulty(self.observations, self.lost)

    @property
    def evidence(self) -> tuple[Observation, ...]:
        """The observations that count."""
        return nodes.without(self.observations, self.faulty_nodes)

    @property
    def pending(self) -> tuple[str, ...]:
        """Candidates whose runs are under way, one entry a run."""
        return tuple(candidate for candidate, _ in self.open_runs)

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


def commit_in(facts: Mapping[str, Any]) -> str:
    """The commit that a build says it is of, or '': torch built outside a clone says `Unknown`, whatever it is."""
    told = str(facts.get("git_version") or "")
    return "" if told.casefold() == "unknown" else told


def observation_of(entry: Mapping[str, Any]) -> Observation:
    """The observation in a journal entry."""
    return Observation(**{**known_fields(Observation, entry), "conclusion": Conclusion(entry["conclusion"])})


def known_fields(record: type[DataclassInstance], entry: Mapping[str, Any]) -> dict[str, Any]:
    """What of an entry the record holds; a newer version may have written more."""
    names = {name.name for name in dataclasses.fields(record)}
    return {key: value for key, value in entry.items() if key in names}


def run_name(number: int) -> str:
    """The name of a search's run, and of its directory."""
    return f"run-{number:04d}"


def run_number(name: str) -> int:
    """The number in the name of a run, or of a file of that run (`run-0007-baseline`); 0 for any other name."""
    match = _RUN.match(name)
    return int(match[1]) if match else 0
