"""`python -m tests.bench PART...`: tables of the search's figures, with the seed that makes them again."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from tabulate import tabulate

from . import benchmark, environments, matrix, ordered, paired, peers, pool, searches, sets, slurm

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = {
    "cost": (partial(ordered.cells, ordered.COST), "runs and units of the searches other tools were measured on"),
    "calibration": (partial(ordered.cells, ordered.CALIBRATION), "a claimed 95 % is right 94 % of the time or more"),
    "grid": (partial(ordered.cells, ordered.GRID), "the same over many pairs of rates, 32 candidates"),
    "skips": (ordered.skips, "unusable candidates: the reported set holds the culprit"),
    "premises": (ordered.premises, "nothing to find: how it ends, and after how many runs"),
    "workers": (ordered.several_workers, "wall time in rounds of W equal runs"),
    "pool": (pool.rows, "wall time of W workers whose runs end when they like, pointless ones cancelled"),
    "throughput": (paired.rows, "loss of throughput under noise and drift"),
    "kills": (searches.kills, "searches killed at random instants end like undisturbed ones and repeat nothing"),
    "slurm-kills": (slurm.kills, "the driver killed with jobs in flight on a real Slurm (needs slurm-wlm, root)"),
    "slurm-overhead": (slurm.overhead, "what a job costs beside Slurm itself (needs the same)"),
    "overhead": (searches.overhead, "what `train` costs beside the benchmark (builds cu130 if it is not there)"),
    "builds": (environments.rows, "a build against plain uv, a cached one, and verify (needs 10 GB of disk)"),
    "step": (benchmark.step, "the drafter's step against dense attention (builds cu130 if it is not there)"),
    "container": (benchmark.container, "the benchmark in a container against the host (needs an engine)"),
    "speed": (ordered.step_time, "time of one decision"),
    "sets": (sets.rows, "the guilty one or pair among 16 packages, and innocent ones"),
    "sets-large": (sets.large, "one guilty package among 200"),
    "sets-throughput": (sets.losses, "the guilty one or pair that makes training slower, among 16 packages"),
    "sets-peer": (sets.peer, "the same given to picire (installs it from the package index)"),
    "matrix": (matrix.rows, "the page of a large matrix, and how often its throughput column is wrong"),
    "peers": (peers.rows, "the cost table given to other tools (installs them from the package index)"),
}
DEFAULT = ("cost", "skips", "premises", "workers", "throughput", "speed", "matrix", "kills")


def _shown(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows as they come, on stderr too: a long table shows how far it is."""
    for row in rows:
        sys.stderr.write(" | ".join(row) + "\n")
        yield row


def main() -> int:
    """Write one table a part."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="; ".join(f"{name}: {told}" for name, (_, told) in PARTS.items()),
        epilog="example: nox -s bench -- calibration --searches 2000 --seed 1",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; default: {DEFAULT}")
    parser.add_argument("--searches", type=int, default=100, metavar="N", help="searches a cell (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    for part in asked.parts or DEFAULT:
        rows, told = PARTS[part]
        options = {"seed": asked.seed} if part == "speed" else {"seed": asked.seed, "searches": asked.searches}
        header, *body = _shown(rows(**options))
        table = tabulate(body, headers=header, disable_numparse=True)
        sys.stdout.write(f"\n{part}: {told} (seed {asked.seed}, {asked.searches} searches a cell)\n{table}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
