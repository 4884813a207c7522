"""The loop of the matrix: ask for the next cell, build, run, write down, until it is good enough or the budget ends.

Decides nothing: which cell is next is `matrix_schedule`'s answer, what a run means is `classify`'s.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from envs.build import build
from envs.errors import CannotBuildError, CannotRunError

from .judge import classify_train, control_verdict, train_result
from .matrix import CLEAN, RACES, Blocked, Cell, CellKey, CellRun, State, with_block, with_run
from .matrix_measure import cell_run
from .matrix_plan import Prepared, from_error
from .matrix_report import HazardAnswer
from .matrix_schedule import Choice, expected_seconds, next_choice, plan
from .matrix_state import assess
from .matrix_store import HazardRun, MatrixDirectory
from .model import OutcomeName
from .probe import RunKind, RunRecord, RunRequest, run_once
from .result import ResultError, parse_hazards

if TYPE_CHECKING:
    from pathlib import Path

    from envs.settings import Settings
    from envs.spec import Definition

    from .matrix_axes import Axes, Budget
    from .probe import Environment

ASKS_FOR_CONTROL = RACES | {OutcomeName.NESTED_FX, OutcomeName.COMPILE_ERROR, OutcomeName.CHECKPOINT_MISMATCH}
"""Failures whose meaning depends on whether one thread alone shows them too."""
REFUSED = 2
"""The benchmark's exit code for an option or a profile that this machine cannot run."""


class Hands(Protocol):
    """What the loop does to the world: make an environment, make a run in one."""

    def build(self, definition: Definition) -> Environment:
        """The finished environment; CannotBuildError or CannotRunError when there can be none."""

    def run(self, environment: Environment, request: RunRequest, directory: Path) -> RunRecord:
        """One run in a fresh directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHands:
    """Builds in the store and runs on this machine."""

    settings: Settings
    say: Callable[[str], None]

    def build(self, definition: Definition) -> Environment:
        """Build it, or take it from the store."""
        built = build(definition, self.settings, report=self.say)
        if built.fingerprint.torch_error:
            self.say(f"{built.name}: torch cannot be imported: {built.fingerprint.torch_error}")
        return built

    def run(self, environment: Environment, request: RunRequest, directory: Path) -> RunRecord:
        """Run it, and keep everything but the compile caches, which are no evidence and large."""
        record = run_once(environment, request, directory)
        shutil.rmtree(directory / "home", ignore_errors=True)
        return record


@dataclass(slots=True, kw_only=True)
class MatrixRun:
    """One invocation.

    Attributes:
        axes: what is compared.
        prepared: the cells as they were before.
        hands: builds and runs.
        directory: where runs are kept.
        budget: what this invocation may spend.
        say: told lines for a person.
        patience_s: seconds without a sign of life after which a run is ended.
        cells: the cells as they are now.
        session: name of this invocation; throughput is compared only within it.
    """

    axes: Axes
    prepared: Prepared
    hands: Hands
    directory: MatrixDirectory
    budget: Budget
    say: Callable[[str], None]
    patience_s: float = 300.0
    cells: tuple[Cell, ...] = ()
    session: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}")
    _started: float = field(default_factory=time.monotonic)
    _order: int = 0
    _build_s: dict[str, float] = field(default_factory=dict)
    _built: dict[str, Environment] = field(default_factory=dict)
    _probed: set[str] = field(default_factory=set)

    @property
    def num_runs(self) -> int:
        """Runs finished in this invocation."""
        return self._order

    def run(self) -> None:
        """Spend the budget; `cells` then hold what is known."""
        self.cells = self.directory.filled(self.prepared.cells)
        if unused := self.directory.not_used(self.prepared.cells):
            self.say(unused)
        self._build_s = self.prepared.build_s
        while (choice := self._next()) is not None and self._affords(choice):
            built = self._environment(choice.cell.key)
            if built is not None:
                self._probe_hazards(choice.cell.key, built)
                self._measure(choice, built)

    def _next(self) -> Choice | None:
        return next_choice(
            self.cells, self.axes.rules, build_s=self._build_s, session=self.session, current=self.axes.current
        )

    def _affords(self, choice: Choice) -> bool:
        """Whether the next run still fits; the first one always does when there is any budget at all."""
        if self.budget.runs is not None:
            return self._order < self.budget.runs
        if self.budget.seconds is None:
            return True
        expected = expected_seconds(choice.cell, self.cells) + self._build_s.get(choice.cell.key.environment, 0.0)
        left = self.budget.seconds - (time.monotonic() - self._started)
        return left > 0 and (self._order == 0 or expected <= left)

    def _environment(self, key: CellKey) -> Environment | None:
        """The cell's environment, built when it is not there; None marks every cell that needs it."""
        name = key.environment
        if name in self._built:
            return self._built[name]
        definition = self.prepared.rooms[name].definition
        assert definition is not None
        try:
            built = self.hands.build(definition)
        except (CannotBuildError, CannotRunError) as error:
            self.say(f"{name}: cannot be built: {error.message}")
            self._block(name, from_error(error))
            return None
        self._build_s.pop(name, None)
        self._built[name] = built
        return built

    def _block(self, environment: str, blocked: Blocked) -> None:
        digests = frozenset(cell.key.digest for cell in self.cells if cell.key.environment == environment)
        self.cells = with_block(self.cells, digests, blocked)

    def _measure(self, choice: Choice, built: Environment) -> None:
        key = choice.cell.key
        directory = self.directory.new_run(f"{key.environment}-{key.workaround}-{key.cache}")
        request = self._request(key, cache=self._warm_cache(key, built) if key.cache == "warm" else None)
        record = self._run(built, request, directory)
        if record.returncode == REFUSED and not record.result_path.exists():
            reason = " ".join(record.log().split())[-300:]
            refused = Blocked(
                state=State.NOT_TESTED, reason=f"the benchmark refused: {reason}", evidence=str(directory)
            )
            self.cells = with_block(self.cells, frozenset({key.digest}), refused)
            return
        run = self._judged(key, built, record)
        self._order += 1
        self.directory.add_run(key, run)
        self.cells = with_run(self.cells, run)
        self.say(self._line(choice, run))

    def _judged(self, key: CellKey, built: Environment, record: RunRecord) -> CellRun:
        """What is a race with several threads only, is called one beside a run with one, made once an environment."""
        found = classify_train(record, threads=None)
        if {found.outcome.name, *(outcome.name for outcome in found.secondary)} & ASKS_FOR_CONTROL:
            found = classify_train(record, threads=None, control=self._control(key, built))
        return cell_run(
            key,
            found,
            train_result(record),
            run=self.directory.relative(record.directory),
            session=self.session,
            order=self._order,
            at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            seconds=record.seconds,
        )

    def _control(self, key: CellKey, built: Environment) -> str:
        known = self.directory.control(key)
        if known is not None:
            return known
        self.say(f"{key.environment}: control, the same run with one drafter thread")
        directory = self.directory.new_run(f"{key.environment}-control")
        record = self._run(built, self._request(key, extra=("--threads", "1")), directory)
        verdict = control_verdict(record)
        self.directory.add_control(key, run=self.directory.relative(directory), verdict=verdict)
        return verdict

    def _run(self, built: Environment, request: RunRequest, directory: Path) -> RunRecord:
        """One run, without its compile caches afterwards: they are large, and no evidence."""
        record = self.hands.run(built, request, directory)
        shutil.rmtree(directory / "caches", ignore_errors=True)
        return record

    def _warm_cache(self, key: CellKey, built: Environment) -> Path:
        """The compile cache of a run made only to fill it, kept for every warm run of the cell."""
        kept = self.directory.path / "caches" / key.digest
        if not kept.exists():
            self.say(f"{key.title}: filling the compile cache")
            directory = self.directory.new_run(f"{key.environment}-{key.workaround}-fill")
            self.hands.run(built, self._request(key), directory)
            kept.parent.mkdir(exist_ok=True)
            (directory / "caches").rename(kept)
        return kept

    def _request(self, key: CellKey, *, cache: Path | None = None, extra: tuple[str, ...] = ()) -> RunRequest:
        definition = self.prepared.rooms[key.environment].definition
        assert definition is not None
        given = ("--profile", self.axes.profile, "--workaround", key.workaround, *self.axes.arguments, *extra)
        return RunRequest(
            kind=RunKind.TRAIN,
            arguments=given,
            environment=definition.environment,
            timeout_s=self.patience_s,
            cache=cache,
        )

    def _probe_hazards(self, key: CellKey, built: Environment) -> None:
        """The deterministic probes, once a build, in its clean environment; an earlier equal one counts."""
        identity = (key.lock, key.benchmark, key.machine)
        known = {(run.lock, run.benchmark, run.machine) for run in self.directory.hazards()}
        if not self.axes.hazards or key.history != CLEAN or identity in known or key.environment in self._probed:
            return
        self._probed.add(key.environment)
        directory = self.directory.new_run(f"{key.environment}-hazards")
        request = replace(self._request(key), kind=RunKind.HAZARDS, arguments=())
        record = self._run(built, request, directory)
        answers = _answers(key.environment, record, run=self.directory.relative(directory))
        leaks = ", ".join(answer.hazard for answer in answers if answer.answer == "leaks") or "none"
        self.say(
            f"{key.environment}: hazard probes in {record.seconds:.0f} s, leaks: {leaks if answers else 'no answer'}"
        )
        if not answers:
            return
        self.directory.add_hazards(
            HazardRun(
                environment=key.environment,
                lock=key.lock,
                benchmark=key.benchmark,
                machine=key.machine,
                answers=answers,
            )
        )

    def _line(self, choice: Choice, run: CellRun) -> str:
        """What just happened, what is spent and what is left: for a terminal and for a log alike."""
        entry = next(e for e in assess(self.cells, self.axes.rules).assessments if e.cell.key == choice.cell.key)
        spent = (time.monotonic() - self._started) / 60
        left = plan(self.cells, self.axes.rules, build_s=self._build_s)
        speed = f", {run.ktok_s:.3g} Ktok/s" if run.ktok_s is not None else ""
        return (
            f"[run {self._order}, {spent:.1f} min of {self.budget}] {choice.cell.key.title}: {run.outcome} "
            f"in {run.seconds:.0f} s{speed}; failures {entry.count} ({choice.reason}); "
            f"left: about {left.runs} runs, {left.seconds / 60:.0f} min"
        )


def _answers(environment: str, record: RunRecord, *, run: str) -> tuple[HazardAnswer, ...]:
    try:
        result = parse_hazards(record.result_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ResultError):
        return ()
    return tuple(
        HazardAnswer(environment=environment, hazard=item.name, answer=item.answer.value, meaning=item.meaning, run=run)
        for item in result.hazards
    )
