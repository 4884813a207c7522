"""What changed since an older matrix, cell by cell, and whether noise alone explains it.

Cells are matched by their question (build, history, workaround, cache, profile). Counts are compared by Fisher's
exact test, rates by their intervals; a changed machine, lock or benchmark is said first, because then the two
answers were not to the same question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import fisher_exact

from . import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import Assessment

SIGNIFICANT = 0.05
"""p-value from which noise is no longer a good explanation; divided by the number of cells compared."""
_COUNTED = frozenset({State.OK, State.RACE, State.FAILURE, State.SLOWER, State.DEGRADED})


class Explanation(StrEnum):
    """What stands behind a difference."""

    SAME = "same"
    NOISE = "noise explains it"
    CHANGED = "noise does not explain it"
    NEW = "new cell"
    GONE = "no longer asked"
    FIRST_RESULT = "tested now, not tested before"
    NO_RESULT = "tested before, not tested now"
    AVAILABILITY = "availability changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One cell in both matrices. `also` lists what else differs in the keys (lock, benchmark, machine)."""

    title: str
    before: str
    after: str
    explanation: Explanation
    p_value: float | None
    also: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        return self.explanation is not Explanation.SAME


def compare(old: Sequence[Assessment], new: Sequence[Assessment]) -> tuple[Change, ...]:
    """Every cell of either matrix, in the new one's order, then those that are gone."""
    before = _by_question(old)
    after = _by_question(new)
    both = max(1, len(before.keys() & after.keys()))
    changes = [
        _change(before[question], entry, level=SIGNIFICANT / both)
        if question in before
        else _one_sided(entry, Explanation.NEW)
        for question, entry in after.items()
    ]
    gone = [_one_sided(entry, Explanation.GONE) for question, entry in before.items() if question not in after]
    return tuple(changes + gone)


def _by_question(entries: Sequence[Assessment]) -> dict[tuple[str, ...], Assessment]:
    """The cell with the most telling runs for each question: another machine's copy must not hide it."""
    found: dict[tuple[str, ...], Assessment] = {}
    for entry in entries:
        known = found.get(entry.cell.key.question)
        if known is None or entry.telling > known.telling:
            found[entry.cell.key.question] = entry
    return found


def _one_sided(entry: Assessment, explanation: Explanation) -> Change:
    is_new = explanation is Explanation.NEW
    return Change(
        title=entry.cell.key.title,
        before="" if is_new else entry.label,
        after=entry.label if is_new else "",
        explanation=explanation,
        p_value=None,
        also=(),
    )


def _change(old: Assessment, new: Assessment, *, level: float) -> Change:
    explanation, p_value = _explain(old, new, level=level)
    return Change(
        title=new.cell.key.title,
        before=old.label,
        after=new.label,
        explanation=explanation,
        p_value=p_value,
        also=_key_differences(old, new),
    )


def _explain(old: Assessment, new: Assessment, *, level: float) -> tuple[Explanation, float | None]:
    if old.state not in _COUNTED or new.state not in _COUNTED:
        return _availability(old, new), None
    p_value = _p_value(old, new)
    if p_value <= level or _rates_apart(old, new) or _nature_changed(old, new):
        return Explanation.CHANGED, p_value
    same = old.state is new.state and old.detail == new.detail
    return (Explanation.SAME if same else Explanation.NOISE), p_value


def _availability(old: Assessment, new: Assessment) -> Explanation:
    if old.state is new.state:
        return Explanation.SAME
    if old.state is State.NOT_TESTED:
        return Explanation.FIRST_RESULT
    return Explanation.NO_RESULT if new.state is State.NOT_TESTED else Explanation.AVAILABILITY


def _p_value(old: Assessment, new: Assessment) -> float:
    table = [[entry.failures, entry.telling - entry.failures] for entry in (old, new)]
    return float(fisher_exact(np.array(table))[1])


def _rates_apart(old: Assessment, new: Assessment) -> bool:
    """Whether the two ratios to their own baselines differ by more than both intervals together."""
    if old.ratio is None or new.ratio is None or old.ratio.drift or new.ratio.drift:
        return False
    distance = abs(math.log(new.ratio.value / old.ratio.value))
    halves = [math.log(ratio.high / ratio.low) / 2 for ratio in (old.ratio, new.ratio)]
    return distance > math.hypot(*halves)


def _nature_changed(old: Assessment, new: Assessment) -> bool:
    """A change that no luck explains: both always fail, but differently, or degradation came or went."""
    if min(old.telling, new.telling) < 2 or (old.state is new.state and old.detail == new.detail):
        return False
    always = all(entry.failures == entry.telling for entry in (old, new))
    never = all(entry.failures == 0 for entry in (old, new))
    return always or (never and State.DEGRADED in (old.state, new.state))


def _key_differences(old: Assessment, new: Assessment) -> tuple[str, ...]:
    before, after = old.cell.key, new.cell.key
    return tuple(
        f"{name} differs: {getattr(before, attribute) or 'none'} -> {getattr(after, attribute) or 'none'}"
        for name, attribute in (
            ("machine", "node"),
            ("platform", "platform"),
            ("GPU", "gpu"),
            ("driver", "driver"),
            ("environment's lock", "lock"),
            ("benchmark", "benchmark"),
        )
        if getattr(before, attribute) != getattr(after, attribute)
    )
