"""What a verdict adds for its reader: what was otherwise than claimed, what was not run, what fails on the good side.

Also what an end without an answer leaves open. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..neighbours import names_of, side_counts
from ..probability import percent
from ..same_code import told
from .premises import NOTHING_LIKELY, is_rare

if TYPE_CHECKING:
    from ..lineup import Lineup
    from ..neighbours import Gap
    from .moment import Moment

SHOWN = 4


def notes_of(line: Lineup, gap: Gap) -> tuple[str, ...]:
    """The notes of a claim that the change lies in this gap."""
    return (*_reversed(line, gap), *_failing_good_side(line, gap), *_not_run(line, gap), *told(line))


def left_open(moment: Moment) -> str:
    """What is not known at the end of the budget: whether anything changes, and why the ends do not tell."""
    line, none = moment.line, f"no change at all has a probability of {percent(moment.belief.none)}"
    unknown = [line.name(end) for end in (line.good_end, line.bad_end) if not line.runs[end]]
    if unknown:
        return f"{none}; nothing is known of the {'ends' if len(unknown) > 1 else 'end'} {' and '.join(unknown)}"
    if not line.failures.any():
        return f"{none}; the failure was never seen"
    good, bad = (f"{line.failures[end]} of {line.runs[end]}" for end in (line.good_end, line.bad_end))
    close = is_rare(moment) and moment.belief.none_at_even_odds >= NOTHING_LIKELY
    doubt = ", and two low failure rates that lie close together are not ruled out" if close else ""
    return f"{none}; the good end failed in {good} runs, the bad end in {bad}{doubt}"


def _reversed(line: Lineup, gap: Gap) -> tuple[str, ...]:
    if gap.rising is line.rising:
        return ()
    seen, other = ("fix", "good") if line.rising else ("regression", "bad")
    text = (
        f"the order is reversed: the older end is {'bad' if line.rising else 'good'} and the newer end {other}, "
        f"against the claim; reported as a {seen}"
    )
    return (text,)


def _failing_good_side(line: Lineup, gap: Gap) -> tuple[str, ...]:
    """Which candidates of the good side failed: where a failure comes in steps, its first ones lie there.

    `c0 0/5 c6 1/4 c7 2/5 | c8 8/8`: the change is put where the rate jumps most, and may have begun at c6.
    """
    (failures, runs), _ = side_counts(line, gap)
    if not failures:
        return ()
    side = range(gap.good, -1, -1) if gap.rising else range(gap.good, line.size)
    failed = [position for position in side if line.failures[position]]
    named = ", ".join(line.counts(position) for position in failed[:SHOWN])
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    text = f"the good side fails too, in {failures} of {runs} runs: {named}{more}"
    if line.failures[gap.good] and not line.failures[side[-1]]:
        begins = "begins" if gap.rising else "ends"
        text += (
            f"; {line.counts(side[-1])}, so it may come in steps: a search with {line.name(gap.good)} as the bad end "
            f"tells where it {begins}"
        )
    return (text,)


def _not_run(line: Lineup, gap: Gap) -> tuple[str, ...]:
    """The named neighbours that only stand for others of the same code."""
    notes = []
    for name, position in zip(names_of(line, gap), (gap.good, gap.bad), strict=True):
        ran = [other for other in line.groups[position] if any(line.shown[other])]
        if name not in ran:
            notes.append(f"{name} was not run itself, only {', '.join(ran)} of what is said to be the same code")
    return tuple(notes)
