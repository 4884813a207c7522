"""The nouns of the compatibility matrix: a cell, what ran in it, what state it is in.

Knows the meaning of outcomes for a person who decides about an upgrade. Knows no process, file or clock: the shell
(`run`) fills cells, the other modules of this folder read them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from ..model import Outcome, OutcomeName

if TYPE_CHECKING:
    from .key import CellKey


class State(StrEnum):
    """What a cell says. `NOT_TESTED` is a value of its own and never looks like `OK`."""

    OK = "ok"
    RACE = "race"
    FAILURE = "other failure"
    SLOWER = "slower"
    DEGRADED = "degraded"
    CANNOT_BUILD = "cannot build"
    INCONSISTENT = "inconsistent env"
    NOT_PUBLISHED = "not published"
    DRIVER_TOO_OLD = "driver too old"
    ARCH_UNSUPPORTED = "GPU not supported"
    NEEDS_GPU = "needs a GPU"
    NOT_TESTED = "not tested"


MEANINGS: dict[State, str] = {
    State.OK: "every telling run trained to its end; the count says how many, the bound what they still allow",
    State.RACE: "at least one run was ended by a failure that one thread alone does not show",
    State.FAILURE: "at least one run failed otherwise; the failure is named",
    State.SLOWER: "trains, and its throughput is below the baseline by more than the noise explains",
    State.DEGRADED: "trains, but not as intended: dense attention, recompile limit or recompile stalls",
    State.CANNOT_BUILD: "the environment cannot be made; says nothing about torch",
    State.INCONSISTENT: "the environment is not what was built, as where somebody changed it since; says nothing about "
    "the build",
    State.NOT_PUBLISHED: "no such build exists in the index",
    State.DRIVER_TOO_OLD: "the driver of this machine cannot run this CUDA variant",
    State.ARCH_UNSUPPORTED: "the wheel has no code for this GPU",
    State.NEEDS_GPU: "the profile needs a GPU and this machine has none",
    State.NOT_TESTED: "nothing is known: no telling run yet",
}

BLOCKING: dict[OutcomeName, State] = {
    OutcomeName.NOT_PUBLISHED: State.NOT_PUBLISHED,
    OutcomeName.DRIVER_TOO_OLD: State.DRIVER_TOO_OLD,
    OutcomeName.ARCH_UNSUPPORTED: State.ARCH_UNSUPPORTED,
    OutcomeName.NO_GPU: State.NEEDS_GPU,
    OutcomeName.BUILD_FAILED: State.CANNOT_BUILD,
    OutcomeName.RESOLUTION_CONFLICT: State.CANNOT_BUILD,
    OutcomeName.TOOL_TOO_OLD: State.CANNOT_BUILD,
    OutcomeName.DOWNLOAD_FAILED: State.CANNOT_BUILD,
    OutcomeName.DISK_FULL: State.CANNOT_BUILD,
    OutcomeName.WRONG_BUILD: State.CANNOT_BUILD,
    OutcomeName.INCONSISTENT_ENV: State.INCONSISTENT,
    OutcomeName.ENV_NOT_ISOLATED: State.CANNOT_BUILD,
}
EXTERNAL = frozenset(
    {
        OutcomeName.HARDWARE_FAULT,
        OutcomeName.DISK_FULL,
        OutcomeName.DOWNLOAD_FAILED,
        OutcomeName.HARNESS_ERROR,
    }
)
"""Failures of the machine, the network or this tool: listed apart, never counted for or against a build."""
MUTE = frozenset(
    {
        OutcomeName.COMPILE_DISABLED,
        OutcomeName.NOTHING_COMPILED,
        OutcomeName.TOO_FEW_THREADS,
        OutcomeName.UNKNOWN,
    }
)
"""Runs that could not have shown the failure, or that nobody can read: no evidence in either direction."""
RACES = frozenset({OutcomeName.FX_FLAG_RACE, OutcomeName.OTHER_THREAD_RACE})
DEGRADED = frozenset({OutcomeName.DENSE_FALLBACK, OutcomeName.RECOMPILE_LIMIT})


@cache
def outcome_name(text: str) -> OutcomeName:
    """The name in a spelled outcome. Cached: a matrix asks for the same few thousands of times."""
    return Outcome.parse(text).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Seconds of each step of one thread, in order; the first ones contain warm-up and compilation."""

    thread: str
    step_times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """One finished run in one cell.

    Attributes:
        cell: digest of the cell's key.
        run: the run directory, relative to the matrix directory: the evidence behind every number.
        beside: name of the slot shared with a run made at the same time; empty where each has the machine to itself.
        session: the uninterrupted stretch of work it belongs to; throughput is compared only within one.
        order: position in the session, from 0.
        at: when it ended, ISO 8601 in UTC.
        outcome: what happened, spelled as in `model.Outcome`.
        secondary: what followed from it, or what was found beside it.
        seconds: wall time of the run, building excluded.
        ktok_s: thousands of tokens per second over all drafters after warm-up; None when nothing could be measured.
        warmup_s: seconds of the warm-up steps, compilation included.
        compile_s: seconds spent compiling.
        peak_bytes: peak memory, of the GPUs together, or resident without a GPU.
        recompiles: recompilations counted.
        dense_calls: attention calls that ran dense instead of fused.
        warmup_steps: leading steps of each trace that belong to the warm-up.
        facts: what the run reported of itself (`torch`, `git_version`, ...), for tables and for confounders.
        evidence: the lines that prove the outcome.
        advice: what to do about it.
        traces: step times by thread.
    """

    cell: str
    run: str
    outcome: str
    session: str = ""
    order: int = 0
    beside: str = ""
    at: str = ""
    secondary: tuple[str, ...] = ()
    seconds: float = 0.0
    ktok_s: float | None = None
    warmup_s: float | None = None
    compile_s: float | None = None
    peak_bytes: int | None = None
    recompiles: int = 0
    dense_calls: int = 0
    warmup_steps: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
    advice: str = ""
    traces: tuple[Trace, ...] = ()

    @property
    def name(self) -> OutcomeName:
        return outcome_name(self.outcome)

    @property
    def names(self) -> frozenset[OutcomeName]:
        """The outcome and everything beside it."""
        return frozenset({self.name} | {outcome_name(text) for text in self.secondary})

    @property
    def is_telling(self) -> bool:
        """Whether the run says anything about the build."""
        return self.name not in MUTE | EXTERNAL and self.name not in BLOCKING

    @property
    def is_failure(self) -> bool:
        """Whether training ended early; a degraded run is not a failure."""
        return self.is_telling and self.name not in DEGRADED | {OutcomeName.OK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a cell cannot run here, known before or while making its environment."""

    state: State
    reason: str
    unblock: str = ""
    evidence: str = ""

    @classmethod
    def from_outcome(cls, outcome: str, *, reason: str, unblock: str = "", evidence: str = "") -> Blocked:
        """The state that an outcome of building stands for; anything unforeseen is `cannot build`."""
        state = BLOCKING.get(outcome_name(outcome), State.CANNOT_BUILD)
        return cls(state=state, reason=reason, unblock=unblock, evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell with what is known of it."""

    key: CellKey
    runs: tuple[CellRun, ...] = ()
    blocked: Blocked | None = None

    @property
    def telling(self) -> tuple[CellRun, ...]:
        """Runs that say whether the cell fails; one that ran beside another says so only where it did fail."""
        return tuple(run for run in self.runs if run.is_telling and (run.is_failure or not run.beside))

    @property
    def failures(self) -> tuple[CellRun, ...]:
        return tuple(run for run in self.runs if run.is_failure)

    @property
    def races(self) -> tuple[CellRun, ...]:
        return tuple(run for run in self.telling if run.names & RACES)

    @property
    def stop(self) -> Blocked | None:
        """What keeps the cell from running: preflight, or a run that found it impossible and none that did not."""
        if self.blocked is not None or self.telling:
            return self.blocked
        impossible = [run for run in self.runs if run.name in BLOCKING and run.name not in EXTERNAL]
        if not impossible:
            return None
        run = impossible[-1]
        reason = run.evidence[0] if run.evidence else run.outcome
        return Blocked.from_outcome(run.outcome, reason=reason, unblock=run.advice, evidence=run.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The stated rules by which cells become states and states a recommendation.

    Attributes:
        allowed_rate: a clean cell is good enough when its runs leave at most this failure rate (95 %, one-sided).
        confirm: failures after which a failing cell is good enough.
        max_runs: runs of a cell, or pairs of runs, after which it is left as it is.
        interleave: runs between two runs of the baseline.
        min_effect: a slowdown below this is none, however sure (a fraction).
        max_slowdown: the slowdown up to which an upgrade is still recommended (a fraction).
        width: half-width of the throughput interval at which the figure is good enough (a fraction).
    """

    allowed_rate: float = 0.4
    confirm: int = 2
    max_runs: int = 10
    interleave: int = 4
    min_effect: float = 0.01
    max_slowdown: float = 0.05
    width: float = 0.1


def with_run(cells: tuple[Cell, ...], run: CellRun) -> tuple[Cell, ...]:
    """The cells with one more run in the cell it belongs to; unchanged when it belongs to none."""
    return tuple(
        Cell(key=cell.key, runs=(*cell.runs, run), blocked=cell.blocked) if cell.key.digest == run.cell else cell
        for cell in cells
    )


def with_block(cells: tuple[Cell, ...], digests: frozenset[str], blocked: Blocked) -> tuple[Cell, ...]:
    """The cells with the named ones marked as impossible."""
    return tuple(
        set_aside(Cell(key=cell.key, runs=cell.runs, blocked=blocked)) if cell.key.digest in digests else cell
        for cell in cells
    )


def without_runs(cells: tuple[Cell, ...], runs: frozenset[str]) -> tuple[Cell, ...]:
    """The cells without these runs."""
    return tuple(replace(cell, runs=tuple(run for run in cell.runs if run.run not in runs)) for cell in cells)


def set_aside(cell: Cell) -> Cell:
    """A cell whose environment is not what was built is shown without its earlier runs, which stay in the journal."""
    if cell.blocked is None or cell.blocked.state is not State.INCONSISTENT or not cell.runs:
        return cell
    kept = f"{len(cell.runs)} {'run' if len(cell.runs) == 1 else 'runs'} from before it was found so"
    blocked = replace(cell.blocked, reason=f"{cell.blocked.reason}; {kept} count again once it is built anew")
    return Cell(key=cell.key, blocked=blocked)
