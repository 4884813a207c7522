"""Which differences between two environments bring a failure in: one pure step at a time.

    next_set(problem, observations) -> ProbeSet | FoundSet | Innocent | NarrowedSet | SetContradiction | SetExhausted

An environment is the good one with a set of the differences applied; the empty set is the good end, all of them the
bad end. The function has no memory: resume, replay and simulation call it with another list of observations.

The order of work:  both ends  ->  sets that tell most per cost  ->  confirmation  ->  claim
    all    y   y                        the failure is there with every difference
    none   n n n                        and not without any
    half   y          {a b c d}         halving over singles, pairs, triples, with repeats as the noise asks for
    alone  y          {c}               forward: the set alone brings it in
    rest   n n n      {a b d ...}       reverse: without it (and without each member) it is gone
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Conclusion

ItemSet: TypeAlias = frozenset[str]


class Purpose(StrEnum):
    """Why a set is run next."""

    ENDPOINT = "endpoint"
    SEARCH = "search"
    FORWARD = "forward"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetObservation:
    """One finished run of the good environment with `items` applied.

    SKIP with a `run`: the run could not be judged, another may be. SKIP without one: the mix cannot be built.
    `value` is log(mix / good environment) of a pair of runs, where throughput is the question; `drift` and `stalled`
    are what `model.Observation` says of such a pair.
    """

    items: ItemSet
    conclusion: Conclusion
    outcome: str = ""
    run: str = ""
    seconds: float = 0.0
    value: float | None = None
    drift: float | None = None
    stalled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProblem:
    """The differences and what a run of a mix costs.

    Attributes:
        items: identifiers of the differences that can be applied on their own.
        weights: how likely each is, relative to the others (torch-dependent ones first); empty for all equal.
        needs: (a, b): difference a can only be applied together with b.
        families: differences that are kept together until the search has narrowed to them.
        confidence: posterior probability at which the search may claim.
        max_runs: runs after which it stops with what it knows.
        run_cost: cost of one run, the unit of the other costs.
        build_cost: cost of an environment that is not built yet.
        built: mixes whose environment exists.
    """

    items: tuple[str, ...]
    weights: tuple[float, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    families: tuple[ItemSet, ...] = ()
    confidence: float = 0.95
    max_runs: int = 500
    run_cost: float = 1.0
    build_cost: float = 10.0
    built: frozenset[ItemSet] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """`failures` of `runs` of one mix; or its mean log(mix / good environment) in `runs` pairs, as `change`."""

    items: ItemSet
    failures: int
    runs: int
    change: float | None = None

    def __str__(self) -> str:
        if self.change is not None:
            return f"{100 * math.expm1(self.change):+.1f} % in {self.runs} pairs"
        return f"{self.failures}/{self.runs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One explanation that is still possible. `any_of`: each member on its own suffices."""

    members: tuple[str, ...]
    any_of: bool
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSet:
    """Run the good environment with these differences applied, once."""

    items: ItemSet
    purpose: Purpose
    suspects: tuple[Suspect, ...]
    none: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSet:
    """These differences bring the failure in, confirmed both ways.

    Attributes:
        members: the minimal set.
        any_of: each member on its own suffices (independent culprits); otherwise all are needed.
        forward: the set alone (each member alone, if any of them suffices).
        reverse: everything without each member, where it is gone; without all of them, if any suffices. Where that
            cannot be built, the largest mix without it that can.
        unchecked: confirmations that no buildable environment allows.
        notes: how large a loss of throughput is, and whether the set is all of it.
        still_fails_without: members that need not be reverted for it: another set fails without them.
        beside: such sets, as far as they were run.
        another: another set brings it in too, or may: no single set explains all runs.
    """

    members: tuple[str, ...]
    any_of: bool
    confidence: float
    forward: tuple[Count, ...]
    reverse: tuple[Count, ...]
    unchecked: tuple[ItemSet, ...] = ()
    notes: tuple[str, ...] = ()
    still_fails_without: tuple[str, ...] = ()
    beside: tuple[Count, ...] = ()
    another: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Innocent:
    """The differences do not matter: both ends behave alike; `allowed_rate` is what the clean runs still allow."""

    confidence: float
    without: Count
    with_all: Count
    allowed_rate: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedSet:
    """Several explanations remain and no mix that can be built tells them apart."""

    suspects: tuple[Suspect, ...]
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContradiction:
    """An end does not do what was claimed of it."""

    reason: str
    without: Count
    with_all: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SetExhausted:
    """`max_runs` was reached before the confidence was."""

    suspects: tuple[Suspect, ...]
    confidence: float
    reason: str


SetStep: TypeAlias = ProbeSet | FoundSet | Innocent | NarrowedSet | SetContradiction | SetExhausted


def next_set(problem: SetProblem, observations: Sequence[SetObservation]) -> SetStep:
    """The next mix to run, or the answer."""
    from .step import step  # noqa: PLC0415  (the nouns above are what it returns)

    return step(problem, observations)
