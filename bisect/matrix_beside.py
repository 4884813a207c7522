"""What runs beside the chosen run on a machine where two fit: the baseline beside a run that is to be measured.

Without a GPU one run leaves half of two CPUs idle (it compiles on one), so the second costs no time, and what slows
the machine slows both. Throughput is then compared within such a pair only; what runs beside anything but the
baseline counts for its failures and not for its rate.

No memory, like `matrix_schedule`: the answer follows from the cells, the run under way among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .matrix_schedule import Choice, expected_seconds, likely_to_train, run_value
from .matrix_state import assess, wants_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matrix import Cell, CellKey, Rules

AT_ONCE = 2
"""Runs at the same time: more would share CPUs, and each would wait for the others."""


def beside(cells: Sequence[Cell], rules: Rules, first: CellKey, *, session: str) -> Choice | None:
    """The run to make at the same time as the one of `first`; None where it is better left alone.

    `cells`: what is known, without the run of `first`. A cell that trains gets the baseline beside it until its ratio
    is good enough. Anything else gets a cell that is likely to end like it: a run that fails early would leave one
    that trains without a neighbour.
    """
    view = assess(cells, rules)
    entries = {entry.cell.key: entry for entry in view.on(first.machine)}
    mine, baseline = entries[first], view.baseline(first.machine)
    if baseline is not None and baseline.cell.key == first:
        if not any(run.session == session for run in mine.cell.runs):
            return Choice(cell=mine.cell, reason="baseline beside itself: the A/A noise")
    elif baseline is not None and wants_ratio(mine, rules):
        return Choice(cell=baseline.cell, reason="baseline, at the same time")
    alike = likely_to_train(mine.cell, cells)
    others = [
        entry
        for key, entry in entries.items()
        if key != first
        and not entry.is_settled
        and not wants_ratio(entry, rules)
        and likely_to_train(entry.cell, cells) == alike
    ]
    if not others:
        fits = alike and baseline is not None and baseline.cell.key != first
        return Choice(cell=baseline.cell, reason="baseline, at the same time") if fits and baseline else None
    best = max(others, key=lambda entry: run_value(entry) / expected_seconds(entry.cell, cells))
    return Choice(cell=best.cell, reason="at the same time")
