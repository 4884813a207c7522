"""What runs next on a machine where two runs fit: one alone, or one to be measured with the baseline beside it.

Without a GPU one run leaves half of two CPUs idle (it compiles on one), so a second costs no time, and what slows the
machine slows both: throughput is compared within such a pair. But threads that share their CPUs with another process
meet less often, and a race that needs them to meet is seen less often. So whether a build fails is asked of runs that
have the machine to themselves, and then how fast it is; a run beside another counts where it fails, never as clean.

No memory, like `schedule`: the answer follows from the cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .schedule import Choice, next_choice
from .state import assess, runs_wanted, wants_ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import Cell, Rules

AT_ONCE = 2
"""Runs at the same time: more would share CPUs, and each would wait for the others."""


def next_slot(
    cells: Sequence[Cell], rules: Rules, *, build_s: Mapping[str, float], session: str, current: str = ""
) -> tuple[Choice, ...]:
    """The run to make now, or the two to make at the same time; empty when every cell is good enough.

    The first pair of a session, as soon as the baseline has trained, is the baseline beside itself: the A/A noise by
    which the others are judged, and from then on no rate is compared but within a pair.
    """
    choice = next_choice(cells, rules, build_s=build_s, session=session, current=current, interleaved=False)
    if choice is None:
        return ()
    view = assess(cells, rules)
    entry = next(entry for entry in view.assessments if entry.cell.key == choice.cell.key)
    baseline = view.baseline(choice.cell.key.machine)
    if baseline is None or not baseline.telling:
        return (choice,)
    if not any(run.beside and run.session == session for run in baseline.cell.runs):
        return (Choice(cell=baseline.cell, reason="baseline beside itself: the A/A noise"),) * 2
    if runs_wanted(choice.cell, rules) > 0 or not wants_ratio(entry, rules):
        return (choice,)
    return (choice, Choice(cell=baseline.cell, reason="baseline, at the same time"))
