"""Whether builds that are said to be the same code behave like it. Pure, and without memory.

A wheel is more than its commit: CUDA, triton and bundled libraries come from elsewhere, and a commit may be told wrong.
So the runs have the last word. Neighbours of the same code share a position in the line-up as long as that explains
what was seen of them; where a change between them is too likely for that, each gets a position of its own again. Two
members of which one fails in 30 % of its runs and the other has not failed yet are no contradiction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lineup import lineup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .lineup import FloatArray, Lineup
    from .model import Observation, Problem

FEWEST = 3
"""Runs of a group below which one good and one bad answer say nothing about it."""


def line_of(
    problem: Problem,
    observations: Sequence[Observation],
    *,
    differ: Callable[[Lineup, tuple[str, ...]], bool],
    change: Callable[[Lineup], FloatArray],
) -> Lineup:
    """The line-up in which only builds that behave like the same code are merged.

    Args:
        problem: its `equal` says what is the same code.
        observations: every finished run.
        differ: whether what was seen of a group's members differs at all; told the merged line-up and the group.
        change: probability of each change point of a line-up.
    """
    merged = lineup(problem, observations)
    mixed = [group for group in merged.groups if len(group) > 1 and differ(merged, group)]
    if not mixed:
        return merged
    loose = lineup(problem, observations, apart=frozenset(name for group in mixed for name in group))
    inside = change(loose)
    allowed = 1.0 - problem.confidence
    split = [group for group in mixed if inside[[at - 1 for at in loose.positions(group[1:])]].sum() > allowed]
    return lineup(problem, observations, apart=frozenset(name for group in split for name in group))


def verdicts_differ(line: Lineup, group: tuple[str, ...]) -> bool:
    """Whether one member failed, another one passed, and the two are not all there is."""
    failed = {name for name in group if line.shown[name][0]}
    passed = {name for name in group if line.shown[name][1]}
    runs = sum(sum(line.shown[name]) for name in group)
    return runs >= FEWEST and any(failed - {name} for name in passed)


def told(line: Lineup) -> tuple[str, ...]:
    """A sentence for each stretch of neighbours that are said to be the same code and are not taken for it."""
    stretches: list[list[int]] = []
    for place in line.apart:
        if stretches and stretches[-1][-1] == place - 1:
            stretches[-1].append(place)
        else:
            stretches.append([place - 1, place])
    return tuple(
        f"{line.name(places[0])} {'to' if len(places) > 2 else 'and'} {line.name(places[-1])} are said to be the same "
        "code, but the runs say otherwise, so each counts as a build of its own: a wheel is more than its commit "
        "(CUDA, triton, bundled libraries)"
        for places in stretches
    )
