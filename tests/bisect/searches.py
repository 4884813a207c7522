"""Searches played against an oracle: the engine asks, a coin with the true rates answers."""

from __future__ import annotations

import random
from bisect.engine import next_step
from bisect.model import Conclusion, Observation, Probe, Problem

GOOD, BAD, SKIP = Conclusion.GOOD, Conclusion.BAD, Conclusion.SKIP
HEADER = {"command": "torch-releases", "argv": [], "identity": {}, "cwd": "/"}
"""What the journal of a search says of its command."""
WORDS = {"g": GOOD, "b": BAD, "s": SKIP}


def problem(size, **options):
    """Candidates c0 (good) .. c<size-1> (bad)."""
    names = tuple(f"c{number}" for number in range(size))
    return Problem(**{"candidates": names, "good": names[0], "bad": names[-1], **options})


def seen(text):
    """`c0:ggg c4:bb` -> observations."""
    return [
        Observation(candidate=name, conclusion=WORDS[letter])
        for name, letters in (part.split(":") for part in text.split())
        for letter in letters
    ]


def play(asked, oracle, *, limit=3000, **options):
    """Ask until a verdict; `oracle(candidate)` is a conclusion. Returns the verdict and the observations."""
    observations = []
    for _ in range(limit):
        step = next_step(asked, observations, **options)
        if not isinstance(step, Probe):
            return step, observations
        asked_now = (step.candidate, *step.also)
        observations += [Observation(candidate=candidate, conclusion=oracle(candidate)) for candidate in asked_now]
    raise AssertionError(f"no verdict in {limit} steps")


def coins(asked, rates, *, seed):
    """An oracle that fails with the candidate's rate; None is a candidate that cannot be run."""
    rate = dict(zip(asked.candidates, rates, strict=True))
    generators = {name: random.Random(f"{seed} {name}") for name in asked.candidates}

    def flip(candidate):
        if rate[candidate] is None:
            return SKIP
        return BAD if generators[candidate].random() < rate[candidate] else GOOD

    return flip
