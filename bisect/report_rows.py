"""The rows of a report: one candidate each with everything seen of it, and what must be said beside them. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp
from statistics import fmean
from typing import TYPE_CHECKING, Any

from .intervals import means_with_intervals
from .model import Conclusion, Observation, Outcome, OutcomeName
from .same_code import told
from .state import State, commit_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .journal import Contents
    from .lineup import Lineup
    from .model import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate of the range and everything seen of it.

    `otherwise`: failures other than the hunted one in runs that count as good. `interval`: 95 % of `ratio`, by the
    scatter within all candidates; None while nothing was measured twice.
    """

    name: str
    date: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    good: int = 0
    bad: int = 0
    skipped: int = 0
    outcomes: tuple[tuple[str, int], ...] = ()
    otherwise: tuple[tuple[str, int], ...] = ()
    reason: str = ""
    probability: float = 0.0
    values: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """Throughput relative to the baseline: the geometric mean over the pairs; None where none was measured."""
        return exp(fmean(self.values)) if self.values else None

    @property
    def count(self) -> str:
        """Bad runs of all that count, `3/7`; '' where nothing was run."""
        return f"{self.bad}/{self.good + self.bad}" if self.good + self.bad else ""


def rows_of(contents: Contents, step: Step) -> tuple[Row, ...]:
    """One row per planned candidate, with its observations counted."""
    (plan,) = contents.of("plan")[-1:] or ({"candidates": []},)
    state = State.replay(contents.entries)
    probability = dict(step.posterior.by_candidate)
    seen: dict[str, list[Observation]] = {}
    for item in state.evidence:
        seen.setdefault(item.candidate, []).append(item)
    reasons = {entry["candidate"]: entry.get("reason", "") for entry in contents.of("observed")}
    rows = tuple(
        _row(candidate, seen.get(candidate["id"], []), state, probability, reasons) for candidate in plan["candidates"]
    )
    return tuple(
        replace(row, interval=(exp(about[0]), exp(about[2]))) if about else row
        for row, about in zip(rows, means_with_intervals([row.values for row in rows]), strict=True)
    )


def _row(
    candidate: Mapping[str, Any],
    seen: list[Observation],
    state: State,
    probability: Mapping[str, float],
    reasons: Mapping[str, str],
) -> Row:
    name = candidate["id"]
    counts = Counter(item.conclusion for item in seen)
    build = state.builds.get(name)
    return Row(
        name=name,
        date=candidate.get("date", ""),
        facts=build.facts if build else {},
        good=counts[Conclusion.GOOD],
        bad=counts[Conclusion.BAD],
        skipped=counts[Conclusion.SKIP],
        outcomes=tuple(Counter(item.outcome for item in seen if item.outcome).most_common()),
        otherwise=tuple(Counter(item.outcome for item in seen if _fails_otherwise(item)).most_common()),
        reason=reasons.get(name, ""),
        probability=probability.get(name, 0.0),
        values=tuple(item.value for item in seen if item.value is not None),
    )


def _fails_otherwise(item: Observation) -> bool:
    if item.conclusion is not Conclusion.GOOD:
        return False
    try:
        return Outcome.parse(item.outcome).name not in (OutcomeName.OK, OutcomeName.UNKNOWN)
    except ValueError:  # a hazard's answer, or a command's
        return False


def good_for_one_thing_only(rows: Sequence[Row], hunted: str) -> tuple[str, ...]:
    """A sentence for builds that count as good and failed all the same: whoever upgrades to one must know."""
    failing = [
        f"{row.name} in {sum(count for _, count in row.otherwise)} of {row.good} "
        f"({', '.join(name for name, _ in row.otherwise)})"
        for row in rows
        if row.otherwise
    ]
    return (f"good only as to {hunted}, runs that failed otherwise: {', '.join(failing)}",) if failing else ()


def same_code(rows: Sequence[Row], line: Lineup | None = None) -> tuple[str, ...]:
    """A sentence for neighbours of one commit: that they are one candidate, or by `line` that the runs deny it."""
    place = {name: at for at, group in enumerate(line.groups) for name in group} if line else {}
    found: list[str] = []
    for before, after in pairwise(row for row in rows if commit_in({"git_version": row.facts.get("code", "")})):
        if before.facts["code"] == after.facts["code"] and place.get(before.name) == place.get(after.name):
            found.append(f"{after.name} is the same commit as its neighbour {before.name}: one candidate")
    return (*found, *(told(line) if line else ()))
