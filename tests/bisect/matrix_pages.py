"""Pages for the tests of the HTML report: a matrix of any size with every state, traces and hostile text."""

from __future__ import annotations

import random
from bisect.matrix import Blocked, Cell, Rules, State, Trace
from bisect.matrix.report import HazardAnswer, Origin, make_report
from bisect.model import Found, Posterior
from bisect.report import Report
from bisect.report_rows import Row
from dataclasses import replace

from .matrix_cells import OK, RACE, cell, session

HOSTILE = (
    '<script>window.hacked=1</script></script><img src=x onerror="window.hacked=1">',
    '"><img src=x onerror=window.hacked=1>',
    "</template></pre></dialog><script>window.hacked=1</script>",
    "{{ 7*7 }} {% raw %} ${window.hacked=1} `x` \x1b[31mred\x1b[0m & &amp; \u2028",
)
BUILDS = {
    "cu128": ("2.10.0", "cu128", 10.0),
    "cu126": ("2.7.1", "cu126", 9.9),
    "cu130": ("2.11.0", "cu130", 10.1),
    "cu130-latest": ("2.14.1", "cu130", 8.2),
    "cu132": ("2.15.0", "cu132", 10.6),
}
FACTS = (("torch", "2.11.0+cu130"), ("git_version", "70d99e998b49"), ("cuda", "13.0"), ("attention", "flex"))


def _with_traces(one, rng, *, stall=False):
    def traces():
        for thread in range(3):
            times = [rng.uniform(4, 9)] + [rng.gauss(1.0, 0.06) for _ in range(29)]
            if stall:
                for step in (8, 16, 23):
                    times[step] = 9.0
            yield Trace(thread=f"drafter-{thread}", step_times_s=tuple(round(abs(value), 4) for value in times))

    runs = tuple(
        replace(
            run,
            traces=tuple(traces()),
            warmup_steps=3,
            warmup_s=rng.uniform(5, 7),
            compile_s=rng.uniform(3, 5),
            peak_bytes=int(rng.uniform(0.9, 1.1) * 2**30),
            recompiles=4,
            facts=FACTS,
            at="2026-11-29T20:01:02Z",
            evidence=(*run.evidence, *(HOSTILE if run.outcome != OK else ())),
            advice="" if run.outcome == OK else "Use the workaround lock, or a build from 2.14 on.",
        )
        for run in one.runs
    )
    return replace(one, runs=runs)


def sample_report(*, copies=1, seed=0):
    """A matrix like the default one; `copies` multiplies its rows for the size and speed tests."""
    rng = random.Random(seed)
    cells, points = [], {}
    for copy in range(copies):
        suffix = f"-r{copy}" if copy else ""
        for name, (torch, cuda, _) in BUILDS.items():
            points[name + suffix] = (torch, cuda)
        for history in ("clean", "sglang-residue"):
            for workaround, factor in (("none", 1.0), ("lock", 0.85)):
                rates = {name + suffix: rate * factor for name, (_, _, rate) in BUILDS.items()}
                common = {"history": history, "workaround": workaround}
                cells += [
                    _special(one, rng) for one in session(rates, rounds=3, noise=0.015, seed=rng.random(), **common)
                ]
    origin = Origin(
        created="2026-11-29T20:00:00Z",
        command="python -m bisect matrix --axes axes.toml --out matrix",
        axes='builds = ["shipped"]\n# </pre><script>window.hacked=1</script>',
        benchmark="5f" * 32,
        current="cu128",
        left="4 runs in 2 cells, about 2 minutes",
    )
    hazards = (
        HazardAnswer(environment="cu130", hazard="fx_flag_trace", answer="leaks", meaning=HOSTILE[0], run="runs/h1"),
        HazardAnswer(environment="cu132", hazard="fx_flag_trace", answer="safe", meaning="no leak", run="runs/h2"),
    )
    return make_report(cells, rules=Rules(), origin=origin, points=points, hazards=hazards)


def _special(one, rng):
    """Every state somewhere in the grid."""
    build, history, workaround = one.key.build.split("-r")[0], one.key.history, one.key.workaround
    place = (build, history != "clean", workaround)
    failing = {("cu130", False, "none"): [OK, OK, RACE, OK], ("cu130", True, "none"): [RACE] * 3}
    failing |= {("cu126", False, "none"): [RACE, RACE], ("cu126", True, "none"): ["segfault", OK]}
    if place in failing:
        return _with_traces(replace(cell(outcomes=failing[place]), key=one.key), rng)
    if place == ("cu132", True, "lock"):
        return Cell(key=one.key)
    blocks = {
        ("cu132", True, "none"): Blocked(
            state=State.DRIVER_TOO_OLD,
            reason="cu132 needs driver 580.65.06, this machine has 570.133",
            unblock="update",
        ),
        ("cu126", True, "lock"): Blocked(state=State.CANNOT_BUILD, reason=HOSTILE[1], unblock=HOSTILE[0]),
    }
    if place in blocks:
        return Cell(key=one.key, blocked=blocks[place])
    stall = place == ("cu130", True, "lock")
    return _with_traces(one, rng, stall=stall)


def sample_search(*, num=24, at=15):
    """A finished search with runs on some candidates, a hole, and hostile lines as proof."""
    names = [f"2.12.0.dev202602{day:02d}+cu130" for day in range(1, num + 1)]
    weights = [0.96 if position == at else 0.03 if position == at - 1 else 0.0004 for position in range(num)]
    posterior = Posterior(by_candidate=tuple(zip(names, weights, strict=True)), none=0.001)
    runs = {0: (6, 0), at - 1: (5, 0), at: (3, 4), at // 2: (3, 0), num - 1: (1, 3), at + 3: (0, 2)}
    rows = [
        Row(
            name=name,
            date=f"2026-02-{position + 1:02d}",
            facts={"git_version": f"{position:02x}" * 20, "cuda": "13.0", "torch": name},
            good=runs.get(position, (0, 0))[0],
            bad=runs.get(position, (0, 0))[1],
            skipped=int(position == 9),
            outcomes=(("fx_flag_race", runs[position][1]),) if runs.get(position, (0, 0))[1] else (),
            reason=HOSTILE[0] if position == 9 else "",
            probability=weights[position],
        )
        for position, name in enumerate(names)
    ]
    step = Found(
        last_good=names[at - 1], first_bad=names[at], direction="regression", confidence=0.96, posterior=posterior
    )
    return Report(
        kind="torch-nightlies",
        hunted="fx_flag_race by train",
        step=step,
        rows=tuple(rows),
        excluded=(("2.12.0.dev20260217+cu130", "no wheel for this Python"),),
        proof=HOSTILE,
        reproduce=("python -m bisect torch-nightlies --good 20260201 --bad 20260224",),
        journal="runs/search/journal.jsonl",
    )
