"""Runs inside the peer's environment: ITEMS CULPRITS BAD GOOD REPEATS SEARCHES SEED -> totals as JSON on stdout.

The peer's ddmin with its cache; a mix fails when any of REPEATS runs fails. It asserts that the whole set fails: an
assertion that does not hold is a search without an answer.
"""

import json
import random
import sys

from picire import DD, Outcome


def search(items, culprits, bad, good, repeats, rng):
    """One search; (right, wrong, runs, mixes)."""
    guilty = set(rng.sample(range(items), culprits))
    runs, mixes = 0, set()

    def test(config, _config_id):
        nonlocal runs
        mixes.add(tuple(sorted(config)))
        for _ in range(repeats):
            runs += 1
            if rng.random() < (bad if guilty <= set(config) else good):
                return Outcome.FAIL
        return Outcome.PASS

    try:
        found = set(DD(test)(list(range(items))))
    except AssertionError:
        return 0, 0, runs, len(mixes)
    return int(found == guilty), int(found != guilty), runs, len(mixes)


def main():
    """Play every search and write the totals."""
    items, culprits = int(sys.argv[1]), int(sys.argv[2])
    bad, good = float(sys.argv[3]), float(sys.argv[4])
    repeats, searches, seed = map(int, sys.argv[5:8])
    done = [
        search(items, culprits, bad, good, repeats, random.Random(f"{seed} {number}")) for number in range(searches)
    ]
    right, wrong, runs, mixes = (sum(column) for column in zip(*done, strict=True))
    totals = {"right": right, "wrong": wrong, "runs": runs / searches, "environments": mixes / searches}
    json.dump(totals, sys.stdout)


if __name__ == "__main__":
    main()
