"""The search for a guilty set of packages: right answers, runs and environments, and picire's beside them."""

from __future__ import annotations

import math
import random
import sys
import tempfile
from bisect.model import Conclusion
from bisect.packages import FoundSet, Innocent, ProbeSet, SetObservation, SetProblem, next_set
from bisect.packages.speed_step import next_set as next_pair
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from .peers import ask, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

CELLS = [
    (16, 1, 1.0, 0.0),
    (16, 1, 0.3, 0.0),
    (16, 1, 0.3, 0.05),
    (16, 2, 1.0, 0.0),
    (16, 2, 0.3, 0.0),
    (16, 2, 0.3, 0.05),
]
LARGE = [(200, 1, 1.0, 0.0)]
INNOCENT = [(16, 0, 0.0, 0.0), (16, 0, 0.3, 0.3), (16, 0, 1.0, 1.0)]
LOSSES = [(1, 0.05, 0.01), (1, 0.05, 0.02), (2, 0.1, 0.02), (0, 0.0, 0.02)]
"""Number of culprits, loss of throughput, noise of one run."""
HEADER = ["cell", "build cost", "right", "wrong", "runs", "median", "p95", "environments", "beside the ends"]
NAMES = {0: "none", 1: "one", 2: "pair"}
REPEATS = (1, 10, 20)
PEER = ("picire==21.8", "setuptools<81")  # it imports pkg_resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One finished search."""

    right: bool
    wrong: bool
    runs: int
    environments: int


def play(count: int, culprits: int, bad: float, good: float, *, build_cost: float, seed: int) -> Played:
    """One search with a planted answer; with no culprit, `innocent` is the right one."""
    rng = random.Random(f"{count} {culprits} {bad} {good} {seed}")
    items = tuple(f"p{number:03d}" for number in range(count))
    guilty = frozenset(rng.sample(items, culprits))
    problem = SetProblem(items=items, build_cost=build_cost, max_runs=1000)
    seen: list[SetObservation] = []
    while isinstance(step := next_set(problem, seen), ProbeSet):
        failed = rng.random() < (bad if guilty <= step.items else good)
        seen.append(SetObservation(items=step.items, conclusion=Conclusion.BAD if failed else Conclusion.GOOD))
    named = frozenset(step.members) if isinstance(step, FoundSet) else None
    hit = isinstance(step, Innocent) if not culprits else named == guilty and not step.any_of
    return Played(
        right=hit,
        wrong=named is not None and not hit,
        runs=len(seen),
        environments=len({run.items for run in seen}),
    )


def rows(*, searches: int, seed: int) -> Iterator[list[str]]:
    """One row a cell, at builds that are free and at builds that cost ten runs."""
    yield HEADER
    for cell in [*CELLS, *INNOCENT]:
        for cost in (0.0, 10.0) if cell[1] == 1 and cell[0] == 16 else (10.0,):
            yield row(cell, cost, searches=searches, seed=seed)


def losses(*, searches: int, seed: int) -> Iterator[list[str]]:
    """A planted loss of throughput among 16 packages; every run is a pair with the good environment."""
    yield ["cell", "right", "wrong", "pairs", "environments"]
    for culprits, loss, noise in LOSSES:
        done = [play_pairs(culprits, loss, noise, seed=seed * 1_000_003 + number) for number in range(searches)]
        rates = [f"{sum(getattr(each, name) for each in done) / searches:.3f}" for name in ("right", "wrong")]
        costs = [f"{mean(getattr(each, name) for each in done):.1f}" for name in ("runs", "environments")]
        yield [f"16 {NAMES[culprits]}, {loss:.0%} under {noise:.0%}", *rates, *costs]


def play_pairs(culprits: int, loss: float, noise: float, *, seed: int) -> Played:
    """One search for a loss with a planted answer; with no culprit, `innocent` is the right one."""
    rng = random.Random(f"pairs {culprits} {loss} {noise} {seed}")
    items = tuple(f"p{number:03d}" for number in range(16))
    guilty = frozenset(rng.sample(items, culprits))
    seen: list[SetObservation] = []
    while isinstance(step := next_pair(SetProblem(items=items), seen, min_effect=0.01), ProbeSet):
        slow = bool(guilty) and guilty <= step.items
        value = (math.log1p(-loss) if slow else 0.0) + rng.gauss(0, noise) - rng.gauss(0, noise)
        seen.append(SetObservation(items=step.items, conclusion=Conclusion.GOOD, value=value))
    named = frozenset(step.members) if isinstance(step, FoundSet) else None
    hit = isinstance(step, Innocent) if not culprits else named == guilty and not step.any_of
    environments = len({pair.items for pair in seen})
    return Played(right=hit, wrong=named is not None and not hit, runs=len(seen), environments=environments)


def large(*, searches: int, seed: int) -> Iterator[list[str]]:
    """The same with 200 changed packages."""
    yield HEADER
    for cell in LARGE:
        yield row(cell, 10.0, searches=searches, seed=seed)


def row(cell: tuple[int, int, float, float], cost: float, *, searches: int, seed: int) -> list[str]:
    """One cell of searches."""
    done = [play(*cell, build_cost=cost, seed=seed * 1_000_003 + number) for number in range(searches)]
    runs = sorted(search.runs for search in done)
    environments = mean(search.environments for search in done)
    sys.stderr.write(f"{_name(cell)} done\n")
    return [
        _name(cell),
        f"{cost:g}",
        f"{sum(search.right for search in done) / searches:.3f}",
        f"{sum(search.wrong for search in done) / searches:.3f}",
        f"{mean(runs):.1f}",
        f"{median(runs):.0f}",
        f"{runs[int(0.95 * (searches - 1))]}",
        f"{environments:.1f}",
        f"{environments - 2:.1f}",
    ]


def peer(*, searches: int, seed: int) -> Iterator[list[str]]:
    """picire (from the package index) on the same cells: one run a mix, and ten and twenty with any failure bad."""
    yield ["cell", "runs a mix", "right", "wrong", "runs", "environments"]
    script = Path(__file__).with_name("peer_picire.py")
    with tempfile.TemporaryDirectory() as directory:
        python = environment(Path(directory), *PEER)
        for cell in CELLS:
            for repeats in REPEATS:
                counted = ask(python, script, Path(directory), [*map(str, (*cell, repeats, searches, seed))])
                rates = [f"{counted[name] / searches:.3f}" for name in ("right", "wrong")]
                yield [_name(cell), str(repeats), *rates, f"{counted['runs']:.1f}", f"{counted['environments']:.1f}"]


def _name(cell: tuple[int, int, float, float]) -> str:
    count, culprits, bad, good = cell
    return f"{count} {NAMES[culprits]} {bad:g}/{good:g}"
