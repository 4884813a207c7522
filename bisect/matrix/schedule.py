"""Which cell to run next: the one whose answer improves most per second, with the baseline interleaved.

What a run of a cell is worth: the expected drop of the variance of its failure rate under a Beta(1/2, 1/2) prior,
var / (a + b + 1). An untested cell is worth 0.0625, after one clean run 0.021, after two 0.0087; so every cell is
looked at once before any is repeated, and a cell that sometimes fails is repeated before one that never does. What
it costs: the seconds of the run, plus its environment's building shared among the cells that wait for it.

Once every cell was looked at, the cells that would settle the recommendation come first: those of the way forward
that is nearest to being acceptable.

No memory: the answer follows from the cells alone, so a killed matrix goes on where it was.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ..model import OutcomeName
from . import CellRun, with_run
from .recommend import leading
from .state import Assessment, View, assess, runs_wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from envs.room import Estimate

    from . import Cell, Rules
    from .axes import Budget

USUAL_PAIRS = 4
"""Pairs of runs, about, until a ratio is good enough on a quiet machine."""
RUN_S = 30.0
"""Expected seconds of a run of which nothing is known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cell to run next, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is left until every cell is good enough, as far as can be said before."""

    runs: int
    builds: int
    seconds: float


def next_choice(
    cells: Sequence[Cell],
    rules: Rules,
    *,
    build_s: Mapping[str, float],
    session: str,
    current: str = "",
    interleaved: bool = True,
) -> Choice | None:
    """The next run, or None when every cell is good enough.

    `build_s`: seconds to make each environment that is not built yet; `current`: the build in use today;
    `interleaved`: whether the baseline runs between the others.
    """
    view = assess(cells, rules)
    waiting = [entry for entry in view.assessments if not entry.is_settled]
    if not waiting:
        return None
    due = _baseline_due(view, waiting, session=session) if interleaved else None
    if due is not None:
        return Choice(cell=due.cell, reason="baseline, interleaved")
    sharing = Counter(entry.cell.key.environment for entry in waiting)

    def value_per_second(entry: Assessment) -> float:
        environment = entry.cell.key.environment
        cost = expected_seconds(entry.cell, cells) + build_s.get(environment, 0.0) / sharing[environment]
        return run_value(entry) / cost

    best = max(_decisive(view, waiting, current=current) or waiting, key=value_per_second)
    return Choice(cell=best.cell, reason=_reason(best))


def with_pending(cells: Sequence[Cell], pending: Sequence[tuple[str, int]], *, session: str) -> tuple[Cell, ...]:
    """The cells as they will be if every run under way ends like the last telling one of its cell, or else well.

    `pending`: (digest of the cell, order in the session) of each run under way.
    """
    imagined = tuple(cells)
    for digest, order in pending:
        cell = next(cell for cell in imagined if cell.key.digest == digest)
        outcome = cell.telling[-1].outcome if cell.telling else OutcomeName.OK.value
        seconds = expected_seconds(cell, imagined)
        run = CellRun(cell=digest, run="", outcome=outcome, session=session, order=order, seconds=seconds)
        imagined = with_run(imagined, run)
    return imagined


def _decisive(view: View, waiting: Sequence[Assessment], *, current: str) -> list[Assessment]:
    """The waiting cells that would settle the recommendation, once every cell was looked at."""
    if any(not entry.cell.runs for entry in waiting):
        return []
    wanted = {entry.cell.key for entry in leading(view, current=current, machine=waiting[0].cell.key.machine)}
    return [entry for entry in waiting if entry.cell.key in wanted]


def run_value(entry: Assessment) -> float:
    """Expected drop of the variance of the failure rate by one more run (Beta-Bernoulli, Jeffreys prior)."""
    a, b = entry.failures + 0.5, len(entry.cell.runs) - entry.failures + 0.5
    return a * b / ((a + b) ** 2 * (a + b + 1) ** 2)


def likely_to_train(cell: Cell, cells: Sequence[Cell]) -> bool:
    """Whether most telling runs of this cell trained to their end; of one not run yet, of those with its workaround."""
    like = [run for other in cells if other.key.workaround == cell.key.workaround for run in other.telling]
    runs = cell.telling or like
    return 2 * sum(run.is_failure for run in runs) < len(runs) if runs else True


def expected_seconds(cell: Cell, cells: Sequence[Cell]) -> float:
    """Median seconds of this cell's runs, else of its environment's, else of all, else `RUN_S`."""
    groups = (
        [run.seconds for run in cell.runs],
        [run.seconds for other in cells if other.key.environment == cell.key.environment for run in other.runs],
        [run.seconds for other in cells for run in other.runs],
    )
    return max(1.0, next((median(group) for group in groups if group), RUN_S))


def plan(cells: Sequence[Cell], rules: Rules, *, build_s: Mapping[str, float], paired: bool = False) -> Plan:
    """Runs, environments and seconds still needed if every waiting cell turns out clean: the dearest case by count.

    `paired`: throughput is measured in pairs of runs made at the same time, not with baselines between the others.
    """
    view = assess(cells, rules)
    waiting = [entry for entry in view.assessments if not entry.is_settled]
    runs = {entry.cell.key.digest: max(1, runs_wanted(entry.cell, rules)) for entry in waiting}
    total = sum(runs.values())
    needed = {entry.cell.key.environment for entry in waiting} & build_s.keys()
    seconds = sum(runs[entry.cell.key.digest] * expected_seconds(entry.cell, cells) for entry in waiting)
    mean = seconds / total if total else 0.0
    building = sum(build_s[name] for name in needed)
    if paired:
        pairs = USUAL_PAIRS * sum(likely_to_train(entry.cell, cells) and not entry.is_baseline for entry in waiting)
        return Plan(runs=total + 2 * pairs, builds=len(needed), seconds=seconds + pairs * mean + building)
    baselines = total // rules.interleave
    return Plan(runs=total + baselines, builds=len(needed), seconds=seconds + baselines * mean + building)


def _baseline_due(view: View, waiting: Sequence[Assessment], *, session: str) -> Assessment | None:
    """The baseline, when a session begins without it, or `interleave` runs went by since its last one."""
    machine = waiting[0].cell.key.machine
    baseline = view.baseline(machine)
    if baseline is None or all(entry.is_baseline for entry in waiting):
        return None
    orders = [run.order for entry in view.on(machine) for run in entry.cell.runs if run.session == session]
    of_baseline = [run.order for run in baseline.cell.runs if run.session == session]
    newest = max(orders, default=-1)
    if not of_baseline or newest - max(of_baseline) >= view.rules.interleave:
        return baseline
    return None


def _reason(entry: Assessment) -> str:
    if not entry.cell.runs:
        return "not tested yet"
    if entry.failures:
        return f"confirms {entry.detail}"
    return f"{entry.count} so far"


def plan_text(cells: Sequence[Cell], plan: Plan, *, sizes: Sequence[Estimate], free_bytes: int, budget: Budget) -> str:
    """What is about to happen, before anything is downloaded: the cost, every cell, those that cannot run and why.

    `sizes` are of the environments that are known to be built; those of the others cannot be told.
    """
    num_blocked = sum(cell.blocked is not None for cell in cells)
    disk_bytes = sum(needs.disk_bytes for needs in sizes)
    builds = f"{plan.builds} environments to build" + (f" ({_cost(sizes)})" if plan.builds else "")
    runs = f"about {plan.runs} runs, {builds}, {plan.seconds / 60:.0f} minutes"
    lines = [f"{len(cells)} cells, {num_blocked} of them impossible here; {runs}", *_listed(cells)]
    lines += dict.fromkeys(needs.image_told for needs in sizes if needs.image)
    if disk_bytes > free_bytes:
        free = f"{free_bytes / 1e9:.1f} GB are free"
        lines.append(f"warning: {free}: give another --store, fewer builds, or prune first")
    return "\n".join((*lines, _within(budget, plan)))


def _listed(cells: Sequence[Cell]) -> Iterator[str]:
    """One line an environment: its workarounds by cache, and why they cannot run."""
    for environment, why in dict.fromkeys((cell.key.environment, cell.blocked) for cell in cells):
        keys = [cell.key for cell in cells if (cell.key.environment, cell.blocked) == (environment, why)]
        caches = dict.fromkeys(key.cache for key in keys)
        named = (
            f"{', '.join(key.workaround for key in keys if key.cache == cache)} ({cache} cache)" for cache in caches
        )
        line = f"  {environment}: workaround {'; '.join(named)}"
        if why is not None:
            unblock = f"; unblock: {why.unblock}" if why.unblock else ""
            line += f"; cannot run: {why.state.value}: {why.reason}{unblock}"
        yield line


def _within(budget: Budget, plan: Plan) -> str:
    """What one invocation may spend, and whether the plan is more than that."""
    seconds = math.inf if budget.seconds is None else budget.seconds
    is_more = plan.runs > budget.runs if budget.runs is not None else plan.seconds > seconds
    more = ": less than all of it; the cells that tell most come first, and the same command goes on" if is_more else ""
    return f"budget of one invocation (--budget): {budget}{more}"


def _cost(sizes: Sequence[Estimate]) -> str:
    if not sizes:
        return "size unknown"
    download, disk = (sum(getattr(needs, name) for needs in sizes) / 1e9 for name in ("download_bytes", "disk_bytes"))
    return f"{download:.1f} GB to download, {disk:.1f} GB on disk"
