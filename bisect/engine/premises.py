"""Whether there is one change to search for, before and while it is searched: the premises of a search. Pure.

Both endpoints have to say something, and the bad one has to fail; nothing may change at all, both sides may fail alike,
or more may change than once. The order in which these rules are asked is `engine.next_step`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..intervals import allowed_rate
from ..lineup import told_of_idle
from ..model import Contradiction, NoRegression
from ..neighbours import likeliest_gap, side_counts, unchanged
from .islands import find_island, tell
from .posterior import cautious_pair, infer

if TYPE_CHECKING:
    from ..model import Probe, Step
    from .moment import Moment

ENDPOINT_RUNS = 2
ENDPOINT_TRIES = 3
ALIKE_RUNS = 5
"""Runs that each endpoint needs before both can be said to behave alike."""
DOUBT_BUDGET = 150
"""Runs after which four in five is enough for `nothing changes`, and two sides that fail alike end the search."""
ENDPOINT_SHARE = 2 / 3
"""Part of that budget after which, spent at the endpoints, four in five is enough too."""
RARE = 0.2
"""Failure rate of all runs together below which that many runs show no two sides to be alike.

Then all of `max_runs` may be spent, and `nothing changes` has to hold for failure rates that lie close together too.
"""
NOTHING_CERTAIN = 0.6
"""Part of the error allowed to a claim that is allowed to `nothing changes`."""
NOTHING_LIKELY = 0.8
ALIKE = 0.4
"""Part of the bad side's rate from which the good side's is alike: the best split of equal runs differs twofold."""
ALIKE_LIKELY = 0.5
"""Probability of no change, at even odds, from which two sides may be called alike: below it a change is likelier."""
ISLAND_CERTAIN = 0.9
ISLAND_DOUBT = 0.5


def equal_ends(moment: Moment) -> NoRegression | None:
    """Two ends of the same code cannot differ."""
    if moment.line.size > 1:
        return None
    return unchanged(moment.posterior, allowed_rate=1.0)


def endpoint(moment: Moment, workers: int) -> Contradiction | Probe | None:
    """Both ends, the bad one first, until each has said something twice; or the one that cannot be run."""
    line = moment.line
    for position, claim in ((line.bad_end, "bad"), (line.good_end, "good")):
        if line.skips[position] >= ENDPOINT_TRIES and line.unusable[position]:
            answered = f"said something in only {line.runs[position]} runs and nothing in {line.skips[position]}"
            never = f"could not be tested in {line.skips[position]} tries"
            return Contradiction(
                endpoint=line.name(position),
                reason=f"the {claim} endpoint {line.name(position)} {answered if line.runs[position] else never}, so "
                f"{'too little' if line.runs[position] else 'nothing'} is known about this end"
                f"{line.told_of_skips(position)}",
                posterior=moment.posterior,
            )
    under_way = {end: int(line.runs[end]) + moment.pending.count(end) for end in (line.bad_end, line.good_end)}
    due = [end for end, runs in under_way.items() for _ in range(ENDPOINT_RUNS - runs)]
    if not due or moment.runs >= moment.problem.max_runs:
        return None
    idle = told_of_idle(len(due), workers, "nothing else is run before both ends have answered")
    return moment.probe(due[:workers], f"endpoints are checked first, more than once{line.told_of_skips(due[0])}{idle}")


def several_changes(moment: Moment, *, doubt: float) -> Contradiction | None:
    """More than one change, where that has a probability of `doubt` or more."""
    island = find_island(moment.line)
    if island is None or island.probability < doubt:
        return None
    return Contradiction(
        endpoint="",
        reason="more than one change, so one first bad candidate is the wrong question: " + tell(moment.line, island),
        posterior=moment.posterior,
    )


def nothing_changes(moment: Moment, workers: int) -> Step | None:
    """Both ends behave alike, good or bad; asked of the less known end once more before it is said."""
    line = moment.line
    none = moment.belief.none_at_even_odds
    ends = {end: int(line.runs[end]) for end in (line.bad_end, line.good_end)}
    fewest = min(ends, key=ends.__getitem__)
    enough = _enough_for_nothing(moment, at_the_ends=sum(ends.values()))
    if none >= enough and is_rare(moment):
        none = min(none, infer(line, cautious_pair()).none_at_even_odds)
    if none < enough or not ends[fewest]:
        return None
    if ends[fewest] < ALIKE_RUNS and moment.runs < moment.problem.max_runs:
        return moment.probe([fewest] * workers, "both endpoints behave alike so far: they are checked again")
    island = several_changes(moment, doubt=ISLAND_DOUBT)
    if island is not None:
        return island
    good, bad = line.counts(line.good_end), line.counts(line.bad_end)
    if line.failures[line.good_end] > 0:
        return Contradiction(
            endpoint=line.name(line.good_end),
            reason=f"the good endpoint fails like the bad one ({good}, {bad}): both ends behave alike",
            posterior=moment.posterior,
        )
    return NoRegression(
        confidence=none,
        allowed_rate=allowed_rate(int(line.failures[line.bad_end]), int(line.runs[line.bad_end])),
        posterior=moment.posterior,
        reason=f"the bad endpoint does not reproduce the failure here ({bad}), nor does the good one ({good})",
    )


def sides_alike(moment: Moment) -> Contradiction | None:
    """A good side that fails nearly as often as the bad one, when much was spent on whether anything changes."""
    line, none = moment.line, moment.belief.none_at_even_odds
    gap = likeliest_gap(np.flatnonzero(~line.unusable), rise=moment.belief.rise.mass, fall=moment.belief.fall.mass)
    if gap is None or is_rare(moment) or moment.runs < DOUBT_BUDGET or none < ALIKE_LIKELY:
        return None
    if not (line.runs[line.good_end] and line.runs[line.bad_end]):
        return None
    (good_fails, good_runs), (bad_fails, bad_runs) = side_counts(line, gap)
    if good_fails / good_runs < ALIKE * (bad_fails + 1) / (bad_runs + 2):
        return None
    return Contradiction(
        endpoint=line.name(line.good_end),
        reason=f"{moment.runs} runs do not tell a good side ({good_fails} of {good_runs} runs failed) from a bad one "
        f"({bad_fails} of {bad_runs}): at even odds, nothing changes in the range with probability {none:.2f}",
        posterior=moment.posterior,
    )


def not_yet_seen(moment: Moment, workers: int) -> Probe | None:
    """No other environment is built before the failure was seen at least once."""
    if moment.line.failures.any() or moment.runs >= moment.problem.max_runs:
        return None
    return moment.probe([moment.line.bad_end] * workers, "the bad endpoint has not failed yet")


def is_rare(moment: Moment) -> bool:
    """Whether the failure is seen, and in so few runs that those made so far tell no two sides to be alike."""
    return bool(0 < moment.line.failures.sum() < RARE * moment.line.runs.sum())


def _enough_for_nothing(moment: Moment, *, at_the_ends: int) -> float:
    """The probability of no change that ends the search: lower when much was spent on the question."""
    certain = 1.0 - NOTHING_CERTAIN * (1.0 - moment.problem.confidence)
    budget = max(DOUBT_BUDGET, moment.problem.max_runs) if is_rare(moment) else DOUBT_BUDGET
    spent = at_the_ends >= ENDPOINT_SHARE * budget or moment.runs >= budget
    return min(NOTHING_LIKELY, certain) if spent else certain
