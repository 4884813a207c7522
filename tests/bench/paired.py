"""The search for a loss of throughput on a machine that is noisy and drifts; a pair counts as two runs."""

from __future__ import annotations

import math
import random
from bisect.model import Conclusion, Found, Observation, Probe
from bisect.throughput import next_step
from typing import TYPE_CHECKING

from .played import ordered_problem

if TYPE_CHECKING:
    from bisect.model import Step
    from collections.abc import Callable, Iterator

CELLS = [
    ((0.10,), 0.02, 0.0),
    ((0.05,), 0.02, 0.0),
    ((0.05,), 0.02, 0.03),
    ((0.03,), 0.02, 0.03),
    ((0.01,), 0.001, 0.0),
    ((0.03, 0.03), 0.02, 0.0),
    ((), 0.2, 0.0),
    ((), 0.02, 0.03),
]


def rows(*, searches: int, seed: int) -> Iterator[list[str]]:
    """One row a cell of (losses, each at a place of its own, noise of a run, amplitude of the drift), N=64."""
    yield ["loss", "noise", "drift", "exact", "wrong", "runs", "builds", "verdicts"]
    for losses, noise, drift in CELLS:
        exact = wrong = runs = builds = 0
        verdicts: dict[str, int] = {}
        for number in range(searches):
            verdict, truth, observations = _search(losses, noise, drift, seed=seed * 1_000_003 + number)
            named = verdict.first_bad if isinstance(verdict, Found) else ""
            exact += named in truth
            wrong += named not in ("", *truth)
            runs += 2 * len(observations)
            builds += len({seen.candidate for seen in observations})
            verdicts[type(verdict).__name__] = verdicts.get(type(verdict).__name__, 0) + 1
        told = " ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
        figures = [f"{exact}/{searches}", str(wrong), f"{runs / searches:.1f}", f"{builds / searches:.1f}", told]
        yield [" + ".join(f"{loss:.0%}" for loss in losses) or "0%", f"{noise:.1%}", f"{drift:.0%}", *figures]


def _search(
    losses: tuple[float, ...], noise: float, drift: float, *, seed: int
) -> tuple[Step, tuple[str, ...], list[Observation]]:
    problem = ordered_problem(64, max_runs=300)
    rng = random.Random(f"pairs {seed}")
    places = sorted(rng.sample(range(1, 65), len(losses)))
    speed = {
        name: sum(math.log1p(-loss) for place, loss in zip(places, losses, strict=True) if number >= place)
        for number, name in enumerate(problem.candidates)
    }
    log_rate = _machine(noise, drift, rng)
    observations: list[Observation] = []
    while True:
        step = next_step(problem, observations)
        if not isinstance(step, Probe):
            return step, tuple(problem.candidates[place] for place in places), observations
        own_first = len(observations) % 2 == 0
        values = [log_rate(speed[step.candidate] if own == own_first else 0.0) for own in (True, False)]
        value = values[0] - values[1] if own_first else values[1] - values[0]
        observations.append(Observation(candidate=step.candidate, conclusion=Conclusion.GOOD, value=value))


def _machine(noise: float, drift: float, rng: random.Random) -> Callable[[float], float]:
    """Log rate of one run after the other: its own speed, noise, and a slow wave of the machine."""
    phase, period, clock = rng.uniform(0, 2 * math.pi), rng.uniform(20, 80), iter(range(10**9))

    def run(speed: float) -> float:
        return speed + rng.gauss(0, noise) + drift * math.sin(2 * math.pi * next(clock) / period + phase)

    return run
