"""The loop of a package search: ask for the next mix, build and run it, write it down, repeat."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from envs.errors import CannotBuildError, CannotRunError

from ..again import resume_command
from ..driver import MAX_RETRIES
from ..model import Conclusion
from ..state import known_fields, run_name, run_number
from . import ProbeSet, SetObservation, SetProblem, next_set, speed_step
from .differences import Item, ItemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..journal import Journal
    from ..probe import RunRequest
    from ..state import BuildFacts, Finding
    from . import ItemSet, SetStep

GOOD, BAD = "good", "bad"


def _hint(build: BuildFacts) -> str:
    """What to do about an end that cannot be built; lists written by hand are the usual reason for a lacking module."""
    lacking = "No module named" in build.reason
    return build.hint or ("a list is incomplete: give a whole `pip freeze`, or add what is missing" if lacking else "")


class MixRunner(Protocol):
    """The effects of a search: `executor.ProbeRunner`, or a fake.

    `request` is what the next run runs, `baseline_request` what the good environment beside it does.
    """

    request: RunRequest
    baseline_request: RunRequest | None

    def build(self, candidate: str) -> BuildFacts: ...
    def start(self, candidate: str, run: str) -> None: ...
    def resume(self, candidate: str, run: str) -> bool: ...
    def take(self) -> Finding: ...


def mix_name(mix: ItemSet, problem: SetProblem) -> str:
    """`good`, `bad`, or a short digest of the mix."""
    if not mix:
        return GOOD
    if len(mix) == len(problem.items):
        return BAD
    return f"mix-{hashlib.sha256(json.dumps(sorted(mix)).encode()).hexdigest()[:8]}"


def problem_of(plan: Mapping[str, Any], *, confidence: float, max_runs: int) -> SetProblem:
    """The problem in a journal's plan, with the budget of now."""
    return SetProblem(
        items=tuple(item["id"] for item in plan["items"]),
        weights=tuple(item["weight"] for item in plan["items"]),
        needs=tuple((one, two) for one, two in plan["needs"]),
        families=tuple(frozenset(family) for family in plan["families"]),
        confidence=confidence,
        max_runs=max_runs,
        built=frozenset({frozenset[str](), frozenset(item["id"] for item in plan["items"])}),
    )


def decision(plan: Mapping[str, Any]) -> Callable[[SetProblem, Sequence[SetObservation]], SetStep]:
    """The rule of a journal's plan: failures are counted, or throughput is compared in pairs."""
    if plan.get("throughput"):
        return partial(speed_step.next_set, min_effect=plan["min_effect"])
    return next_set


def items_of(plan: Mapping[str, Any]) -> tuple[Item, ...]:
    """The items in a journal's plan."""
    return tuple(Item(**{**known_fields(Item, item), "kind": ItemKind(item["kind"])}) for item in plan["items"])


def observations_of(entries: Sequence[Mapping[str, Any]]) -> list[SetObservation]:
    """What the journal's entries say was seen, runs lost to the infrastructure left out."""
    return [
        SetObservation(
            items=frozenset(entry["items"]),
            conclusion=Conclusion(entry["conclusion"]),
            outcome=entry["outcome"],
            run=entry["run"],
            seconds=entry["seconds"],
            value=entry.get("value"),
            drift=entry.get("drift"),
            stalled=entry.get("stalled", 0.0),
        )
        for entry in entries
        if entry["event"] == "observed" and entry["conclusion"] not in (Conclusion.RETRY, Conclusion.ABORT)
    ]


@dataclass(slots=True, kw_only=True)
class SetSearch:
    """One search over its journal.

    Attributes:
        problem: the question.
        items: the differences.
        journal: where everything seen goes.
        runner: builds and runs a mix by its name.
        request: what is run in the good environment; the mix adds its variables, cache and imports.
        mixes: the mix of every name used so far; `runner` looks them up here.
        show: told lines for a person.
        decide: the rule of the search.
        last_run: the highest number of a run on disk; the next one's is higher than that and any in the journal.
    """

    problem: SetProblem
    items: tuple[Item, ...]
    journal: Journal
    runner: MixRunner
    request: RunRequest
    mixes: dict[str, ItemSet]
    show: Callable[[str], None]
    decide: Callable[[SetProblem, Sequence[SetObservation]], SetStep] = next_set
    last_run: int = 0
    _builds: dict[str, BuildFacts] = field(default_factory=dict)
    _retries: dict[str, int] = field(default_factory=dict)

    def run(self) -> SetStep:
        """The verdict."""
        seen = observations_of(self.journal.contents.entries)
        named = (run_number(entry.get("run") or "") for entry in self.journal.contents.entries)
        self.last_run = max(self.last_run, *named, 0)
        seen += self._recovered()
        while isinstance(step := self.decide(self.problem, seen), ProbeSet):
            self._tell(step, seen)
            observation = self._probe(step.items)
            if observation is not None:
                seen.append(observation)
        return step

    def _probe(self, mix: ItemSet) -> SetObservation | None:
        name = mix_name(mix, self.problem)
        self.mixes[name] = mix
        if name not in self._builds:
            self._builds[name] = self.runner.build(name)
            refused = bool(self._builds[name].outcome) and name in (GOOD, BAD)
            self.journal.append("refused" if refused else "built", **asdict(self._builds[name]))
        build = self._builds[name]
        if build.outcome:
            if name in (GOOD, BAD):
                raise CannotBuildError(
                    f"the {name} environment cannot be built: {build.reason}", hint=_hint(build), outcome=build.outcome
                )
            return self._noted(
                mix, name, run="", conclusion=Conclusion.SKIP, outcome=build.outcome, reason=build.reason
            )
        self.last_run += 1
        run = run_name(self.last_run)
        self.journal.append("started", candidate=name, run=run, items=sorted(mix))
        self.runner.request, self.runner.baseline_request = self._request(mix), self._request(frozenset())
        self.runner.start(name, run)
        return self._taken(mix, name, self.runner.take())

    def _recovered(self) -> list[SetObservation]:
        """Judge runs that ended just before a kill; forget those that did not."""
        entries = self.journal.contents.entries
        ended = {entry["run"] for entry in entries if entry["event"] in ("observed", "lost")}
        found = []
        for entry in self.journal.contents.of("started"):
            if entry["run"] in ended:
                continue
            if not self.runner.resume(entry["candidate"], entry["run"]):
                self.journal.append("lost", run=entry["run"])
                continue
            taken = self._taken(frozenset(entry["items"]), entry["candidate"], self.runner.take())
            found += [taken] if taken else []
        return found

    def _taken(self, mix: ItemSet, name: str, finding: Finding) -> SetObservation | None:
        """Write a finding down. The third run lost to the infrastructure is a skip; an abort ends the search."""
        seen = finding.observation
        conclusion = seen.conclusion
        if conclusion is Conclusion.RETRY:
            self._retries[name] = self._retries.get(name, 0) + 1
            conclusion = Conclusion.SKIP if self._retries[name] > MAX_RETRIES else conclusion
        noted = self._noted(
            mix, name, run=seen.run, conclusion=conclusion, outcome=seen.outcome, reason=finding.reason,
            seconds=seen.seconds, evidence=finding.evidence, value=seen.value, drift=seen.drift, stalled=seen.stalled,
        )  # fmt: skip
        if conclusion is Conclusion.ABORT:
            raise CannotRunError(
                f"the search stops: {finding.reason or seen.outcome} ({name}, {seen.run})",
                hint=f"the journal is intact: mend the cause, then {resume_command(self.journal.path.parent)}",
                outcome=seen.outcome,
            )
        return None if conclusion is Conclusion.RETRY else noted

    def _noted(
        self,
        mix: ItemSet,
        name: str,
        *,
        run: str,
        conclusion: Conclusion,
        outcome: str,
        reason: str,
        seconds: float = 0.0,
        evidence: Sequence[str] = (),
        value: float | None = None,
        drift: float | None = None,
        stalled: float = 0.0,
    ) -> SetObservation:
        measured = {"value": value, "drift": drift, "stalled": stalled}
        self.journal.append(
            "observed", candidate=name, items=sorted(mix), conclusion=conclusion, outcome=outcome, run=run,
            seconds=seconds, reason=reason, evidence=list(evidence), **measured,
        )  # fmt: skip
        told = outcome if value is None else f"{100 * math.expm1(value):+.1f} % against {GOOD}"
        self.show(f"{name}: {conclusion.upper()} {told}{': ' if reason else ''}{reason}")
        return SetObservation(
            items=mix, conclusion=conclusion, outcome=outcome, run=run, seconds=seconds,
            value=value, drift=drift, stalled=stalled,
        )  # fmt: skip

    def _tell(self, step: ProbeSet, seen: Sequence[SetObservation]) -> None:
        size = len(self.problem.items)
        count = len(step.items)
        listed = ", ".join(sorted(step.items)) if count <= 6 else f"{count} of {size} differences"
        likely = step.suspects[0] if step.suspects else None
        told = f"; likeliest {' + '.join(likely.members)} ({likely.probability:.0%})" if likely else ""
        self.show(f"next ({step.purpose}, {len(seen)} runs so far): {listed or 'the good environment'}{told}")

    def _request(self, mix: ItemSet) -> RunRequest:
        """The run of a mix: variables, imports and caches are set for the run; the rest is in its environment."""
        variables, unset = dict(self.request.environment), set(self.request.unset)
        arguments, cache = list(self.request.arguments), self.request.cache
        for item in self.items:
            value = item.bad if item.id in mix else item.good
            if item.kind is ItemKind.VARIABLE and value is not None:
                variables[item.name] = value
            elif item.kind is ItemKind.VARIABLE:
                variables.pop(item.name, None)
                unset.add(item.name)
            elif item.kind is ItemKind.IMPORT and value:
                arguments += ["--import", item.name]
            elif item.kind is ItemKind.CACHE:
                cache = Path(value) if value else None
        return replace(
            self.request,
            environment=tuple(sorted(variables.items())),
            unset=tuple(sorted(unset)),
            arguments=tuple(arguments),
            cache=cache,
        )
