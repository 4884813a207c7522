"""Runs inside the peer's environment: SIZE BAD GOOD SEARCHES SEED -> {"right", "runs", "builds"} on stdout.

The peer's class is driven as its command line does: N + 1 commits, the newest first, no check of the endpoints, stop
at a posterior of 95 %. Its index i is the culprit's when every index up to i (newer) fails with the bad rate.
"""

import json
import random
import sys

import numpy as np
from git_bayesect import Bisector

CAP = 3000


def search(size, bad, good, rng):
    """One search; returns whether it was right, its runs and the commits it ran."""
    culprit = rng.randint(0, size - 1)
    bisector = Bisector([1.0] * (size + 1))
    tried = set()
    while bisector.distribution.max() < 0.95 and bisector.num_total_observations < CAP:
        index = bisector.select()
        tried.add(index)
        bisector.record(index, rng.random() < (bad if index <= culprit else good))
    return int(np.argmax(bisector.distribution)) == culprit, bisector.num_total_observations, len(tried)


def main():
    """Play every search and write the totals."""
    size, bad, good, searches, seed = int(sys.argv[1]), *map(float, sys.argv[2:4]), *map(int, sys.argv[4:6])
    done = [search(size, bad, good, random.Random(f"{seed} {number}")) for number in range(searches)]
    right, runs, builds = (sum(column) for column in zip(*done, strict=True))
    json.dump({"right": right, "runs": runs / searches, "builds": builds / searches}, sys.stdout)


if __name__ == "__main__":
    main()
