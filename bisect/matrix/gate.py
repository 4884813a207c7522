"""`--fail-on race,slower:5%`: which cells make a scheduled job fail."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs.errors import UsageError

from . import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import Assessment, View

EXIT_CODE = 7
"""Exit code of a matrix whose gate matched; 0 to 6 and 130 have other meanings."""
_CONDITION = re.compile(r"(?P<name>[a-z -]+?)(?::(?P<percent>\d+(?:\.\d+)?)\s*%?)?\Z")
_NAMES = {state.value.replace(" ", "-").lower(): state for state in State if state is not State.OK}
_NAMES |= {"failure": State.FAILURE, "needs-gpu": State.NEEDS_GPU}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A state that fails the job; for `slower`, only from this loss on (a fraction)."""

    state: State
    loss: float = 0.0

    def holds(self, entry: Assessment) -> bool:
        """Whether the cell is in the state; a loss counts when noise does not explain it and it is large enough."""
        if self.state is not State.SLOWER:
            return entry.state is self.state
        ratio = entry.ratio
        return ratio is not None and ratio.is_slower(0.0) and ratio.value <= 1 - self.loss


def parse_gate(text: str) -> tuple[Condition, ...]:
    """`race,slower:5%` as conditions; UsageError names the nearest state for an unknown one."""
    return tuple(_condition(part.strip()) for part in text.split(",") if part.strip())


def matched(view: View, conditions: Sequence[Condition]) -> tuple[Assessment, ...]:
    """The cells that fail the job, in order."""
    return tuple(entry for entry in view.assessments if any(condition.holds(entry) for condition in conditions))


def _condition(text: str) -> Condition:
    match = _CONDITION.match(text.lower())
    name = match["name"].strip().replace(" ", "-") if match is not None else text
    if match is None or name not in _NAMES:
        near = difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(_NAMES)}"
        raise UsageError(f"--fail-on: no such state: {text!r}", hint=hint)
    state = _NAMES[name]
    if match["percent"] is not None and state is not State.SLOWER:
        raise UsageError(f"--fail-on: only slower takes a percentage, not {text!r}", hint="write slower:5%")
    return Condition(state=state, loss=float(match["percent"] or 0) / 100)
