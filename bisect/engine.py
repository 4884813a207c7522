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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .choose import choose
from .information import gains
from .intervals import allowed_rate
from .islands import find_island, tell
from .lineup import lineup
from .model import Contradiction, Exhausted, NoRegression, Probe
from .neighbours import answer, credible, likeliest_gap, posterior_of, side_counts
from .posterior import cautious_pair, infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .lineup import Lineup
    from .model import Observation, Posterior, Problem, Step
    from .neighbours import Gap
    from .posterior import Belief

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
CAUTION = 0.55
"""Part of the error allowed to a claim that it may have where rates that lie close together are likelier.

From simulated searches: about the largest at which claims at .1/.05, .2/.1 and .3/.1 are right as often as they say.
"""
ISLAND_CERTAIN = 0.9
ISLAND_DOUBT = 0.5
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
    line = lineup(problem, observations)
    state = _State(
        problem=problem,
        line=line,
        belief=infer(line),
        runs=len(observations),
        pending=tuple(line.positions(pending)),
    )
    return (
        _equal_ends(state)
        or _endpoint(state, workers)
        or _several_changes(state, doubt=ISLAND_CERTAIN)
        or _nothing_changes(state, workers)
        or _sides_alike(state)
        or _not_yet_seen(state, workers)
        or _claim(state, workers)
        or _out_of_runs(state)
        or _most_informative(state, workers)
    )


def useless(problem: Problem, observations: Sequence[Observation], pending: Sequence[str]) -> tuple[str, ...]:
    """Those of the pending candidates whose runs are no longer worth waiting for and may be cancelled.

    Never one that would be asked for again at once.
    """
    step = next_step(problem, observations, workers=max(1, len(pending)))
    if not isinstance(step, Probe):
        return tuple(pending)
    line = lineup(problem, observations)
    gain = gains(infer(line))[:, 0]
    least = USELESS * gain[~line.unusable].max()
    kept = {position for position in line.positions(pending) if gain[position] >= least}
    kept.update(line.positions((step.candidate, *step.also)))
    return tuple(name for name in pending if kept.isdisjoint(line.positions([name])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A search at one moment: the problem, what was seen, what it says, and the positions being run."""

    problem: Problem
    line: Lineup
    belief: Belief
    runs: int
    pending: tuple[int, ...]

    @property
    def posterior(self) -> Posterior:
        return posterior_of(self.problem, self.line, change=self.belief.change, none=self.belief.none)

    @property
    def rare(self) -> bool:
        return bool(0 < self.line.failures.sum() < RARE * self.line.runs.sum())

    def probe(self, positions: Sequence[int], reason: str) -> Probe:
        first, *others = (self.line.name(position) for position in positions)
        return Probe(candidate=first, also=tuple(others), reason=reason, posterior=self.posterior)


def _equal_ends(state: _State) -> Step | None:
    if state.line.size > 1:
        return None
    return NoRegression(
        confidence=1.0,
        allowed_rate=1.0,
        posterior=state.posterior,
        reason="both endpoints are the same code, so nothing between them can have changed",
    )


def _endpoint(state: _State, workers: int) -> Step | None:
    line = state.line
    for position, claim in ((line.bad_end, "bad"), (line.good_end, "good")):
        if line.skips[position] >= ENDPOINT_TRIES and line.unusable[position]:
            answered = f"said something in only {line.runs[position]} runs and nothing in {line.skips[position]}"
            never = f"could not be tested in {line.skips[position]} tries"
            return Contradiction(
                endpoint=line.name(position),
                reason=f"the {claim} endpoint {line.name(position)} {answered if line.runs[position] else never}, so "
                f"{'too little' if line.runs[position] else 'nothing'} is known about this end"
                f"{line.told_of_skips(position)}",
                posterior=state.posterior,
            )
    under_way = {end: int(line.runs[end]) + state.pending.count(end) for end in (line.bad_end, line.good_end)}
    due = [end for end, runs in under_way.items() for _ in range(ENDPOINT_RUNS - runs)]
    if not due or state.runs >= state.problem.max_runs:
        return None
    return state.probe(due[:workers], f"endpoints are checked first, more than once{line.told_of_skips(due[0])}")


def _enough_for_nothing(state: _State, *, at_the_ends: int) -> float:
    """The probability of no change that ends the search: lower when much was spent on the question."""
    certain = 1.0 - NOTHING_CERTAIN * (1.0 - state.problem.confidence)
    budget = max(DOUBT_BUDGET, state.problem.max_runs) if state.rare else DOUBT_BUDGET
    spent = at_the_ends >= ENDPOINT_SHARE * budget or state.runs >= budget
    return min(NOTHING_LIKELY, certain) if spent else certain


def _sides_alike(state: _State) -> Contradiction | None:
    """A good side that fails nearly as often as the bad one, when much was spent on whether anything changes."""
    line, none = state.line, state.belief.none_at_even_odds
    gap = likeliest_gap(np.flatnonzero(~line.unusable), rise=state.belief.rise.mass, fall=state.belief.fall.mass)
    if gap is None or state.rare or state.runs < DOUBT_BUDGET or none <= 1.0 - state.problem.confidence:
        return None
    (good_fails, good_runs), (bad_fails, bad_runs) = side_counts(line, gap)
    if good_fails / good_runs < ALIKE * (bad_fails + 1) / (bad_runs + 2):
        return None
    return Contradiction(
        endpoint=line.name(line.good_end),
        reason=f"{state.runs} runs do not tell a good side ({good_fails} of {good_runs} runs failed) from a bad one "
        f"({bad_fails} of {bad_runs}): at even odds, nothing changes in the range with probability {none:.2f}",
        posterior=state.posterior,
    )


def _not_yet_seen(state: _State, workers: int) -> Probe | None:
    """No other environment is built before the failure was seen at least once."""
    if state.line.failures.any() or state.runs >= state.problem.max_runs:
        return None
    return state.probe([state.line.bad_end] * workers, "the bad endpoint has not failed yet")


def _several_changes(state: _State, *, doubt: float) -> Contradiction | None:
    island = find_island(state.line)
    if island is None or island.probability < doubt:
        return None
    return Contradiction(
        endpoint="",
        reason="more than one change, so one first bad candidate is the wrong question: " + tell(state.line, island),
        posterior=state.posterior,
    )


def _nothing_changes(state: _State, workers: int) -> Step | None:
    line = state.line
    none = state.belief.none_at_even_odds
    ends = {end: int(line.runs[end]) for end in (line.bad_end, line.good_end)}
    fewest = min(ends, key=ends.__getitem__)
    enough = _enough_for_nothing(state, at_the_ends=sum(ends.values()))
    if none >= enough and state.rare:
        none = min(none, infer(line, cautious_pair()).none_at_even_odds)
    if none < enough:
        return None
    if ends[fewest] < ALIKE_RUNS and state.runs < state.problem.max_runs:
        return state.probe([fewest] * workers, "both endpoints behave alike so far: they are checked again")
    island = _several_changes(state, doubt=ISLAND_DOUBT)
    if island is not None:
        return island
    good, bad = line.counts(line.good_end), line.counts(line.bad_end)
    if line.failures[line.good_end] > 0:
        return Contradiction(
            endpoint=line.name(line.good_end),
            reason=f"the good endpoint fails like the bad one ({good}, {bad}): both ends behave alike",
            posterior=state.posterior,
        )
    return NoRegression(
        confidence=none,
        allowed_rate=allowed_rate(int(line.failures[line.bad_end]), int(line.runs[line.bad_end])),
        posterior=state.posterior,
        reason=f"the bad endpoint does not reproduce the failure here ({bad}), nor does the good one ({good})",
    )


def _claim(state: _State, workers: int) -> Step | None:
    line = state.line
    gap = likeliest_gap(np.flatnonzero(~line.unusable), rise=state.belief.rise.mass, fall=state.belief.fall.mass)
    if gap is None or not _is_sure(state, gap):
        return None
    unseen = ((gap.bad, line.failures[gap.bad]), (gap.good, line.passes[gap.good]))
    unconfirmed = [position for position, shown in unseen if shown == 0]
    due = [position for position in unconfirmed if position not in state.pending] or unconfirmed
    if due:
        over = state.runs >= state.problem.max_runs
        return None if over else state.probe(due[:workers], "both neighbours are confirmed before a claim")
    return _several_changes(state, doubt=ISLAND_DOUBT) or answer(
        line, gap, posterior=state.posterior, notes=_notes(state, gap), untested="could not be tested"
    )


def _is_sure(state: _State, gap: Gap) -> bool:
    """At the asked confidence, also where close rates are likelier, and at even odds of no change.

    1/10 against 0/10 is no finding.
    """
    allowed = 1.0 - state.problem.confidence
    if max(1.0 - gap.mass, state.belief.none_at_even_odds) > allowed:
        return False
    cautious = infer(state.line, cautious_pair())
    side = (cautious.rise if gap.rising else cautious.fall).mass
    return float(side[gap.older : gap.newer].sum()) >= (1.0 - CAUTION * allowed) * float(side.sum())


def _notes(state: _State, gap: Gap) -> tuple[str, ...]:
    line, notes = state.line, []
    if gap.rising is not line.rising:
        seen, other = ("fix", "good") if line.rising else ("regression", "bad")
        notes.append(
            f"the order is reversed: the older end is {'bad' if line.rising else 'good'} and the newer end {other}, "
            f"against the claim; reported as a {seen}"
        )
    (failures, runs), _ = side_counts(line, gap)
    if failures:
        notes.append(f"the good side fails too, in {failures} of {runs} runs")
    return tuple(notes)


def _out_of_runs(state: _State) -> Exhausted | None:
    if state.runs < state.problem.max_runs:
        return None
    suspects, confidence = credible(state.line, state.belief.change, confidence=state.problem.confidence)
    return Exhausted(
        suspects=suspects,
        confidence=confidence,
        posterior=state.posterior,
        reason=f"{state.runs} runs were made, {state.problem.max_runs} allowed; "
        f"no change at all has probability {state.belief.none:.3f}",
    )


def _most_informative(state: _State, workers: int) -> Probe:
    positions = choose(state.line, state.belief, state.problem, workers=workers, pending=state.pending)
    return state.probe(positions, "the most information per cost")
