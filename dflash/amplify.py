"""Amplification: the same benchmark with wider windows for threads to collide in. Never a claim about a real rate.

More threads, more distinct shapes (each new one compiles while other threads call compiled code), replicas that never
wait for each other, starts apart by about one compilation, a thread switch interval far below the default of 5 ms,
and threads that go on after a failed step, so that the first failure does not hide the others.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import TrainConfig

MIN_DRAFTERS = 4
MIN_STEPS = 20  # it takes compiled calls beside a compilation: ten steps of 2.8.0 were all lost to its metrics race
MAX_FAILURES = 20  # of one thread; each holds a traceback
SWITCH_INTERVAL_S = 1e-4
STAGGER_S = 0.3  # about one cold compilation of the smoke profile
RECOMPILE_LIMIT = 256  # more shapes must not become dense calls: that is another failure


def configure(config: TrainConfig) -> TrainConfig:
    """The amplified configuration."""
    return dataclasses.replace(
        config,
        num_drafters=max(config.num_drafters, MIN_DRAFTERS),
        context_multiple=max(1, config.context_multiple // 4),
        steps=max(config.steps // 2, MIN_STEPS),  # the rate of an amplified run is worth nothing
        average_every=0,
        recompile_limit=max(config.recompile_limit, RECOMPILE_LIMIT),
    )


def prepare() -> None:
    """Make threads switch often; in the main thread, once."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def stagger(index: int) -> None:
    """Hold the calling drafter back so that it comes to its first step while the ones before it compile."""
    time.sleep(index * STAGGER_S)
