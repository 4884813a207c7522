"""What the nodes have to do with it: a node that fails everything, and a candidate that fails on one node only.

Pure, over who ran what where. Chances are exact and conditional on how often each candidate failed at all: if nodes
made no difference, the failures of a candidate would fall on its runs at random (hypergeometric, Fisher's exact
test). Worked example: a candidate failed in 3 of 6 runs, all three on n2 and none of three on n1: the chance of that
is C(3,3) / C(6,3) = 1/20.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import comb, prod
from operator import attrgetter
from typing import TYPE_CHECKING

from .model import Conclusion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .model import Observation

LOST_ON_NODE = 2
"""Runs lost on a node that ended none, after which it gets no more: it would swallow every job of a search."""
RUNS_ON_NODE = 3
"""Runs of which all must have failed before a node is called faulty for failing."""
CHANCE_FAULTY = 0.01
"""Chance, over all nodes together, below which a node that failed everything is called faulty."""
CHANCE_DEPENDENT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyNode:
    """A node that gets no more runs; those it made (`runs`) are flagged and count for nothing."""

    node: str
    reason: str
    runs: tuple[str, ...]

    def __str__(self) -> str:
        flagged = f"; its results count for nothing: {', '.join(self.runs)}" if self.runs else ""
        return f"node {self.node} gets no more runs: {self.reason}{flagged}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDependence:
    """A candidate whose failures all happened on one node."""

    candidate: str
    node: str
    failed: int
    runs: int
    elsewhere: int
    chance: float

    def __str__(self) -> str:
        return (
            f"{self.candidate} fails on node {self.node} only: {self.failed}/{self.runs} there, 0/{self.elsewhere} "
            f"elsewhere (chance of that if nodes made no difference: {self.chance:.2g})"
        )


def faulty(observations: Sequence[Observation], lost: Sequence[Observation]) -> tuple[FaultyNode, ...]:
    """Nodes that failed everything given to them. `lost`: runs that ended without a record, by the node blamed."""
    ran = _grouped(observations, attrgetter("node"))
    broke = _grouped(lost, attrgetter("node"))
    return (*_black_holes(ran, broke), *_always_failing(ran))


def without(observations: Sequence[Observation], nodes: Sequence[FaultyNode]) -> tuple[Observation, ...]:
    """The observations that count: all but those of the faulty nodes."""
    flagged = {node.node for node in nodes}
    return tuple(seen for seen in observations if not seen.node or seen.node not in flagged)


def dependent(observations: Sequence[Observation]) -> tuple[NodeDependence, ...]:
    """Candidates that fail on one node only, more clearly than chance explains."""
    found = (_dependence(name, seen) for name, seen in _grouped(observations, attrgetter("candidate")).items())
    return tuple(item for item in found if item is not None and item.chance <= CHANCE_DEPENDENT)


def _black_holes(ran: Mapping[str, list[Observation]], broke: Mapping[str, list[Observation]]) -> list[FaultyNode]:
    return [
        FaultyNode(node=node, reason=f"all of its {len(lost)} runs were lost", runs=())
        for node, lost in broke.items()
        if len(lost) >= LOST_ON_NODE and node not in ran
    ]


def _always_failing(ran: Mapping[str, list[Observation]]) -> list[FaultyNode]:
    everything = _grouped([seen for runs in ran.values() for seen in runs], attrgetter("candidate"))
    found = []
    for node, runs in ran.items():
        if len(runs) < RUNS_ON_NODE or not all(_failed(seen) for seen in runs):
            continue
        chance = prod(
            _chance_of_failing_all(everything[name], len(here))
            for name, here in _grouped(runs, attrgetter("candidate")).items()
        )
        if chance * len(ran) <= CHANCE_FAULTY:
            reason = (
                f"all of its {len(runs)} runs failed while the same candidates pass elsewhere "
                f"(chance of that if nodes made no difference: {chance:.2g})"
            )
            found.append(FaultyNode(node=node, reason=reason, runs=tuple(seen.run for seen in runs)))
    return found


def _chance_of_failing_all(runs: Sequence[Observation], here: int) -> float:
    """That `here` runs, drawn from all runs of a candidate, are all among those that failed. 3 of 6, 3 -> 1/20."""
    failures = sum(_failed(seen) for seen in runs)
    return comb(failures, here) / comb(len(runs), here)


def _dependence(candidate: str, seen: Sequence[Observation]) -> NodeDependence | None:
    nodes = {item.node for item in seen if _failed(item)}
    if len(nodes) != 1:
        return None
    (node,) = nodes
    here = [item for item in seen if item.node == node]
    failed = sum(_failed(item) for item in here)
    return NodeDependence(
        candidate=candidate,
        node=node,
        failed=failed,
        runs=len(here),
        elsewhere=len(seen) - len(here),
        chance=comb(len(here), failed) / comb(len(seen), failed),
    )


def _failed(seen: Observation) -> bool:
    return seen.conclusion is not Conclusion.GOOD


def _grouped(observations: Sequence[Observation], key: Callable[[Observation], str]) -> dict[str, list[Observation]]:
    """Runs by their node or candidate; what has no node (a build that failed) is left out."""
    found: dict[str, list[Observation]] = defaultdict(list)
    for seen in observations:
        if seen.node:
            found[key(seen)].append(seen)
    return dict(found)
