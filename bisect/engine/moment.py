"""A search at one moment: all that the rules of `engine` and `premises` decide from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import Probe
from ..neighbours import posterior_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import Lineup
    from ..model import Posterior, Problem
    from .posterior import Belief


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The problem, what was seen, what it says, how many runs were made, and the positions being run."""

    problem: Problem
    line: Lineup
    belief: Belief
    runs: int
    pending: tuple[int, ...]

    @property
    def posterior(self) -> Posterior:
        return posterior_of(self.problem, self.line, change=self.belief.change, none=self.belief.none)

    def probe(self, positions: Sequence[int], reason: str) -> Probe:
        return self.ask([self.line.name(position) for position in positions], reason)

    def ask(self, names: Sequence[str], reason: str) -> Probe:
        first, *others = names
        return Probe(candidate=first, also=tuple(others), reason=reason, posterior=self.posterior)
