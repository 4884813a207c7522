"""What makes a change of throughput doubtful, or lies beside it: drift within the runs, stalls, a second step. Pure."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from .. import probability
from ..pace import percent
from .steps import ANOTHER_STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lineup import Lineup
    from ..model import Observation
    from .steps import Steps

FEWEST = 4
"""Pairs that must have been long enough to show drift before it is held against a claim."""
STALLED = 0.05
"""Part of the time after warm-up, more than in the baseline, from which standing still is worth a line."""


def drift_doubt(observations: Sequence[Observation], *, shift: float, sigma: float) -> str:
    """Why a shift (a log ratio) is not to be believed: the rate moves more within a run, or ''.

    `sigma`: the noise of one pair, as a log ratio; a drift below twice that is none.
    """
    drifts = [seen.drift for seen in observations if seen.drift is not None]
    if len(drifts) < FEWEST:
        return ""
    drift = median(drifts)
    if abs(math.log1p(drift)) <= max(abs(shift), 2.0 * sigma):
        return ""
    return (
        f"the rate changes by {percent(math.log1p(drift))} within a run (median of {len(drifts)} pairs), more than the "
        f"{percent(shift)} between the builds: the machine throttles, or the warm-up is too short"
    )


def stall_note(observations: Sequence[Observation], candidate: str) -> str:
    """That the candidate's runs stand still in the middle of training, which its steady rate leaves out, or ''."""
    stalled = [seen.stalled for seen in observations if seen.candidate == candidate and seen.value is not None]
    if not stalled or median(stalled) < STALLED:
        return ""
    return (
        f"{candidate} stands still for {100 * median(stalled):.0f} % more of the time after warm-up than the baseline "
        "(single steps of five times the usual length: recompilation, usually), and the steady rate leaves that out"
    )


def another_step(line: Lineup, steps: Steps, older: int, newer: int) -> str:
    """Where else the rate probably changes, or ''. Mending the change in (older, newer] would leave that part."""
    first, last, share = steps.elsewhere(older, newer)
    if share < ANOTHER_STEP:
        return ""
    where = f"between {line.name(first)} and {line.name(last)} ({probability.percent(share)})"
    return f"more than one step: another one lies {where}, to be searched for on its own"
