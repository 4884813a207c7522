"""The next step of a search whose probe always answers the same: plain halving, one run a candidate.

For probes that settle a candidate in one run (the hazard probes). Both endpoints are still checked first, a candidate
that cannot be tested is still no vote, and a probe that answers twice differently is a contradiction: then the
question belongs to `engine.next_step`. Pure, and without memory.

What an answer rests on is run once more before it is given: both neighbours of a change, or both ends where they are
alike. One wrong answer always ends up there, for the runs after it close in on it from the other side.

Worked example, g good, b bad, x unusable: `g . . x . . b` asks for the middle that can be run, and ends as
`g g g x b b b` with the two suspects x and the candidate after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ..lineup import lineup, told_of_idle
from ..model import Conclusion, Contradiction, Exhausted, Found, Narrowed, NoRegression, Posterior, Probe, Wait
from ..neighbours import across, unchanged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import Lineup
    from ..model import Observation, Problem, Step

ENDPOINT_TRIES = 3
CONFIRMED = 2
"""Runs of each candidate that an answer rests on."""


def next_certain_step(
    problem: Problem, observations: Sequence[Observation], *, workers: int = 1, pending: Sequence[str] = ()
) -> Step | Wait:
    """The next probe or the verdict, each candidate settled by its first answer.

    `workers`: how many runs may start now; `pending`: candidates under way, which are not asked again.
    """
    line = lineup(problem, observations)
    busy = frozenset(line.positions(pending))
    step = (
        _undecidable(line, observations)
        or _endpoint(line, workers, busy)
        or _ends_alike(line, workers, busy)
        or _halve(line, workers, busy)
    )
    return _in_budget(problem, step, runs=len(observations))


def useless_when_certain(
    problem: Problem, observations: Sequence[Observation], pending: Sequence[str]
) -> tuple[str, ...]:
    """Those of the pending candidates whose answer is known already from their neighbours."""
    line = lineup(problem, observations)
    step = next_certain_step(problem, observations, workers=max(1, len(pending)))
    if not isinstance(step, Probe):
        return tuple(pending)
    if not (line.runs[0] and line.runs[line.size - 1]):
        return ()
    open_places = set(line.positions((step.candidate, *step.also)))
    if _fails(line, 0) is not _fails(line, line.size - 1):
        older, newer = _bounds(line)
        open_places.update(range(older + 1, newer))
    return tuple(name for name in pending if not open_places.issuperset(line.positions([name])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The newest position that answers like the old end, the oldest that answers like the new one, and between."""

    older: int
    newer: int
    open: tuple[int, ...]


def _fails(line: Lineup, position: int) -> bool:
    return bool(line.failures[position] > 0)


def _posterior(line: Lineup, window: _Window | None) -> Posterior:
    """Even over the change points that are left; no change where there are none at all."""
    left = range(window.older + 1, window.newer + 1) if window else range(1, line.size)
    names = {line.name(position): 1.0 / len(left) for position in left}
    every = (name for group in line.groups for name in group)
    none = 0.0 if names else 1.0
    return Posterior(by_candidate=tuple((name, names.get(name, 0.0)) for name in every), none=none)


def _undecidable(line: Lineup, observations: Sequence[Observation]) -> Step | None:
    for position in range(line.size):
        if line.failures[position] > 0 and line.passes[position] > 0:
            reason = _two_answers(line.groups[position], observations)
            return Contradiction(endpoint=line.name(position), reason=reason, posterior=_posterior(line, None))
    if line.size == 1:
        return unchanged(Posterior(by_candidate=(), none=1.0), allowed_rate=0.0)
    return None


def _two_answers(group: tuple[str, ...], observations: Sequence[Observation]) -> str:
    failed = {seen.candidate for seen in observations if seen.conclusion is Conclusion.BAD}
    passed = {seen.candidate for seen in observations if seen.conclusion is Conclusion.GOOD}
    bad, good = failed.intersection(group), passed.intersection(group)
    if bad & good:
        return f"{min(bad & good)} failed and passed: the probe does not always answer the same"
    return (
        f"no code change between {min(good)} (good) and {min(bad)} (bad): "
        "the failure is flaky, or comes from packaging or triton"
    )


def _endpoint(line: Lineup, workers: int, busy: frozenset[int]) -> Step | Wait | None:
    due = []
    for position, claim in ((line.bad_end, "bad"), (line.good_end, "good")):
        if line.runs[position]:
            continue
        if line.skips[position] >= ENDPOINT_TRIES:
            tries = f"{line.skips[position]} tries{line.told_of_skips(position)}"
            reason = f"the {claim} endpoint {line.name(position)} could not be tested in {tries}"
            return Contradiction(endpoint=line.name(position), reason=reason, posterior=_posterior(line, None))
        due.append(position)
    if not due:
        return None
    free = [end for end in due if end not in busy]
    idle = told_of_idle(len(free), workers, "nothing else is run before both ends have answered")
    return _ask(line, free[:workers], f"endpoints are checked first{line.told_of_skips(due[0])}{idle}", None)


def _ask(line: Lineup, free: Sequence[int], reason: str, window: _Window | None) -> Probe | Wait:
    """Run these positions; wait where all that is left is under way."""
    chosen = [line.name(position) for position in free]
    posterior = _posterior(line, window)
    if not chosen:
        return Wait(posterior=posterior)
    return Probe(candidate=chosen[0], also=tuple(chosen[1:]), reason=reason, posterior=posterior)


def _confirmed(
    line: Lineup, ends: tuple[int, int], workers: int, busy: frozenset[int], window: _Window | None
) -> Probe | Wait | None:
    """One more run of each of these two that was run but once, unless it says nothing any more."""
    due = [position for position in ends if line.runs[position] < CONFIRMED and not line.unusable[position]]
    if not due:
        return None
    free = [position for position in due if position not in busy]
    idle = told_of_idle(len(free), workers, "nothing else is run before they have answered")
    return _ask(line, free[:workers], f"run once more, for the answer rests on it{idle}", window)


def _in_budget(problem: Problem, step: Step | Wait, *, runs: int) -> Step | Wait:
    """The step, or the end of a search that made all the runs it may."""
    if not isinstance(step, Probe) or runs < problem.max_runs:
        return step
    return Exhausted(
        suspects=tuple(name for name, share in step.posterior.by_candidate if share > 0.0),
        confidence=1.0,
        posterior=step.posterior,
        reason=f"{runs} runs were made, {problem.max_runs} allowed; next would be {step.candidate}",
    )


def _ends_alike(line: Lineup, workers: int, busy: frozenset[int]) -> Step | Wait | None:
    good, bad = _fails(line, line.good_end), _fails(line, line.bad_end)
    nothing = Posterior(by_candidate=(), none=1.0)
    if good is bad:
        confirmed = _confirmed(line, (line.bad_end, line.good_end), workers, busy, None)
        if confirmed is not None:
            return confirmed
    if good and bad:
        reason = "the good endpoint fails like the bad one"
        return Contradiction(endpoint=line.name(line.good_end), reason=reason, posterior=nothing)
    if not good and not bad:
        reason = f"the bad endpoint {line.name(line.bad_end)} does not show the failure"
        return NoRegression(confidence=1.0, allowed_rate=0.0, posterior=nothing, reason=reason)
    return None


def _bounds(line: Lineup) -> tuple[int, int]:
    """The newest position that answered like the old end, and the oldest that answered like the new one."""
    old_fails = _fails(line, 0)
    told = [position for position in range(line.size) if line.runs[position]]
    older = max(position for position in told if _fails(line, position) is old_fails)
    return older, min(position for position in told if _fails(line, position) is not old_fails)


def _halve(line: Lineup, workers: int, busy: frozenset[int]) -> Step | Wait:
    old_fails = _fails(line, 0)
    older, newer = _bounds(line)
    if newer < older:
        told = [position for position in range(line.size) if line.runs[position]]
        counts = ", ".join(f"{line.name(position)} {'bad' if _fails(line, position) else 'good'}" for position in told)
        reason = f"more than one change, so one first bad candidate is the wrong question: {counts}"
        return Contradiction(endpoint="", reason=reason, posterior=_posterior(line, None))
    usable = [p for p in range(older + 1, newer) if not line.unusable[p]]
    window = _Window(older=older, newer=newer, open=tuple(usable))
    if not usable:
        return _confirmed(line, (older, newer), workers, busy, window) or _answer(line, window, rising=not old_fails)
    free = _spread(window, workers, busy)
    idle = told_of_idle(len(free), workers, "no other candidate is left to run")
    return _ask(line, free, f"the middle of {newer - older} change points left{idle}", window)


def _spread(window: _Window, workers: int, busy: frozenset[int]) -> list[int]:
    """Positions that cut what is left evenly, together with those under way. 0 .. 12, three workers -> 3 6 9."""
    edges = sorted({window.older, window.newer, *busy.intersection(window.open)})
    shares = dict.fromkeys(pairwise(edges), 0)
    for _ in range(workers):
        widest = max(shares, key=lambda stretch: (stretch[1] - stretch[0]) / (shares[stretch] + 1))
        shares[widest] += 1
    left = [position for position in window.open if position not in busy]
    chosen: list[int] = []
    for (low, high), share in shares.items():
        for number in range(1, share + 1):
            target = low + (high - low) * number / (share + 1)
            near = [position for position in left if position not in chosen]
            if near:
                chosen.append(min(near, key=lambda position: (abs(position - target), position)))
    return chosen


def _answer(line: Lineup, window: _Window, *, rising: bool) -> Found | Narrowed:
    before, after = line.groups[window.older][-1], line.groups[window.newer][0]
    good, bad = (before, after) if rising else (after, before)
    direction = "regression" if rising else "fix"
    notes = () if rising is line.rising else (_reversed(line),)
    posterior = _posterior(line, window)
    if window.newer - window.older == 1:
        return Found(
            last_good=good, first_bad=bad, direction=direction, confidence=1.0, posterior=posterior, notes=notes
        )
    groups = line.groups[window.older + 1 : window.newer + 1]
    return Narrowed(
        last_good=good,
        first_bad=bad,
        suspects=tuple(name for group in groups for name in group),
        direction=direction,
        confidence=1.0,
        posterior=posterior,
        reason=across(window.newer - window.older - 1, "could not be tested"),
        notes=notes,
    )


def _reversed(line: Lineup) -> str:
    older, newer, seen = ("bad", "good", "fix") if line.rising else ("good", "bad", "regression")
    return (
        f"the order is reversed: the older end is {older} and the newer end {newer}, against the claim; "
        f"reported as a {seen}"
    )
