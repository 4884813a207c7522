"""What a search will cost before it starts, and what is left of it while it runs. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from .model import Conclusion
from .throughput.posterior import channel_information

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Observation, Posterior, Problem

RATES = (1.0, 0.3, 0.1)
"""Failure rates of the bad side for which a plan says how many runs it would take."""
LOSSES = (3.0, 1.0)
"""Losses of throughput, over the noise of one pair, for which a plan says how many pairs it would take."""
ENDS = 6
"""Pairs that the two endpoints and a confirmation take."""
CONFIRMING = 2
"""Runs that confirm the answer of a probe taken at its word."""
BYTES_S = 40e6
"""Download and unpacking together, measured on a 2-core machine with a warm index: 2.6 GB in about a minute."""
BUILD_S = 30.0
OVERHEAD = 2.2
"""Runs needed over the bound for known rates: not knowing them costs 50 to 80 % more, and confirming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What any search takes.

    Attributes:
        download_bytes: to download, at most, for all environments; 0 when the index does not say.
        disk_bytes: what lies on the disk at once, given the cap on kept ones; 0 when nothing says how large one is.
        free_bytes: what the disk of the store has left.
        runs: (failure rate of what is guilty, expected runs).
        pairs: for throughput, (loss over the noise of one pair, expected pairs of runs); `runs` is empty then.
        seconds: expected time for each entry of `runs` or `pairs`.
        max_runs: the budget.
    """

    download_bytes: int
    disk_bytes: int
    free_bytes: int
    runs: tuple[tuple[float, int], ...]
    pairs: tuple[tuple[float, int], ...]
    seconds: tuple[float, ...]
    max_runs: int

    def cost_json(self) -> dict[str, Any]:
        """These as data."""
        return {
            "download_bytes": self.download_bytes,
            "disk_bytes": self.disk_bytes,
            "free_bytes": self.free_bytes,
            "runs": [{"failure_rate": rate, "expected": runs} for rate, runs in self.runs],
            "pairs": [{"loss_over_noise": ratio, "expected": pairs} for ratio, pairs in self.pairs],
            "seconds_each": [round(each) for each in self.seconds],
            "max_runs": self.max_runs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Cost):
    """The cost of a search over builds; one entry of `runs` when a run settles a candidate.

    Attributes:
        num_candidates: builds between the endpoints, both included.
        cached: how many of them are built already.
        builds: environments that will be built, at most about; those that are there already not among them.
        first_bytes: of `disk_bytes`, what the two endpoints add to the disk.
    """

    num_candidates: int
    cached: int
    builds: int
    first_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The plan as data."""
        return {
            "schema": 1,
            "kind": "plan",
            "candidates": self.num_candidates,
            "cached": self.cached,
            "builds": self.builds,
            "sizes_known": self.disk_bytes > 0,
            "seconds": round(self.seconds[0]),
            **self.cost_json(),
        }

    def lines(self) -> list[str]:
        """The plan for a person."""
        builds = f"about {counted(self.builds, 'build')}"
        found = [
            f"plan: {self.num_candidates} candidates ({self.cached} built already), {builds}",
            f"      {self._sizes()}",
            f"      {self._runs()}; at most {self.max_runs}",
            f"      {time_told(self.seconds)}",
        ]
        found += [f"      {line}" for line in no_room(self.disk_bytes, self.free_bytes)]
        worst = max(count for _, count in (*self.runs, *self.pairs))
        if worst > self.max_runs:
            what = f"loss may need {worst} pairs" if self.pairs else f"failure may need {worst} runs"
            found.append(
                f"      note: a {'small' if self.pairs else 'rare'} {what}, more than --max-runs {self.max_runs}"
            )
        return found

    def _runs(self) -> str:
        if len(self.runs) == 1:
            return f"runs: about {self.runs[0][1]}, one settles a build"
        return runs_told(self.runs, self.pairs)

    def _sizes(self) -> str:
        download = f"{self.download_bytes / 1e9:.1f} GB to download" if self.download_bytes else "download size unknown"
        if not self.builds:
            return "nothing to build"
        disk = f"about {self.disk_bytes / 1e9:.1f} GB of disk at once" if self.disk_bytes else "disk size unknown"
        return f"{download}, {disk}"


def runs_told(runs: Sequence[tuple[float, int]], pairs: Sequence[tuple[float, int]]) -> str:
    """How many runs for each failure rate, or pairs for each loss."""
    if pairs:
        told = (f"about {count} if a loss is {ratio:g} times the noise of one" for ratio, count in pairs)
        return f"pairs of runs: {', '.join(told)}"
    return "runs: " + ", ".join(f"about {count} if it fails in {rate:.0%} of runs" for rate, count in runs)


def time_told(seconds: Sequence[float]) -> str:
    """`about 7 or 95 min`."""
    return f"about {' or '.join(dict.fromkeys(f'{each / 60:.0f}' for each in seconds))} min"


def counted(count: int, noun: str) -> str:
    """`1 build`, `2 builds`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def gigabytes(count: int) -> str:
    """`5.2 GB`."""
    return f"{count / 1e9:.1f} GB"


def no_room(disk_bytes: int, free_bytes: int) -> list[str]:
    """A warning when what will lie on the disk at once is more than it has left."""
    if disk_bytes <= free_bytes:
        return []
    return [f"warning: {free_bytes / 1e9:.1f} GB are free: give a smaller --keep, another --store, or prune first"]


def make_plan(
    problem: Problem,
    *,
    certain: bool,
    run_s: float,
    download_bytes: int,
    disk_bytes: int,
    free_bytes: int,
    keep: int,
    throughput: bool = False,
) -> Plan:
    """Estimate a search; the first two sizes are of one environment, 0 where unknown."""
    size = len(problem.candidates)
    halvings = ceil(log2(max(2, size - 1)))
    builds = max(0, min(size, halvings + 2) - len(problem.cached))
    runs = (
        ((1.0, halvings + 2 + CONFIRMING),) if certain else tuple((rate, expected_runs(size, rate)) for rate in RATES)
    )
    pairs = tuple((ratio, expected_pairs(size, ratio)) for ratio in LOSSES) if throughput else ()
    if throughput:
        runs = ()
    building = builds * (BUILD_S + download_bytes / BYTES_S)
    work = [2 * count for _, count in pairs] or [count for _, count in runs]
    return Plan(
        num_candidates=size,
        cached=len(problem.cached),
        builds=builds,
        download_bytes=builds * download_bytes,
        disk_bytes=min(builds, keep) * disk_bytes,
        first_bytes=sum(end not in problem.cached for end in (problem.good, problem.bad)) * disk_bytes,
        free_bytes=free_bytes,
        runs=runs,
        pairs=pairs,
        seconds=tuple(building + count * run_s for count in work),
        max_runs=problem.max_runs,
    )


def expected_runs(num_candidates: int, rate: float) -> int:
    """Runs for a search among so many, when the bad side fails at `rate` and the good one never. 64, .3 -> 80."""
    return ceil(_runs_for(log2(max(2, num_candidates)), rate) + 6)


def set_runs(num_items: int, rate: float) -> int:
    """Runs for a search among so many differences of which one fails at `rate`, and nothing without it. 16, .3 -> 71.

    The guilty one is confirmed alone and the rest without it, so the confirmation is paid twice.
    """
    bits = log2(max(2, num_items))
    if rate >= 1.0:
        return ceil(2 * bits + 6)
    return ceil(_runs_for(bits, rate) + log(0.05) / log(1.0 - rate) + 4)


def expected_pairs(num_candidates: int, ratio: float) -> int:
    """Pairs for a search among so many, when the loss is `ratio` times the noise of a pair: endpoints, then bits."""
    bits = float(channel_information(np.array([0.5]), np.array([ratio]))[0, 0]) / log(2.0)
    return ceil(OVERHEAD * log2(max(2, num_candidates)) / bits + ENDS)


def _runs_for(bits: float, rate: float) -> float:
    """Runs for so much uncertainty: the channel's capacity with an overhead, and clean runs for the good neighbour."""
    confirm = 1.0 if rate >= 1.0 else log(0.05) / log(1.0 - rate)
    return OVERHEAD * bits / capacity(rate) + confirm if rate < 1.0 else bits + confirm


def capacity(rate: float) -> float:
    """Bits that one run tells when bad builds fail at `rate` and good ones never: the Z-channel. 1 -> 1 bit."""
    if rate >= 1.0:
        return 1.0
    miss = 1.0 - rate
    return log2(1.0 + rate * miss ** (miss / rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of a search: the suspects that together have 95 %, and about how many runs and seconds."""

    first: str
    last: str
    count: int
    runs: int
    seconds: float

    def __str__(self) -> str:
        where = self.first if self.count <= 1 else f"{self.first} .. {self.last} ({self.count} suspects)"
        return f"left: {where}, about {self.runs} runs, {self.seconds / 60:.0f} min"


def left_of(problem: Problem, observations: Sequence[Observation], posterior: Posterior, *, certain: bool) -> Left:
    """What the posterior leaves open, and the runs for it at the failure rate seen at the bad endpoint."""
    bits = -sum(p * log2(p) for _, p in posterior.by_candidate if p > 0)
    kept = _credible(posterior)
    if certain:
        runs = ceil(bits) + CONFIRMING
    else:
        runs = ceil(_runs_for(bits, _rate(problem, observations))) if bits > 0 else 1
    times = [seen.seconds for seen in observations if seen.seconds > 0]
    each = sum(times) / len(times) if times else 0.0
    builds = min(ceil(bits), len(problem.candidates))
    seconds = runs * each + builds * problem.build_cost * each
    return Left(first=kept[0], last=kept[-1], count=len(kept), runs=runs, seconds=seconds)


def _credible(posterior: Posterior) -> list[str]:
    """The likeliest suspects that together have 95 % of what is on change points, in time order."""
    total, kept = 0.0, set()
    for name, probability in sorted(posterior.by_candidate, key=lambda pair: -pair[1]):
        if total >= 0.95 * (1.0 - posterior.none):
            break
        kept.add(name)
        total += probability
    return [name for name, _ in posterior.by_candidate if name in kept] or ["nothing"]


def _rate(problem: Problem, observations: Sequence[Observation]) -> float:
    if any(seen.value is not None for seen in observations):
        return 0.5  # pairs of a throughput search fail or pass nothing; one tells about this much
    mine = [seen.conclusion for seen in observations if seen.candidate == problem.bad]
    bad, good = mine.count(Conclusion.BAD), mine.count(Conclusion.GOOD)
    return min(1.0, max(0.05, (bad + 0.5) / (bad + good + 1.0)))
