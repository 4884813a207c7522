"""Rows of the classifier's wording tests: an expected outcome, a log written for the test, and what else must hold."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

FX = (
    "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function. "
    "This is not supported at the moment."
)
ST = "".join(f"step {s} loss {9.5 - s / 10:.3f} ktok/s 4.1\n" for s in range(8))


class Rows(list):
    """Rows in the order they were added, each with an id for the test's name."""

    def add(self, expected, log="", conclusion=None, hunt=None, secondary=None, **evidence):
        """Add a row; `conclusion` is the one for `hunt` (the FX race where None)."""
        self.append((expected, log, conclusion, hunt, secondary, evidence))

    @property
    def ids(self):
        return [f"{index}-{row[0]}" for index, row in enumerate(self)]


def check_row(row):
    expected, log, conclusion, hunt, secondary, evidence = row
    found = classify(Evidence(log=log, **evidence))
    assert str(found.outcome) == expected, found.evidence
    if conclusion is not None:
        assert conclude(found, Outcome.parse(hunt or "fx_flag_race")) is Conclusion(conclusion)
    if secondary is not None:
        assert [str(outcome) for outcome in found.secondary] == secondary
