"""The matrix directory: a journal of finished runs, the runs themselves, the reports.

DIR/journal.jsonl   one line a run started, one a run finished with its whole key; a killed matrix goes on from it
DIR/axes.toml       the axes as asked for
DIR/runs/           one directory a run: the evidence behind every number
DIR/matrix.*        the reports: html, md, txt, json, xml (JUnit)
"""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from envs.errors import UsageError

from ..files import make_run_directory, write_atomically
from ..journal import FILE_NAME, Journal
from ..state import known_fields
from . import Cell, CellRun, pairs, set_aside
from .as_json import parse_run_entry, report_json
from .as_junit import junit
from .as_text import markdown, terminal
from .report import HazardAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .key import CellKey
    from .report import Report

COMMAND = "matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardRun:
    """The answers of one run of the hazard probes, and what they are valid for."""

    environment: str
    lock: str
    benchmark: str
    machine: tuple[str, ...]
    answers: tuple[HazardAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run of a cell that was started: where it is, its place in its session, and the slot it shares, if any."""

    cell: str
    run: str
    session: str
    order: int
    beside: str = ""


class MatrixDirectory:
    """The one writer of a matrix directory; opening it takes a lock that ends with the process. Thread-safe."""

    def __init__(self, path: Path) -> None:
        journal = path / FILE_NAME
        if not journal.exists():
            make_run_directory(path)
        self.path = path
        self._number = 0
        self._lock = FileLock(path / ".lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"another process is filling {path}", hint="wait for it, or stop it") from None
        self._journal = Journal.open(journal) if journal.exists() else Journal.create(journal, {"command": COMMAND})
        if self._journal.contents.header.get("command") != COMMAND:
            self.close()
            raise UsageError(f"{path} is the run directory of another command", hint="give another --out")
        source = str(journal)
        self._ran = [parse_run_entry(entry, source) for entry in self._journal.contents.of("ran")]
        self._hazards = [_hazard_run(entry) for entry in self._journal.contents.of("hazards")]
        self._changed = {run for entry in self._journal.contents.of("changed") for run in entry["runs"]}
        self._made: list[tuple[str, str]] = []
        self._begun = [Begun(**known_fields(Begun, entry)) for entry in self._journal.contents.of("started")]
        self._writing = threading.Lock()
        self._controls = {
            tuple(entry["of"]): str(entry["verdict"])
            for entry in self._journal.contents.of("control")
            if entry.get("run") not in self._changed
        }

    def close(self) -> None:
        """Give the directory back."""
        self._journal.close()
        self._lock.release()

    def filled(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """The cells with every earlier run whose key is equal, and cells of other machines that were asked before."""
        runs: dict[str, list[CellRun]] = {}
        keys: dict[str, CellKey] = {}
        for key, run in self._counted():
            runs.setdefault(key.digest, []).append(run)
            keys[key.digest] = key
        mine = tuple(set_aside(replace(cell, runs=tuple(runs.pop(cell.key.digest, ())))) for cell in cells)
        machines = {cell.key.machine for cell in cells}
        others = (
            Cell(key=keys[digest], runs=tuple(found))
            for digest, found in runs.items()
            if keys[digest].machine not in machines and _is_current(keys[digest], cells)
        )
        return (*mine, *others)

    def not_used(self, cells: Sequence[Cell]) -> str:
        """Why earlier runs of the same questions do not count now, in words; empty when all of them do."""
        wanted = {cell.key.digest for cell in cells}
        asked = {(cell.key.question, cell.key.machine): cell.key for cell in cells}
        old = [
            (key, asked[key.question, key.machine])
            for key, _ in self._counted()
            if (key.question, key.machine) in asked
        ]
        left_out = [(key, now) for key, now in old if key.digest not in wanted]
        if not left_out:
            return ""
        differing = dict.fromkeys(
            name for key, now in left_out for name, value in asdict(now).items() if getattr(key, name) != value
        )
        return f"{len(left_out)} earlier runs are not used, because these differ now: {', '.join(differing)}"

    def hazards(self) -> tuple[HazardRun, ...]:
        """Every run of the hazard probes so far."""
        return tuple(run for run in self._hazards if self._changed.isdisjoint(answer.run for answer in run.answers))

    def new_run(self, name: str) -> Path:
        """A directory that no run has used or was promised: `runs/0007-cu130-lock-cold`."""
        runs = self.path / "runs"
        runs.mkdir(exist_ok=True)
        with self._writing:
            names = [entry.name for entry in runs.iterdir()] + [Path(begun.run).name for begun in self._begun]
            used = [int(entry[:4]) for entry in names if entry[:4].isdigit()]
            self._number = max([self._number, *used]) + 1
            return runs / f"{self._number:04d}-{re.sub(r'[^A-Za-z0-9._+=-]', '_', name)}"

    def unfinished(self) -> tuple[Begun, ...]:
        """Runs that were started and of which nothing was written down."""
        finished = {run.run for _, run in self._ran}
        return tuple(begun for begun in self._begun if begun.run not in finished)

    def add_started(self, begun: Begun) -> None:
        """Write down that a run is about to be started."""
        self._append("started", **asdict(begun))
        self._begun.append(begun)

    def _append(self, event: str, **fields: object) -> None:
        with self._writing:
            self._journal.append(event, **fields)

    def relative(self, run: Path) -> str:
        """A run directory as the reports name it."""
        return run.relative_to(self.path).as_posix()

    def add_run(self, key: CellKey, run: CellRun) -> None:
        """Write one finished run down; durable on return."""
        self._append("ran", key=asdict(key), run=asdict(run))
        self._ran.append((key, run))
        self._made.append((key.lock, run.run))

    def add_hazards(self, run: HazardRun) -> None:
        """Write the answers of the hazard probes down."""
        self._append("hazards", **asdict(run))
        self._hazards.append(run)
        self._made += [(run.lock, answer.run) for answer in run.answers[:1]]

    def control(self, key: CellKey) -> str | None:
        """What the run with one thread did in this cell's environment: `clean` or `failed`; None before it was made."""
        return self._controls.get(_control_of(key))

    def add_control(self, key: CellKey, *, run: str, verdict: str) -> None:
        """Write down what the run with one thread did."""
        self._append("control", of=_control_of(key), run=run, verdict=verdict)
        self._controls[_control_of(key)] = verdict
        self._made.append((key.lock, run))

    def add_changed(self, lock: str, *, cells: Sequence[str], what: str) -> frozenset[str]:
        """Write down that an environment was changed while this process ran in it; its runs, which never count.

        The compile caches of its cells go, for they may hold what somebody's edit compiled.
        """
        for digest in cells:
            shutil.rmtree(self.path / "caches" / digest, ignore_errors=True)
        runs = frozenset(run for of, run in self._made if of == lock)
        self._append("changed", lock=lock, what=what, runs=sorted(runs))
        self._changed |= runs
        return runs

    def _counted(self) -> list[tuple[CellKey, CellRun]]:
        return [(key, run) for key, run in self._ran if run.run not in self._changed]

    def keep_axes(self, text: str) -> None:
        """The axes as asked for, for `--resume`."""
        write_atomically(self.path / "axes.toml", text)

    def keep_pairs(self, machine: tuple[str, ...], *, together: bool) -> None:
        """How throughput is measured on a machine; written down when the matrix begins there."""
        if pairs.begun(self._journal.contents, machine) is None:
            self._append(pairs.EVENT, machine=machine, together=together)

    def write_reports(self, report: Report, page: str) -> None:
        """Every form of the report, each whole or not at all."""
        for name, text in (
            ("matrix.json", report_json(report)),
            ("matrix.md", markdown(report)),
            ("matrix.txt", terminal(report)),
            ("matrix.xml", junit(report)),
            ("matrix.html", page),
        ):
            write_atomically(self.path / name, text)


def _control_of(key: CellKey) -> tuple[str, ...]:
    """A control serves every cell of its environment, with the same benchmark and profile on the same machine."""
    return (key.environment, key.lock, key.benchmark, key.profile, *key.machine)


def _is_current(key: CellKey, cells: Sequence[Cell]) -> bool:
    """Whether another machine's cell answers a question that is asked now, with the same benchmark."""
    return any(key.question == cell.key.question and key.benchmark == cell.key.benchmark for cell in cells)


def _hazard_run(entry: object) -> HazardRun:
    assert isinstance(entry, dict)
    return HazardRun(
        environment=entry["environment"],
        lock=entry["lock"],
        benchmark=entry["benchmark"],
        machine=tuple(entry["machine"]),
        answers=tuple(HazardAnswer(**known_fields(HazardAnswer, answer)) for answer in entry["answers"]),
    )
