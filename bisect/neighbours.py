"""What both searches say about a change: between which two neighbours it lies, and how that reads as an answer.

Two usable positions next to each other, with only unusable ones between them, are the closest that runs can come to a
change. Next to each other it is `found`; across a hole it is `narrowed` to the hole and the newer neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .model import Found, Narrowed, NoRegression, Posterior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .lineup import FloatArray, IntArray, Lineup
    from .model import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Two neighbouring usable positions, and the probability that the change lies between them in one direction.

    `rising`: the older neighbour is the good one.
    """

    older: int
    newer: int
    rising: bool
    mass: float

    @property
    def good(self) -> int:
        return self.older if self.rising else self.newer

    @property
    def bad(self) -> int:
        return self.newer if self.rising else self.older


def likeliest_gap(usable: IntArray, *, rise: FloatArray, fall: FloatArray) -> Gap | None:
    """The gap and direction with the most probability; `rise` and `fall` are indexed by change point."""
    if usable.size < 2:
        return None
    reach = [np.concatenate([[0.0], np.cumsum(mass)])[usable] for mass in (rise, fall)]
    mass = np.diff(np.stack(reach), axis=1)
    side, place = np.unravel_index(int(np.argmax(mass)), mass.shape)
    return Gap(
        older=int(usable[place]), newer=int(usable[place + 1]), rising=bool(side == 0), mass=float(mass[side, place])
    )


def side_counts(line: Lineup, gap: Gap) -> tuple[tuple[int, int], tuple[int, int]]:
    """Failures and runs of the good side of a gap, and of its bad side."""
    sides = slice(0, gap.older + 1), slice(gap.newer, line.size)
    older, newer = ((int(line.failures[side].sum()), int(line.runs[side].sum())) for side in sides)
    return (older, newer) if gap.rising else (newer, older)


def names_of(line: Lineup, gap: Gap) -> tuple[str, str]:
    """The last good and the first bad candidate of a gap: of equal ones those nearest to the change."""
    return line.groups[gap.good][-1 if gap.rising else 0], line.groups[gap.bad][0 if gap.rising else -1]


def answer(line: Lineup, gap: Gap, *, posterior: Posterior, notes: tuple[str, ...], untested: str) -> Found | Narrowed:
    """The verdict for a gap. Of equal candidates the ones nearest to the change are named."""
    last_good, first_bad = names_of(line, gap)
    direction = "regression" if gap.rising else "fix"
    if gap.newer - gap.older == 1:
        return Found(
            last_good=last_good,
            first_bad=first_bad,
            direction=direction,
            confidence=gap.mass,
            posterior=posterior,
            notes=notes,
        )
    return Narrowed(
        last_good=last_good,
        first_bad=first_bad,
        suspects=tuple(name for group in line.groups[gap.older + 1 : gap.newer + 1] for name in group),
        direction=direction,
        confidence=gap.mass,
        posterior=posterior,
        reason=across(gap.newer - gap.older - 1, untested),
        notes=notes,
    )


def across(number: int, untested: str) -> str:
    """Why a change between two neighbours is only narrowed: so many candidates between them say nothing."""
    return f"{number} candidate{'' if number == 1 else 's'} between the neighbours {untested}"


def unchanged(posterior: Posterior, *, allowed_rate: float) -> NoRegression:
    """The verdict for two ends of the same code, which nothing needs to be run for."""
    return NoRegression(
        confidence=1.0,
        allowed_rate=allowed_rate,
        posterior=posterior,
        reason="both endpoints are the same code, so nothing between them can have changed",
    )


def posterior_of(problem: Problem, line: Lineup, *, change: FloatArray, none: float) -> Posterior:
    """The posterior by name: of equal candidates the first carries it, those outside the endpoints carry none."""
    mass = dict.fromkeys(problem.candidates, 0.0)
    mass.update((line.name(position), float(share)) for position, share in enumerate(change, start=1))
    return Posterior(by_candidate=tuple(mass.items()), none=none)


def credible(line: Lineup, change: FloatArray, *, confidence: float) -> tuple[tuple[str, ...], float]:
    """The fewest change points that together reach the confidence (or all there is), in time order."""
    order: Sequence[int] = np.argsort(-change, kind="stable").tolist()
    enough = int(np.searchsorted(np.cumsum(change[order]), confidence)) + 1
    kept = sorted(order[:enough])
    return tuple(name for index in kept for name in line.groups[index + 1]), float(change[kept].sum())
