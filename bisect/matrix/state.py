"""From the runs in the cells to what each cell says: state, count, bound, throughput, and why.

The rules, in the order in which they are asked (the first that fits names the state):

1. blocked: the environment or the machine cannot do it (`cannot build`, `driver too old`, ...);
2. `not tested`: no telling run;
3. `race`: a run showed a race, as its root cause or beside it;
4. `other failure`: a run ended early otherwise; the commonest is named;
5. `degraded`: dense attention, the recompile limit, or recompile stalls that the baseline does not have;
6. `slower`: the whole interval of the throughput ratio lies below 1, and the loss is at least `min_effect`;
7. `ok`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from ..intervals import allowed_rate, clean_runs_needed, clopper_pearson
from . import DEGRADED, Cell, CellRun, Rules, State, outcome_name
from .notes import notes_on, peak_of
from .throughput import Noise, Ratio, log_ratios, noise_of, ratio_of, stalls_of, steady_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..pace import Stalls

STALL_SHARE = 0.25
"""Share of the steady time in stalls, above the baseline's, from which a cell is degraded."""
LONG_RUN = 30
"""Steady steps a thread from which the baseline's own stalls are degradation, not a short run's last compilations."""

Machine: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """One cell as every report shows it.

    Attributes:
        cell: the cell itself, with its runs as evidence.
        state: what it says.
        detail: what the state is about: the failure's name, the degradation, the reason of a block.
        failures: telling runs that ended early.
        telling: runs that say anything.
        allowed: failure rate that the runs still allow (95 %, one-sided); None without a telling run.
        ratio: throughput relative to the baseline; None when it could not be measured twice on both sides.
        is_baseline: whether the ratios of its machine are relative to this cell.
        ktok_s: median throughput.
        warmup_s: median warm-up, compilation included.
        compile_s: median compilation time.
        peak_bytes: largest peak memory.
        unblock: what would make a blocked cell possible.
        notes: confounders, external failures, secondary findings, each with its run.
        is_settled: whether the answer is good enough by the rules.
    """

    cell: Cell
    state: State
    detail: str
    failures: int
    telling: int
    allowed: float | None
    ratio: Ratio | None
    is_baseline: bool
    ktok_s: float | None
    warmup_s: float | None
    compile_s: float | None
    peak_bytes: int | None
    unblock: str
    notes: tuple[str, ...]
    is_settled: bool

    @property
    def count(self) -> str:
        """Failures of telling runs, `0/6`; a dash where nothing ran."""
        return f"{self.failures}/{self.telling}" if self.telling else "-"

    @property
    def rate(self) -> str:
        """The failure rate that the runs leave possible: `up to 39 %` after none in six, `4-78 %` after two in six."""
        if self.allowed is None:
            return "-"
        if self.failures == 0:
            return f"up to {self.allowed:.0%}".replace("%", " %")
        low, high = clopper_pearson(self.failures, self.telling)
        return f"{low * 100:.0f}-{high * 100:.0f} %"

    @property
    def label(self) -> str:
        """State, count and what it is about, in a few words; never a bare tick."""
        if not self.telling:
            return self.state.value
        if self.state is State.SLOWER and self.ratio is not None:
            return f"slower {format_ratio(self.ratio)} {self.count}"
        if self.state in (State.FAILURE, State.DEGRADED, State.RACE):
            return f"{self.state.value} {self.count} ({self.detail})"
        return f"{self.state.value} {self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All cells assessed, with the baseline and the noise of each machine."""

    assessments: tuple[Assessment, ...]
    noise: tuple[tuple[Machine, Noise], ...]
    rules: Rules

    @property
    def machines(self) -> tuple[Machine, ...]:
        return tuple(dict.fromkeys(entry.cell.key.machine for entry in self.assessments))

    def on(self, machine: Machine) -> tuple[Assessment, ...]:
        return tuple(entry for entry in self.assessments if entry.cell.key.machine == machine)

    def baseline(self, machine: Machine) -> Assessment | None:
        return next((entry for entry in self.on(machine) if entry.is_baseline), None)

    def noise_on(self, machine: Machine) -> Noise | None:
        return dict(self.noise).get(machine)


def assess(cells: Sequence[Cell], rules: Rules) -> View:
    """Every cell's state; cells of different machines, profiles or benchmarks are never compared."""
    assessments: dict[str, Assessment] = {}
    noise: list[tuple[Machine, Noise]] = []
    for _, members in _comparable(cells):
        baseline = choose_baseline(members)
        spread = noise_of(members, baseline) if baseline is not None else None
        if spread is not None:
            noise.append((members[0].key.machine, spread))
        compared = (
            sum(len(log_ratios(cell, baseline)) > 1 for cell in members if cell is not baseline) if baseline else 0
        )
        for cell in members:
            assessments[cell.key.digest] = _assess_cell(cell, baseline, spread, rules=rules, comparisons=compared)
    ordered = tuple(assessments[cell.key.digest] for cell in cells)
    return View(assessments=ordered, noise=tuple(noise), rules=rules)


def choose_baseline(cells: Sequence[Cell]) -> Cell | None:
    """The first cell, in the order of the axes, that can run and does not fail more often than it trains."""
    for cell in cells:
        if cell.stop is None and (not cell.failures or len(cell.failures) < len(cell.telling) / 2):
            return cell
    return None


def format_ratio(ratio: Ratio) -> str:
    """`0.93x [0.90, 0.96]`, with a word where the machine moved more than the effect."""
    text = f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{text} inconclusive: rate drifts within the runs" if ratio.drift else text


def runs_wanted(cell: Cell, rules: Rules) -> int:
    """Clean runs still missing until the count is good enough; 0 for a cell that fails or cannot run."""
    if cell.stop is not None or cell.failures:
        return 0
    return max(0, min(clean_runs_needed(rules.allowed_rate), rules.max_runs) - len(cell.telling))


def wants_ratio(entry: Assessment, rules: Rules) -> bool:
    """Whether the cell trains and its throughput relative to the baseline is not known well enough."""
    trained = any(run.ktok_s is not None for run in entry.cell.telling)
    if entry.is_baseline or entry.failures or not trained:
        return False
    return entry.ratio is None or not _is_decided(entry.ratio, rules)


def _comparable(cells: Sequence[Cell]) -> list[tuple[object, list[Cell]]]:
    def group(cell: Cell) -> tuple[str, ...]:
        return (*cell.key.machine, cell.key.profile, cell.key.benchmark)

    return [(key, list(members)) for key, members in groupby(sorted(cells, key=group), key=group)]


def _assess_cell(
    cell: Cell, baseline: Cell | None, noise: Noise | None, *, rules: Rules, comparisons: int
) -> Assessment:
    is_baseline = baseline is not None and baseline.key == cell.key
    ratio = ratio_of(cell, baseline, noise, comparisons=comparisons) if baseline and not is_baseline else None
    state, detail = _state(cell, baseline, ratio, rules)
    telling = cell.telling
    return Assessment(
        cell=cell,
        state=state,
        detail=detail,
        failures=len(cell.failures),
        telling=len(telling),
        allowed=allowed_rate(len(cell.failures), len(telling)) if telling else None,
        ratio=ratio,
        is_baseline=is_baseline,
        ktok_s=_median(run.ktok_s for run in telling if not run.is_failure),
        warmup_s=_median(run.warmup_s for run in telling),
        compile_s=_median(run.compile_s for run in telling),
        peak_bytes=peak_of(cell),
        unblock=cell.stop.unblock if cell.stop is not None else "",
        notes=notes_on(cell, baseline),
        is_settled=_is_settled(cell, ratio, rules, is_baseline=is_baseline),
    )


def _state(cell: Cell, baseline: Cell | None, ratio: Ratio | None, rules: Rules) -> tuple[State, str]:
    if cell.stop is not None:
        return cell.stop.state, cell.stop.reason
    if not cell.telling:
        return State.NOT_TESTED, _why_not_tested(cell)
    if cell.races or cell.failures:
        return (State.RACE, _commonest(cell.races)) if cell.races else (State.FAILURE, _commonest(cell.failures))
    degraded = _degradation(cell, baseline)
    if degraded:
        return State.DEGRADED, degraded
    if ratio is not None and ratio.is_slower(rules.min_effect):
        return State.SLOWER, format_ratio(ratio)
    return State.OK, ""


def _why_not_tested(cell: Cell) -> str:
    if not cell.runs:
        return "no run yet"
    counts = Counter(run.outcome for run in cell.runs)
    return "no telling run: " + ", ".join(f"{count} x {name}" for name, count in counts.most_common())


def _commonest(runs: Sequence[CellRun]) -> str:
    return Counter(run.outcome for run in runs).most_common(1)[0][0]


def _degradation(cell: Cell, baseline: Cell | None) -> str:
    for run in cell.telling:
        for text in (run.outcome, *run.secondary):
            if outcome_name(text) in DEGRADED:
                return text
        if run.dense_calls:
            return "dense_fallback"
    share, worst = _stalled(cell)
    if baseline is None or baseline.key == cell.key:
        long_enough = all(steady_steps(run) >= LONG_RUN for run in cell.telling)
        limit = STALL_SHARE if long_enough else math.inf
    else:
        limit = STALL_SHARE + _stalled(baseline)[0]
    if worst is None or share < limit:
        return ""
    stalls = f"{worst.count} of {worst.steps} steps up to {worst.longest_s:.2g} s, not {worst.median_s:.2g} s"
    return f"recompile stalls: {stalls}"


def _stalled(cell: Cell) -> tuple[float, Stalls | None]:
    """The median over the runs of the share of steady time spent in stalls, and the worst run's stalls."""
    found = [stalls_of(run) for run in cell.telling if run.traces]
    shares = [stalls.share if stalls is not None else 0.0 for stalls in found]
    worst = max((stalls for stalls in found if stalls is not None), key=lambda stalls: stalls.share, default=None)
    return (median(shares) if shares else 0.0), worst


def _is_settled(cell: Cell, ratio: Ratio | None, rules: Rules, *, is_baseline: bool) -> bool:
    beside = sum(bool(run.beside) for run in cell.runs)
    if cell.stop is not None or max(beside, len(cell.runs) - beside) >= rules.max_runs:
        return True
    if cell.failures:
        return len(cell.failures) >= rules.confirm
    if runs_wanted(cell, rules) > 0:
        return False
    rates = [run.ktok_s for run in cell.telling if run.ktok_s is not None]
    if is_baseline or not rates:
        return True
    return ratio is not None and _is_decided(ratio, rules)


def _is_decided(ratio: Ratio, rules: Rules) -> bool:
    """Narrow enough, or wholly on one side of the slowdown that would forbid the upgrade."""
    limit = 1 - rules.max_slowdown
    return ratio.high - ratio.low <= 2 * rules.width or ratio.low >= limit or ratio.high < limit


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
