"""The effects of a search on this machine: build an environment, run in it, judge what the run left.

A run that happened is judged from its directory alone, so a run that ended just before a kill is judged later
instead of being made again.
"""

from __future__ import annotations

import json
import math
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from envs.build import Built, build, is_built
from envs.errors import CannotBuildError, CannotRunError, ToolError
from envs.resolve import lock_for
from envs.store import Store

from .driver import BuildFacts, Finding
from .files import write_atomically
from .judge import Judgement, Question, control_verdict, judge, log_ratio
from .model import Conclusion, Observation, OutcomeName
from .probe import RunRecord, RunRequest, load_record, run_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from envs.settings import Settings
    from envs.spec import Definition

    from .probe import Environment
    from .progress import Bar, Lines

WHOLE_MACHINE = {"disk_full", "no_gpu", "harness_error(engine)", "harness_error(engine_gone)"}
"""Refusals that are not the candidate's: no other candidate would fare better."""
NEIGHBOURS_ASKED = 4
FACTS = ("torch", "cuda", "git_version", "triton", "cudnn", "nccl", "driver", "python", "glibc", "gpus")


@dataclass(slots=True, kw_only=True)
class LocalRunner:
    """Runs a search's probes here.

    Attributes:
        names: every candidate, oldest first.
        define: the definition of a candidate's environment.
        settings: where environments come from and go.
        request: what is run in each.
        question: what is asked of a run.
        directory: the run directory of the search.
        say: told lines for a person.
        baseline: the candidate that throughput is compared with.
        baseline_request: what is run in it, where that is not `request`.
        control_at: the candidate in which the same run is made with one thread first; '' for none.
        commit_is_identity: whether two builds of torch from one commit are one candidate.
        needs_compiler: whether the run calls a C++ compiler, so that its absence is told before a download.
        keep: environments of this search that stay on disk, the least recently used go first.
        watch: makes what is told of a run's progress, by the run's name; closed when the run ends.
    """

    names: tuple[str, ...]
    define: Callable[[str], Definition]
    settings: Settings
    request: RunRequest
    question: Question
    directory: Path
    say: Callable[[str], None]
    baseline: str = ""
    baseline_request: RunRequest | None = None
    control_at: str = ""
    keep: int = 6
    commit_is_identity: bool = True
    needs_compiler: bool = False
    watch: Callable[[str], Lines | Bar] | None = None
    _made: dict[str, str] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """A search that goes on still keeps count of what it built before it was stopped."""
        kept = sorted((self.directory / "environments").glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in kept:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if facts["made_here"]:
                self._made[path.stem] = facts["digest"]

    def build(self, candidate: str) -> BuildFacts:
        """Make the candidate's environment and ask it what it is."""
        try:
            built = self._built(candidate)
        except (CannotBuildError, CannotRunError) as error:
            if error.outcome in WHOLE_MACHINE:
                raise
            return self._refused(candidate, error)
        self._keep_evidence(candidate, built)
        found = built.fingerprint
        facts = {name: getattr(found, name) for name in FACTS}
        facts["code"] = found.git_version if self.commit_is_identity else ""
        broken = found.torch_error and not self._import_is_the_question()
        return BuildFacts(
            candidate=candidate,
            seconds=0.0 if built.cached else built.seconds,
            outcome=OutcomeName.IMPORT_BROKEN.value if broken else "",
            reason=f"torch cannot be imported: {found.torch_error}" if broken else "",
            facts=facts,
        )

    def run(self, candidates: Sequence[str], runs: Sequence[str]) -> Iterator[Finding]:
        """Run the candidates, at the same time where there are several; findings as they come.

        Environments are made one after the other first. Ctrl-C ends every child, and none of them has ended then.
        """
        jobs = [(candidate, run, self._built(candidate)) for candidate, run in zip(candidates, runs, strict=True)]
        for candidate, _, built in jobs:
            if candidate == self.control_at:
                self._control(built)
        if len(jobs) == 1:
            yield self._one(*jobs[0])
            return
        with ThreadPoolExecutor(max_workers=len(jobs) or 1) as pool:
            running = [pool.submit(self._one, *job) for job in jobs]
            try:
                for finished in as_completed(running):
                    yield finished.result()
            except BaseException:
                self._stop.set()
                raise

    def _one(self, candidate: str, run: str, built: Environment) -> Finding:
        if self.question.throughput:
            return self._pair(candidate, run, built)
        return self._judged(candidate, run, self._run(built, self.request, self.directory / run))

    def recover(self, candidate: str, run: str) -> Finding | None:
        """Judge a run that ended before its observation was written down."""
        record = load_record(self.directory / run)
        if record is None or self.question.throughput:
            return None
        return self._judged(candidate, run, record)

    def _run(self, built: Environment, request: RunRequest, directory: Path) -> RunRecord:
        if self.watch is None:
            return run_once(built, request, directory, stop=self._stop)
        with closing(self.watch(directory.name)) as progress:
            return run_once(built, request, directory, on_progress=progress, stop=self._stop)

    def _judged(self, candidate: str, run: str, record: RunRecord) -> Finding:
        judged = judge(record, self.question, control=self._control_verdict())
        _drop_caches(record.directory)
        return _finding(candidate, run, judged, seconds=record.seconds, node=record.node)

    def _pair(self, candidate: str, run: str, built: Environment) -> Finding:
        """A run of the candidate and one of the baseline, in alternating order (ABBA), as one observation."""
        other_request = self.baseline_request or self.request
        asked = [(built, self.request, run), (self._built(self.baseline), other_request, f"{run}-baseline")]
        order = asked if int(run.rpartition("-")[2]) % 2 else asked[::-1]
        records = {name: self._run(environment, what, self.directory / name) for environment, what, name in order}
        mine, other = records[run], records[f"{run}-baseline"]
        value = log_ratio(mine, other)
        seconds = mine.seconds + other.seconds
        for record in records.values():
            _drop_caches(record.directory)
        if value is None:
            judged = judge(mine if log_ratio(mine, mine) is None else other, self.question)
            judged = replace(judged, conclusion=Conclusion.SKIP, reason="one of the pair measured no throughput")
            return _finding(candidate, run, judged, seconds=seconds)
        line = f"{math.exp(value):.4f} of {self.baseline}'s throughput"
        judged = Judgement(conclusion=Conclusion.GOOD, outcome="ok", evidence=(line,))
        return _finding(candidate, run, judged, seconds=seconds, value=value)

    def _control(self, built: Environment) -> None:
        """The same run with one drafter thread, once: without it nothing may be called a race."""
        if (self.directory / "control" / "record.json").exists():
            return
        self.say("control: the same run with one drafter thread")
        shutil.rmtree(self.directory / "control", ignore_errors=True)
        alone = replace(self.request, arguments=(*self.request.arguments, "--threads", "1"))
        record = self._run(built, alone, self.directory / "control")
        _drop_caches(record.directory)

    def _control_verdict(self) -> str:
        record = load_record(self.directory / "control")
        return "" if record is None else control_verdict(record)

    def _import_is_the_question(self) -> bool:
        """Whether a torch that cannot be imported may be the failure that is hunted."""
        hunted = self.question.hunted
        return bool(self.question.signature) or bool(hunted and hunted.name is OutcomeName.IMPORT_BROKEN)

    def _built(self, candidate: str) -> Built:
        definition = self.define(candidate)
        if not is_built(definition, self.settings):
            while len(self._made) >= self.keep:
                self._remove_oldest(f"{self.keep} are kept")
        built = self._build_in_what_is_free(definition)
        if not built.cached or candidate in self._made:
            self._made.pop(candidate, None)
            self._made[candidate] = built.digest
        return built

    def _build_in_what_is_free(self, definition: Definition) -> Built:
        """Build; a disk too full for it loses this search's own environments first."""
        while True:
            try:
                return build(definition, self.settings, report=self.say, require_compiler=self.needs_compiler)
            except CannotRunError as error:
                if error.outcome != "disk_full" or not self._made:
                    raise
                self._remove_oldest("the disk is full")

    def _remove_oldest(self, why: str) -> None:
        """Remove the least recently used environment that this search made; what was there before it stays."""
        candidate, digest = next(iter(self._made.items()))
        del self._made[candidate]
        if digest not in self._made.values():
            self.say(f"removing the environment of {candidate}: {why}")
            Store(self.settings.store).remove(digest)

    def _keep_evidence(self, candidate: str, built: Built) -> None:
        """The lock and the definition stay when the environment is pruned, for the report and to reproduce it."""
        folder = self.directory / "environments"
        folder.mkdir(exist_ok=True)
        for lock in built.path.glob("pylock.toml"):
            write_atomically(folder / f"{candidate}.lock.toml", lock.read_text(encoding="utf-8"))
        facts = {
            "digest": built.digest,
            "made_here": candidate in self._made,
            "distributions": built.fingerprint.distributions,
        }
        write_atomically(folder / f"{candidate}.json", json.dumps(facts, indent=1))

    def _refused(self, candidate: str, error: ToolError) -> BuildFacts:
        return BuildFacts(
            candidate=candidate,
            outcome=error.outcome,
            reason=error.message,
            hint=self._nearest_installable(candidate, error),
        )

    def _nearest_installable(self, candidate: str, error: ToolError) -> str:
        """For an endpoint: the nearest candidate that at least resolves, or that all neighbours fail alike."""
        if candidate not in (self.names[0], self.names[-1]):
            return error.hint
        others = self.names[1:] if candidate == self.names[0] else self.names[-2::-1]
        reasons = set()
        for other in others[:NEIGHBOURS_ASKED]:
            try:
                lock_for(self.define(other), self.settings)
            except ToolError as failure:
                reasons.add(failure.message.replace(other, candidate))
                continue
            return f"the nearest that resolves is {other}" + (f"; {error.hint}" if error.hint else "")
        alike = "its neighbours fail the same way, so no candidate can be built: " if reasons else ""
        return f"{alike}{error.hint}" or "give another endpoint"


def _finding(
    candidate: str, run: str, judged: Judgement, *, seconds: float, value: float | None = None, node: str = ""
) -> Finding:
    observation = Observation(
        candidate=candidate,
        conclusion=judged.conclusion,
        outcome=judged.outcome,
        run=run,
        seconds=round(seconds, 3),
        value=value,
        node=node,
    )
    return Finding(observation=observation, evidence=judged.evidence, reason=judged.reason)


def _drop_caches(directory: Path) -> None:
    """A cold run's compile caches are no evidence, and a search makes hundreds."""
    for name in ("caches", "home"):
        shutil.rmtree(directory / name, ignore_errors=True)
