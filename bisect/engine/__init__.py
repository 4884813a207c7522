"""The next step of a search under noise: what to run next, or the verdict. Pure, and without memory.

`next_step(problem, observations)` looks at the whole list each time, so resume, replay and what-if are the same call
with another list. The order of the rules is the order of the code:

1. both endpoints, bad one first, until each has said something twice; an endpoint that cannot be run is named;
2. more than one change is named; no change is as good an answer as a change, so are two sides that fail alike after
   150 runs (where failures are rare neither is said as long as rates that lie close together explain them), and until
   the bad endpoint has failed once nothing else is run;
3. a change between two usable neighbours is claimed at the asked confidence, when that does not rest on lucky guesses
   of the failure rates, close ones included, and both neighbours were seen to behave as claimed; candidates that no run
   can tell apart are narrowed, never found;
4. `max_runs`; else the candidate with the most information per cost, and one run of it.

Positions are in time. The two neighbours of a change keep their names in a fix too (old bad, new good): `first_bad`
is then the last candidate that fails and `last_good` the first that does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..lineup import told_of_idle
from ..model import Exhausted, Probe
from ..neighbours import answer, credible, likeliest_gap, names_of
from ..same_code import line_of, verdicts_differ
from .choose import choose
from .information import gains
from .moment import Moment
from .notes import left_open, notes_of
from .posterior import cautious_pair, infer
from .premises import (
    ISLAND_CERTAIN,
    ISLAND_DOUBT,
    endpoint,
    equal_ends,
    not_yet_seen,
    nothing_changes,
    several_changes,
    sides_alike,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import Lineup
    from ..model import Observation, Problem, Step
    from ..neighbours import Gap

CAUTION = 0.55
"""Part of the error allowed to a claim that it may have where rates that lie close together are likelier.

From simulated searches: about the largest at which claims at .1/.05, .2/.1 and .3/.1 are right as often as they say.
"""
USELESS = 0.05
"""Part of the best run's information below which a run under way is not worth waiting for."""


def next_step(
    problem: Problem,
    observations: Sequence[Observation],
    *,
    workers: int = 1,
    pending: Sequence[str] = (),
) -> Step:
    """The next probe or the verdict.

    Args:
        problem: candidates, claimed endpoints, confidence, budget and costs.
        observations: every finished run, in any order.
        workers: how many runs may start now; the probe then carries that many candidates, best together.
        pending: candidates whose runs are under way elsewhere, so that their answers are not asked for twice.
    """
    line = ordered_line(problem, observations)
    moment = Moment(
        problem=problem,
        line=line,
        belief=infer(line),
        runs=len(observations),
        pending=tuple(line.positions(pending)),
    )
    return (
        equal_ends(moment)
        or endpoint(moment, workers)
        or several_changes(moment, doubt=ISLAND_CERTAIN)
        or nothing_changes(moment, workers)
        or sides_alike(moment)
        or not_yet_seen(moment, workers)
        or _claim(moment, workers)
        or _out_of_runs(moment)
        or _most_informative(moment, workers)
    )


def ordered_line(problem: Problem, observations: Sequence[Observation]) -> Lineup:
    """The line-up that the steps are decided on."""
    return line_of(problem, observations, differ=verdicts_differ, change=lambda line: infer(line).change)


def useless(problem: Problem, observations: Sequence[Observation], pending: Sequence[str]) -> tuple[str, ...]:
    """Those of the pending candidates whose runs are no longer worth waiting for and may be cancelled.

    Never one that would be asked for again at once.
    """
    step = next_step(problem, observations, workers=max(1, len(pending)))
    if not isinstance(step, Probe):
        return tuple(pending)
    line = ordered_line(problem, observations)
    gain = gains(infer(line))[:, 0]
    least = USELESS * gain.max(initial=0.0, where=~line.unusable)
    kept = {position for position in line.positions(pending) if gain[position] >= least}
    kept.update(line.positions((step.candidate, *step.also)))
    return tuple(name for name in pending if kept.isdisjoint(line.positions([name])))


def _claim(moment: Moment, workers: int) -> Step | None:
    line = moment.line
    gap = likeliest_gap(np.flatnonzero(~line.unusable), rise=moment.belief.rise.mass, fall=moment.belief.fall.mass)
    if gap is None or not _is_sure(moment, gap):
        return None
    over = moment.runs >= moment.problem.max_runs
    last_good, _ = names_of(line, gap)
    failures, passes = line.shown[last_good]
    if failures and not passes and line.passes[gap.good]:
        reason = "it would be named as the last good one of its code, and has only failed so far"
        return None if over else moment.ask([last_good] * workers, reason)
    unseen = ((gap.bad, line.failures[gap.bad]), (gap.good, line.passes[gap.good]))
    unconfirmed = [position for position, shown in unseen if shown == 0]
    due = [position for position in unconfirmed if position not in moment.pending] or unconfirmed
    if due:
        idle = told_of_idle(len(due), workers, "nothing else is run before they have answered")
        return None if over else moment.probe(due[:workers], f"both neighbours are confirmed before a claim{idle}")
    return several_changes(moment, doubt=ISLAND_DOUBT) or answer(
        line, gap, posterior=moment.posterior, notes=notes_of(line, gap), untested="could not be tested"
    )


def _is_sure(moment: Moment, gap: Gap) -> bool:
    """At the asked confidence, also where close rates are likelier, and at even odds of no change.

    1/10 against 0/10 is no finding.
    """
    allowed = 1.0 - moment.problem.confidence
    if max(1.0 - gap.mass, moment.belief.none_at_even_odds) > allowed:
        return False
    cautious = infer(moment.line, cautious_pair())
    side = (cautious.rise if gap.rising else cautious.fall).mass
    return float(side[gap.older : gap.newer].sum()) >= (1.0 - CAUTION * allowed) * float(side.sum())


def _out_of_runs(moment: Moment) -> Exhausted | None:
    if moment.runs < moment.problem.max_runs:
        return None
    suspects, confidence = credible(moment.line, moment.belief.change, confidence=moment.problem.confidence)
    return Exhausted(
        suspects=suspects,
        confidence=confidence,
        posterior=moment.posterior,
        reason=f"{moment.runs} runs were made, {moment.problem.max_runs} allowed; {left_open(moment)}",
    )


def _most_informative(moment: Moment, workers: int) -> Probe:
    positions = choose(moment.line, moment.belief, moment.problem, workers=workers, pending=moment.pending)
    return moment.probe(positions, "the most information per cost")
