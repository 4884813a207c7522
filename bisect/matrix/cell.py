"""The runs of one cell: the measured one, the control beside it, the one that fills a cache; called from threads.

Decides nothing: what a run means is `classify`'s answer. Nothing here touches the cells or chooses among them.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..judge import classify_train, control_verdict, train_result
from ..model import OutcomeName
from ..probe import RunKind, RunRecord, RunRequest
from ..result_file import ResultError, parse_hazards
from . import RACES, Blocked, CellRun, State
from .measure import cell_run
from .report import HazardAnswer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..launch import Stop
    from .axes import Axes
    from .hands import Hands, Room
    from .key import CellKey
    from .plan import Prepared
    from .store import Begun, MatrixDirectory

ASKS_FOR_CONTROL = RACES | {OutcomeName.NESTED_FX, OutcomeName.COMPILE_ERROR, OutcomeName.CHECKPOINT_MISMATCH}
"""Failures whose meaning depends on whether one thread alone shows them too."""
REFUSED = 2
"""The benchmark's exit code for an option or a profile that this machine cannot run."""


@dataclass(slots=True, kw_only=True)
class CellRuns:
    """Makes and judges runs.

    Attributes:
        axes: what is compared.
        prepared: the environments behind the cells.
        hands: builds and runs.
        directory: where runs are kept.
        say: told lines for a person.
        patience_s: seconds without a sign of life after which a run is ended.
    """

    axes: Axes
    prepared: Prepared
    hands: Hands
    directory: MatrixDirectory
    say: Callable[[str], None]
    patience_s: float
    _shared: threading.Lock = field(default_factory=threading.Lock)

    def make(self, begun: Begun, key: CellKey, built: Room, stop: Stop) -> RunRecord:
        """The measured run of a cell."""
        request = self.request(key, cache=self._warm_cache(key, built, stop) if key.cache == "warm" else None)
        return self.hands.run(built, request, self.directory.path / begun.run, stop)

    def judged(
        self, begun: Begun, key: CellKey, built: Room | None, record: RunRecord, stop: Stop
    ) -> CellRun | Blocked:
        """What it showed: a race with several threads is called one beside a run with one; or a refusal.

        `built`: its environment, if this process has needed it.
        """
        shutil.rmtree(record.directory / "caches", ignore_errors=True)  # large, and no evidence
        if record.returncode == REFUSED and not record.result_path.exists():
            reason = f"the benchmark refused: {' '.join(record.log().split())[-300:]}"
            return Blocked(state=State.NOT_TESTED, reason=reason, evidence=str(record.directory))
        found = classify_train(record, threads=None)
        if {found.outcome.name, *(outcome.name for outcome in found.secondary)} & ASKS_FOR_CONTROL:
            found = classify_train(record, threads=None, control=self._control(key, built, stop))
        return cell_run(
            key,
            found,
            train_result(record),
            run=begun.run,
            session=begun.session,
            order=begun.order,
            beside=begun.beside,
            at=_now(),
            seconds=record.seconds,
            node=record.node,
        )

    def lost(self, begun: Begun, reason: str) -> CellRun:
        """A run that ended without a record: the infrastructure's doing, counted for and against nothing."""
        outcome = OutcomeName.HARNESS_ERROR.value
        return CellRun(
            cell=begun.cell,
            run=begun.run,
            outcome=outcome,
            session=begun.session,
            order=begun.order,
            beside=begun.beside,
            at=_now(),
            evidence=(reason,),
        )

    def hazards(self, key: CellKey, built: Room, directory: Path, stop: Stop) -> RunRecord:
        """The deterministic probes of a build."""
        request = replace(self.request(key), kind=RunKind.HAZARDS, arguments=())
        record = self.hands.run(built, request, directory, stop)
        shutil.rmtree(directory / "caches", ignore_errors=True)
        return record

    def request(self, key: CellKey, *, cache: Path | None = None, extra: tuple[str, ...] = ()) -> RunRequest:
        """What runs in a cell."""
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

    def _control(self, key: CellKey, built: Room | None, stop: Stop) -> str:
        """One an environment: whoever needs the same one waits for it."""
        with self._shared:
            known = self.directory.control(key)
            if known is not None:
                return known
            self.say(f"{key.environment}: control, the same run with one drafter thread")
            definition = self.prepared.rooms[key.environment].definition
            assert definition is not None
            directory = self.directory.new_run(f"{key.environment}-control")
            alone = self.request(key, extra=("--threads", "1"))
            record = self.hands.run(built or self.hands.build(definition), alone, directory, stop)
            shutil.rmtree(directory / "caches", ignore_errors=True)
            verdict = control_verdict(record)
            self.directory.add_control(key, run=self.directory.relative(directory), verdict=verdict)
            return verdict

    def _warm_cache(self, key: CellKey, built: Room, stop: Stop) -> Path:
        """The compile cache of a run made only to fill it, kept for every warm run of the cell."""
        kept = self.directory.path / "caches" / key.digest
        with self._shared:
            if not kept.exists():
                self.say(f"{key.title}: filling the compile cache")
                directory = self.directory.new_run(f"{key.environment}-{key.workaround}-fill")
                self.hands.run(built, self.request(key), directory, stop)
                kept.parent.mkdir(exist_ok=True)
                (directory / "caches").rename(kept)
        return kept


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def answers_of(environment: str, record: RunRecord, *, run: str) -> tuple[HazardAnswer, ...]:
    try:
        result = parse_hazards(record.result_path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ResultError):
        return ()
    return tuple(
        HazardAnswer(environment=environment, hazard=item.name, answer=item.answer.value, meaning=item.meaning, run=run)
        for item in result.hazards
    )
