"""The recommendation, by stated rules, from the cells alone.

A way forward is a build with a workaround. It is *acceptable* when in every history and cache state asked for, its
cells are `ok`, their clean runs leave at most the allowed failure rate, and the throughput interval does not reach
below the allowed slowdown. It is *out* when one of its cells is bad or blocked. Otherwise it is *open*.

1. Some other build than today's is acceptable: **upgrade** to it. A workaround-free way is preferred, then the faster
   one (lower end of its interval), then the newer one. A way that is only acceptable in a clean environment is taken
   when no other is, and the environment's history is then part of the advice.
2. No other build is acceptable, and every one is out: **stay** (with the workaround that makes today's build
   acceptable, if it needs one).
3. Otherwise: **not enough evidence**, with the cells and the number of runs that would settle it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ..intervals import clean_runs_needed
from . import State
from .factors import BAD
from .key import CLEAN
from .state import format_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Rules
    from .state import Assessment, Machine, View


MOST_RUNS = 100
MOST_NAMED = 4
"""Cells named in the sentence; `run_next` has them all."""


class Advice(StrEnum):
    UPGRADE = "upgrade"
    STAY = "stay"
    NOT_ENOUGH_EVIDENCE = "not enough evidence"


class Standing(StrEnum):
    ACCEPTABLE = "acceptable"
    OPEN = "open"
    OUT = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A build with a workaround, judged over its cells; `clean_only` when only its clean cells are acceptable."""

    build: str
    workaround: str
    standing: Standing
    reasons: tuple[str, ...]
    cells: tuple[Assessment, ...]
    clean_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A cell to run and how many more runs it takes."""

    cell: Assessment
    runs: int

    @property
    def words(self) -> str:
        """`4 more`; a number that no one would wait for is said to be the noise's fault."""
        return f"{self.runs} more" if self.runs < MOST_RUNS else f"{self.runs} or more, for the noise is large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to do, why, what risk remains, and what to run if that is not enough."""

    advice: Advice
    sentence: str
    build: str
    workaround: str
    reasons: tuple[str, ...]
    risks: tuple[str, ...]
    run_next: tuple[Missing, ...]


def recommend(view: View, *, current: str, machine: Machine, leaks: Sequence[tuple[str, str]] = ()) -> Recommendation:
    """Apply the rules to the cells of one machine. `leaks`: (build, hazard) pairs that a hazard probe proved open."""
    ways = ways_on(view, machine)
    others = [way for way in ways if way.build != current]
    mine = [way for way in ways if way.build == current]
    acceptable = [way for way in others if way.standing is Standing.ACCEPTABLE]
    if acceptable:
        return _upgrade(min(acceptable, key=lambda way: _preference(way, leaks)), leaks)
    if others and all(way.standing is Standing.OUT for way in others):
        return _stay(current, mine, others, leaks)
    return _undecided(current, ways, view.rules)


def ways_on(view: View, machine: Machine) -> list[Way]:
    """Every build with every workaround on one machine, judged, in the order of the axes."""
    entries = view.on(machine)
    return [judge(entries, build, workaround, view.rules) for build, workaround in _pairs(entries)]


def leading(view: View, *, current: str, machine: Machine) -> tuple[Assessment, ...]:
    """The open cells of the way that is nearest to being acceptable; none while another one is, or all are out."""
    others = [way for way in ways_on(view, machine) if way.build != current]
    open_ways = [way for way in others if way.standing is Standing.OPEN]
    if not open_ways or any(way.standing is Standing.ACCEPTABLE for way in others):
        return ()
    return min((open_cells(way, view.rules) for way in open_ways), key=lambda cells: _runs_of(cells, view.rules))


def open_cells(way: Way, rules: Rules) -> tuple[Assessment, ...]:
    """The cells of a way that still have to be run; of a clean-only way, only the clean ones."""
    return tuple(
        entry
        for entry in way.cells
        if _judge_cell(entry, rules)[0] is Standing.OPEN and not (way.clean_only and entry.cell.key.history != CLEAN)
    )


def _runs_of(cells: Sequence[Assessment], rules: Rules) -> int:
    return sum(_runs_missing(entry, rules) for entry in cells)


def judge(entries: Sequence[Assessment], build: str, workaround: str, rules: Rules) -> Way:
    """The standing of one build with one workaround, over every history and cache state."""
    cells = tuple(e for e in entries if e.cell.key.build == build and e.cell.key.workaround == workaround)
    clean = tuple(entry for entry in cells if entry.cell.key.history == CLEAN)
    standing, reasons = _standing(cells, rules)
    if standing is Standing.OUT and clean and len(clean) < len(cells):
        clean_standing, why_clean = _standing(clean, rules)
        if clean_standing is not Standing.OUT:
            return Way(
                build=build,
                workaround=workaround,
                standing=clean_standing,
                reasons=(*why_clean, *reasons),
                cells=cells,
                clean_only=True,
            )
    return Way(build=build, workaround=workaround, standing=standing, reasons=reasons, cells=cells)


def _standing(cells: Sequence[Assessment], rules: Rules) -> tuple[Standing, tuple[str, ...]]:
    judged = [(entry, *_judge_cell(entry, rules)) for entry in cells]
    for standing in (Standing.OUT, Standing.OPEN):
        reasons = tuple(f"{entry.cell.key.title}: {why}" for entry, found, why in judged if found is standing)
        if reasons:
            return standing, reasons
    return Standing.ACCEPTABLE, tuple(f"{entry.cell.key.title}: {why}" for entry, _, why in judged)


def _judge_cell(entry: Assessment, rules: Rules) -> tuple[Standing, str]:
    if entry.state is State.NOT_TESTED:
        return Standing.OPEN, entry.label
    if entry.state is State.INCONSISTENT and entry.cell.blocked is not None:  # built anew, it can be asked
        return Standing.OPEN, _blocked_text(entry)
    if entry.state not in (State.OK, State.SLOWER):
        return Standing.OUT, entry.label if entry.telling else _blocked_text(entry)
    speed, why = _judge_speed(entry, rules)
    if speed is Standing.OUT:
        return speed, why
    if entry.allowed is None or entry.allowed > rules.allowed_rate:
        return Standing.OPEN, f"{why}, still allows failures in {_percent(entry.allowed)} of the runs"
    return speed, why


def _blocked_text(entry: Assessment) -> str:
    unblock = f" (to unblock: {entry.unblock})" if entry.unblock else ""
    return f"{entry.label}: {entry.detail}{unblock}"


def _judge_speed(entry: Assessment, rules: Rules) -> tuple[Standing, str]:
    """The throughput's part of the judgement; a workload without a rate is judged by its failures alone."""
    if entry.ratio is None:
        if entry.is_baseline or entry.ktok_s is None:
            return Standing.ACCEPTABLE, entry.label
        return Standing.OPEN, f"{entry.label}, throughput not measured twice on both sides"
    limit = 1 - rules.max_slowdown
    why = f"{entry.label.split()[0]} {entry.count}, throughput {format_ratio(entry.ratio)}"
    if entry.ratio.high < limit and not entry.ratio.drift:
        return Standing.OUT, why
    if entry.ratio.low < limit or entry.ratio.drift:
        return Standing.OPEN, why
    return Standing.ACCEPTABLE, why


def _pairs(entries: Sequence[Assessment]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((entry.cell.key.build, entry.cell.key.workaround) for entry in entries))


def _preference(way: Way, leaks: Sequence[tuple[str, str]]) -> tuple[bool, bool, bool, float]:
    """Smaller is better: a proven leak without a workaround last, then any history, no workaround, speed."""
    is_open_leak = way.workaround == "none" and any(build == way.build for build, _ in leaks)
    lows = [entry.ratio.low if entry.ratio is not None else 1.0 for entry in way.cells if entry.state is State.OK]
    return (is_open_leak, way.clean_only, way.workaround != "none", -min(lows, default=0.0))


def _upgrade(way: Way, leaks: Sequence[tuple[str, str]]) -> Recommendation:
    history = ", in a fresh environment only" if way.clean_only else ""
    return Recommendation(
        advice=Advice.UPGRADE,
        sentence=f"Upgrade to {way.build} {_with(way.workaround)}{history}.",
        build=way.build,
        workaround=way.workaround,
        reasons=way.reasons,
        risks=_risks(way, leaks),
        run_next=(),
    )


def _stay(current: str, mine: Sequence[Way], others: Sequence[Way], leaks: Sequence[tuple[str, str]]) -> Recommendation:
    usable = sorted(
        (way for way in mine if way.standing is Standing.ACCEPTABLE), key=lambda way: _preference(way, leaks)
    )
    best = usable[0] if usable else None
    ending = f" {_with(best.workaround)}" if best is not None else ""
    risks = (
        _risks(best, leaks)
        if best is not None
        else tuple(f"today's build is not shown to be safe either: {reason}" for way in mine for reason in way.reasons)
    )
    return Recommendation(
        advice=Advice.STAY,
        sentence=f"Stay on {current}{ending}: no other build is acceptable.",
        build=current,
        workaround=best.workaround if best is not None else "",
        reasons=tuple(reason for way in others for reason in way.reasons),
        risks=risks,
        run_next=(),
    )


def _undecided(current: str, ways: Sequence[Way], rules: Rules) -> Recommendation:
    open_ways = [way for way in ways if way.standing is Standing.OPEN and way.build != current]
    missing = {
        entry.cell.key.digest: Missing(cell=entry, runs=_runs_missing(entry, rules))
        for way in open_ways
        for entry in open_cells(way, rules)
    }
    if not any(way.build != current for way in ways):
        sentence = f"Not enough evidence: {current} is compared with no other build."
    else:
        named = [f"{item.cell.cell.key.title} ({item.words})" for item in missing.values()]
        cells = "; ".join(named[:MOST_NAMED])
        more = f"; and {len(named) - MOST_NAMED} cells more" if len(named) > MOST_NAMED else ""
        sentence = f"Not enough evidence: run {cells}{more}."
    return Recommendation(
        advice=Advice.NOT_ENOUGH_EVIDENCE,
        sentence=sentence,
        build="",
        workaround="",
        reasons=tuple(reason for way in open_ways for reason in way.reasons),
        risks=(),
        run_next=tuple(missing.values()),
    )


def _runs_missing(entry: Assessment, rules: Rules) -> int:
    """Runs until the count is good enough; where only the interval is too wide, as many as would halve its excess."""
    by_count = clean_runs_needed(rules.allowed_rate) - entry.telling
    if by_count > 0:
        return by_count
    if entry.ratio is None:
        return 2
    half = (entry.ratio.high - entry.ratio.low) / 2
    room = max(abs(entry.ratio.value - (1 - rules.max_slowdown)), rules.min_effect)
    return max(1, min(MOST_RUNS, math.ceil(entry.ratio.runs * ((half / room) ** 2 - 1))))


def _risks(way: Way, leaks: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    risks = [
        f"{entry.count} in {entry.cell.key.title} still allows a failure in up to {_percent(entry.allowed)} of the runs"
        for entry in way.cells
        if entry.state is State.OK or entry.state is State.SLOWER
    ]
    open_leaks = [hazard for build, hazard in leaks if build == way.build]
    if open_leaks:
        names = ", ".join(open_leaks)
        risks.append(f"the hazard probes prove these leaks open in {way.build}: {names}; only a workaround closes them")
    risks += [f"not covered: {entry.cell.key.title} is {entry.label}" for entry in way.cells if entry.state in BAD]
    if any(entry.ratio is None and not entry.is_baseline for entry in way.cells if entry.state is State.OK):
        risks.append("throughput was not measured in every cell")
    risks += [f"{entry.cell.key.title}: {note}" for entry in way.cells for note in entry.notes]
    return tuple(risks)


def _with(workaround: str) -> str:
    return "without a workaround" if workaround == "none" else f"with workaround {workaround}"


def _percent(rate: float | None) -> str:
    return "any rate" if rate is None else f"{rate:.0%}"
