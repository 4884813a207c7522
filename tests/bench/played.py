"""Searches played to their end, and the tally of a cell of them.

A unit is a run; a new environment costs `UNITS_A_BUILD` runs. Every search has its own seed, every candidate its own
random numbers, so a search does not depend on the order of its probes.
"""

from __future__ import annotations

import random
from bisect.engine import next_step
from bisect.model import Conclusion, Found, Narrowed, Observation, Probe, Problem
from collections import Counter
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect.model import Step
    from collections.abc import Callable, Iterable, Sequence

UNITS_A_BUILD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One finished search: the verdict, what was run, the rounds it took, and the first bad candidate in truth."""

    verdict: Step
    observations: tuple[Observation, ...]
    rounds: int
    truth: str

    @property
    def claimed(self) -> tuple[str, ...]:
        """The candidates the verdict names; none when it names no change."""
        match self.verdict:
            case Found():
                return (self.verdict.first_bad,)
            case Narrowed():
                return self.verdict.suspects
            case _:
                return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A cell: how many searches claimed, how many of those were right, and what they cost."""

    searches: int
    claimed: int
    right: int
    runs: float
    builds: float
    rounds: float
    verdicts: tuple[tuple[str, int], ...]

    @property
    def units(self) -> float:
        return self.runs + UNITS_A_BUILD * self.builds

    @property
    def accuracy(self) -> float:
        """Right among the claims; 1 without a claim."""
        return self.right / self.claimed if self.claimed else 1.0

    @property
    def error(self) -> float:
        """Standard error of the accuracy, at least that of one wrong claim."""
        share = min(self.accuracy, 1 - 1 / max(2, self.claimed))
        return sqrt(share * (1 - share) / max(1, self.claimed))

    def row(self, name: str) -> list[str]:
        """Cells of a printed table."""
        return [
            name,
            f"{self.right}/{self.claimed}",
            f"{self.accuracy:.3f}",
            f"{self.runs:.1f}",
            f"{self.builds:.1f}",
            f"{self.units:.0f}",
            " ".join(f"{verdict} {count}" for verdict, count in self.verdicts),
        ]


HEADER = ["cell", "right/claimed", "accuracy", "runs", "builds", "units", "verdicts"]


def tally(searches: Iterable[Played]) -> Tally:
    """Count a cell."""
    done = list(searches)
    return Tally(
        searches=len(done),
        claimed=sum(bool(search.claimed) for search in done),
        right=sum(search.truth in search.claimed for search in done),
        runs=sum(len(search.observations) for search in done) / len(done),
        builds=sum(len({seen.candidate for seen in search.observations}) for search in done) / len(done),
        rounds=sum(search.rounds for search in done) / len(done),
        verdicts=tuple(sorted(Counter(type(search.verdict).__name__ for search in done).items())),
    )


def ordered_problem(size: int, *, max_runs: int = 3000) -> Problem:
    """`size` candidates after a good one."""
    names = tuple(f"c{number:03d}" for number in range(size + 1))
    return Problem(candidates=names, good=names[0], bad=names[-1], max_runs=max_runs)


def play(problem: Problem, run: Callable[[str], Observation], *, truth: str, workers: int = 1) -> Played:
    """Ask and answer in rounds of `workers` runs."""
    observations: list[Observation] = []
    counts: Counter[tuple[str, Conclusion]] = Counter()
    rounds = 0
    while True:
        step = _asked_before(problem, observations, counts, workers=workers)
        if not isinstance(step, tuple):
            return Played(verdict=step, observations=tuple(observations), rounds=rounds, truth=truth)
        made = [run(candidate) for candidate in step]
        observations += made
        counts.update((seen.candidate, seen.conclusion) for seen in made)
        rounds += 1


_ASKED: dict[tuple[Problem, int, frozenset[tuple[tuple[str, Conclusion], int]]], tuple[str, ...]] = {}
_REMEMBERED_RUNS = 24
"""Searches of one problem share their first decisions; later ones hardly ever meet again."""


def _asked_before(
    problem: Problem, observations: Sequence[Observation], counts: Counter[tuple[str, Conclusion]], *, workers: int
) -> tuple[str, ...] | Step:
    """The candidates to run, or the verdict. A step depends on the counts only, so a probe is worked out once."""
    key = (problem, workers, frozenset(counts.items()))
    if (known := _ASKED.get(key)) is not None:
        return known
    step = next_step(problem, observations, workers=workers)
    if not isinstance(step, Probe):
        return step
    probe = (step.candidate, *step.also)
    if len(observations) <= _REMEMBERED_RUNS:
        _ASKED[key] = probe
    return probe


def coins(names: Sequence[str], rates: Sequence[float | None], *, seed: int) -> Callable[[str], Observation]:
    """Every candidate fails at its own rate; None is one that cannot be run."""
    rate = dict(zip(names, rates, strict=True))
    generators = {name: random.Random(f"{seed} {name}") for name in names}

    def run(candidate: str) -> Observation:
        failing = rate[candidate]
        if failing is None:
            conclusion = Conclusion.SKIP
        else:
            conclusion = Conclusion.BAD if generators[candidate].random() < failing else Conclusion.GOOD
        return Observation(candidate=candidate, conclusion=conclusion)

    return run


def noisy_search(size: int, bad: float, good: float, *, seed: int, workers: int = 1) -> Played:
    """One search with the change at a random candidate."""
    problem = ordered_problem(size)
    first = random.Random(f"first {seed}").randint(1, size)
    run = coins(problem.candidates, [good] * first + [bad] * (size + 1 - first), seed=seed)
    return play(problem, run, truth=problem.candidates[first], workers=workers)
