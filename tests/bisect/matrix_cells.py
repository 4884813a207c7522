"""Cells for the tests of the matrix: what ran in them is written out, nothing is measured."""

from __future__ import annotations

import math
import random
from bisect.matrix import Blocked, Cell, CellRun, State, Trace
from bisect.matrix.key import CellKey

OK, RACE = "ok", "fx_flag_race"


def key(build="cu128", **others):
    fields = {"platform": "linux-x86_64 2 CPUs", "node": "n1", "benchmark": "b" * 12, "lock": f"lock-{build}"}
    return CellKey(build=build, **{**fields, **others})


def cell(build="cu128", outcomes=(), *, ktok=None, secondary=(), facts=(), **others):
    """A cell with one run an outcome; `ktok` gives each run's rate."""
    cell_key = key(build, **others)
    rates = ktok if ktok is not None else [None] * len(outcomes)
    runs = tuple(
        CellRun(
            cell=cell_key.digest,
            run=f"runs/{cell_key.digest}-{number}",
            outcome=outcome,
            secondary=tuple(secondary),
            session="s1",
            order=number,
            seconds=20.0,
            ktok_s=rate,
            facts=tuple(facts),
            evidence=(f"line of {outcome}",),
        )
        for number, (outcome, rate) in enumerate(zip(outcomes, rates, strict=True))
    )
    return Cell(key=cell_key, runs=runs)


def blocked(build, state=State.DRIVER_TOO_OLD, *, reason="too old", unblock="update it", **others):
    return Cell(key=key(build, **others), blocked=Blocked(state=state, reason=reason, unblock=unblock))


def session(rates, *, rounds, noise=0.0, drift=0.0, seed=0, every=1, **common):
    """Cells measured in one session: round after round, the first one (the baseline) before every `every` others.

    `rates` maps builds to their true rate; `drift` is the machine's relative change over the whole session.
    """
    rng = random.Random(seed)
    names = list(rates)
    order = []
    for _ in range(rounds):
        for number, name in enumerate(names[1:]):
            if number % every == 0:
                order.append(names[0])
            order.append(name)
    order.append(names[0])
    runs = {name: [] for name in names}
    for position, name in enumerate(order):
        moved = 1 + drift * position / len(order)
        rate = rates[name] * moved * math.exp(rng.gauss(0, noise))
        digest = key(name, **common).digest
        runs[name].append(
            CellRun(
                cell=digest,
                run=f"runs/{name}-{position}",
                outcome=OK,
                session="s1",
                order=position,
                seconds=20.0,
                ktok_s=rate,
            )
        )
    return tuple(Cell(key=key(name, **common), runs=tuple(runs[name])) for name in names)


def steps(*times, thread="drafter-0"):
    return Trace(thread=thread, step_times_s=tuple(times))
