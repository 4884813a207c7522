"""The loop of the matrix: ask for the next cell, build, run, write down, until it is good enough or the budget ends.

Decides nothing: which cell is next is `schedule`'s answer, what a run means is `classify`'s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable  # noqa: TC003  (in a dataclass's fields)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from envs.errors import CannotBuildError, CannotRunError

from ..changed import ChangedError
from ..launch import JobLostError
from ..pool import Pool
from . import Blocked, Cell, CellRun, with_block, with_run, without_runs
from .beside import AT_ONCE, next_slot
from .cell import CellRuns, answers_of
from .key import CLEAN, CellKey
from .plan import Prepared, from_error
from .schedule import Choice, expected_seconds, next_choice, plan, with_pending
from .state import assess
from .store import Begun, HazardRun, MatrixDirectory

if TYPE_CHECKING:
    from ..launch import Stop
    from ..probe import RunRecord
    from .axes import Axes, Budget
    from .hands import Room


@dataclass(slots=True, kw_only=True)
class MatrixRun:
    """One invocation. Runs happen in threads; cells, journal and choices belong to the thread that calls `run`.

    Attributes:
        axes: what is compared.
        prepared: the cells as they were before.
        runs: makes and judges the runs of a cell.
        directory: where runs are kept.
        budget: what this invocation may spend.
        say: told lines for a person.
        workers: runs under way at the same time.
        together: whether throughput is measured in pairs of runs made at the same time; the others run alone.
        cells: the cells as they are now.
        session: name of this invocation; throughput is compared only within it.
    """

    axes: Axes
    prepared: Prepared
    runs: CellRuns
    directory: MatrixDirectory
    budget: Budget
    say: Callable[[str], None]
    workers: int = 1
    together: bool = False
    cells: tuple[Cell, ...] = ()
    session: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}")
    _started: float = field(default_factory=time.monotonic)
    _order: int = 0
    _slot: str = ""
    _partner: Choice | None = None
    _finished: int = 0
    _build_s: dict[str, float] = field(default_factory=dict)
    _built: dict[str, Room] = field(default_factory=dict)
    _probed: set[str] = field(default_factory=set)
    _pool: Pool[Callable[[], None]] = field(default_factory=Pool)
    _under_way: dict[str, Begun] = field(default_factory=dict)

    @property
    def num_runs(self) -> int:
        """Runs finished in this invocation."""
        return self._finished

    def run(self) -> None:
        """Spend the budget; `cells` then hold what is known."""
        self.cells = self.directory.filled(self.prepared.cells)
        if unused := self.directory.not_used(self.prepared.cells):
            self.say(unused)
        self._build_s = self.prepared.build_s
        try:
            self._take_up()
            while self._start_all() or self._pool.num_runs:
                self._pool.take()()
        finally:
            self._pool.close()
            self._look_again()

    def _take_up(self) -> None:
        """Runs that a killed matrix had started, where they ended or go on elsewhere."""
        keys = {cell.key.digest: cell.key for cell in self.cells}
        for begun in self.directory.unfinished():
            directory = self.directory.path / begun.run
            if begun.cell in keys and self.runs.hands.began(directory):
                self._begin(begun, keys[begun.cell], "taken up", partial(self.runs.hands.resume, directory))

    def _start_all(self) -> bool:
        """Start what is worth a worker; False when nothing was."""
        started = False
        while self._start_next():
            started = True
        return started and self._pool.num_runs > 0

    def _start_next(self) -> bool:
        """Start what is worth most now; False where nothing is left, affordable or not waited for."""
        is_paired = self._partner is not None and bool(self._under_way)
        if self._pool.num_runs >= (AT_ONCE if is_paired else self.workers):
            return False
        choice = self._next()
        if choice is None or not self._affords(choice):
            return False
        key = choice.cell.key
        built = self._environment(key)
        if built is not None and not self._start_hazards(key, built):
            self._start(choice, built)
        return True

    def _next(self) -> Choice | None:
        if self.together:
            return self._next_beside()
        pending = [(begun.cell, begun.order) for begun in self._under_way.values()]
        return next_choice(
            with_pending(self.cells, pending, session=self.session),
            self.axes.rules,
            build_s=self._build_s,
            session=self.session,
            current=self.axes.current,
        )

    def _next_beside(self) -> Choice | None:
        """The second run of a pair once the first is under way; else the next one, alone or the first of a pair."""
        second, self._partner = self._partner, None
        if second is not None and self._under_way:
            return second
        slot = next_slot(
            self.cells,
            self.axes.rules,
            build_s=self._build_s,
            session=self.session,
            current=self.axes.current,
        )
        self._partner = slot[1] if len(slot) > 1 else None
        self._slot = f"{self.session}#{self._order}" if len(slot) > 1 else ""
        return slot[0] if slot else None

    def _affords(self, choice: Choice) -> bool:
        """Whether the next run still fits; the first one always does when there is any budget at all."""
        made = self._finished + len(self._under_way)
        if self.budget.runs is not None:
            return made < self.budget.runs
        if self.budget.seconds is None:
            return True
        expected = expected_seconds(choice.cell, self.cells) + self._build_s.get(choice.cell.key.environment, 0.0)
        left = self.budget.seconds - (time.monotonic() - self._started)
        return left > 0 and (made == 0 or expected <= left)

    def _environment(self, key: CellKey) -> Room | None:
        """The cell's environment, built when it is not there; None marks every cell that needs it."""
        name = key.environment
        if name in self._built:
            return self._built[name]
        definition = self.prepared.rooms[name].definition
        assert definition is not None
        try:
            built = self.runs.hands.build(definition)
        except (CannotBuildError, CannotRunError) as error:
            why = "" if isinstance(error, ChangedError) else "cannot be built: "
            self.say(f"{name}: {why}{error.message}")
            self._block(name, from_error(error))
            return None
        self._build_s.pop(name, None)
        self._built[name] = built
        return built

    def _block(self, environment: str, blocked: Blocked) -> None:
        mine = (cell.key for cell in self.prepared.cells)  # not those of another machine, which has its own
        digests = frozenset(key.digest for key in mine if key.environment == environment)
        self.cells = with_block(self.cells, digests, blocked)

    def _look_again(self) -> None:
        """What ran in an environment that was changed meanwhile is no evidence: nobody knows which run saw what."""
        for name, built in self._built.items():
            try:
                self.runs.hands.refuse_changed(built)
            except ChangedError as error:
                self.say(f"{name}: {error.message}")
                mine = [cell.key for cell in self.prepared.cells if cell.key.environment == name]
                cells = [key.digest for key in mine]
                void = self.directory.add_changed(mine[0].lock, cells=cells, what=error.message)
                self.cells = without_runs(self.cells, void)
                self._block(name, from_error(error))

    def _start(self, choice: Choice, built: Room) -> None:
        key = choice.cell.key
        directory = self.directory.new_run(f"{key.environment}-{key.workaround}-{key.cache}")
        run = self.directory.relative(directory)
        begun = Begun(cell=key.digest, run=run, session=self.session, order=self._order, beside=self._slot)
        self._order += 1
        self.directory.add_started(begun)
        self._begin(begun, key, choice.reason, partial(self.runs.make, begun, key, built), built)

    def _begin(
        self, begun: Begun, key: CellKey, reason: str, make: Callable[[Stop], RunRecord], built: Room | None = None
    ) -> None:
        """Make and judge a run in a thread (its control is a run too); write it down here."""
        self._under_way[begun.run] = begun

        def body(stop: Stop) -> Callable[[], None]:
            try:
                found = self.runs.judged(begun, key, built, make(stop), stop)
            except JobLostError as error:
                found = self.runs.lost(begun, error.message)
            except CannotBuildError as error:  # on a node that builds for itself
                found = from_error(error)
            return partial(self._ended, begun, key, reason, found)

        self._pool.start(begun.run, body)

    def _ended(self, begun: Begun, key: CellKey, reason: str, found: CellRun | Blocked) -> None:
        del self._under_way[begun.run]
        if isinstance(found, Blocked):
            self.say(f"{key.title}: {found.reason}")
            self.cells = with_block(self.cells, frozenset({key.digest}), found)
            return
        self._finished += 1
        self.directory.add_run(key, found)
        self.cells = with_run(self.cells, found)
        self.say(self._line(key, reason, found))

    def _start_hazards(self, key: CellKey, built: Room) -> bool:
        """The deterministic probes, once a build, in its clean environment; an earlier equal one counts."""
        identity = (key.lock, key.benchmark, key.machine)
        known = {(run.lock, run.benchmark, run.machine) for run in self.directory.hazards()}
        if not self.axes.hazards or key.history != CLEAN or identity in known or key.environment in self._probed:
            return False
        self._probed.add(key.environment)
        directory = self.directory.new_run(f"{key.environment}-hazards")

        def body(stop: Stop) -> Callable[[], None]:
            try:
                return partial(self._probed_hazards, key, self.runs.hazards(key, built, directory, stop))
            except (JobLostError, CannotBuildError) as error:
                return partial(self.say, f"{key.environment}: hazard probes: {error.message}")

        self._pool.start(directory.name, body)
        return True

    def _probed_hazards(self, key: CellKey, record: RunRecord) -> None:
        answers = answers_of(key.environment, record, run=self.directory.relative(record.directory))
        leaks = ", ".join(answer.hazard for answer in answers if answer.answer == "leaks") or "none"
        self.say(
            f"{key.environment}: hazard probes in {record.seconds:.0f} s, leaks: {leaks if answers else 'no answer'}"
        )
        if answers:
            self.directory.add_hazards(
                HazardRun(
                    environment=key.environment,
                    lock=key.lock,
                    benchmark=key.benchmark,
                    machine=key.machine,
                    answers=answers,
                )
            )

    def _line(self, key: CellKey, reason: str, run: CellRun) -> str:
        """What just happened, what is spent and what is left: for a terminal and for a log alike."""
        entry = next(e for e in assess(self.cells, self.axes.rules).assessments if e.cell.key == key)
        spent = (time.monotonic() - self._started) / 60
        left = plan(self.cells, self.axes.rules, build_s=self._build_s, paired=self.together)
        speed = f", {run.ktok_s:.3g} Ktok/s" if run.ktok_s is not None else ""
        return (
            f"[run {self._finished}, {spent:.1f} min of {self.budget}] {key.title}: {run.outcome} "
            f"in {run.seconds:.0f} s{speed}; failures {entry.count} ({reason}); "
            f"left: about {left.runs} runs, {left.seconds / 60:.0f} min"
        )
