"""The problem of `python -m bisect next` as a file: everything it may hold, checked by name before the engine sees it.

An observation is `["id", "bad"]`, or for a loss of throughput `["id", 0.953]`: the candidate's as a fraction of the
good endpoint's, from two runs one after the other. Pure: takes the file's text.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs.errors import UsageError

from .model import Conclusion, Observation, Problem
from .shapes import is_name, is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_WORKERS = 1000
KINDS = {
    type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list",
    dict: "an object",
}  # fmt: skip
WORDS = {word.value: word for word in (Conclusion.GOOD, Conclusion.BAD, Conclusion.SKIP)}
REQUIRED = ("candidates", "observations", "good", "bad")
OPTIONAL = ("confidence", "max_runs", "build_cost", "cached", "equal", "workers", "pending")
EXAMPLE = (
    'the file looks like {"candidates": ["a", "b", "c"], "observations": [["c", "bad"]], "good": "a", "bad": "c", '
    '"confidence": 0.95}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the file asks."""

    problem: Problem
    observations: tuple[Observation, ...]
    workers: int
    pending: tuple[str, ...]


def parse(text: str) -> Question:
    """Check the file's text and turn it into a question; UsageError names what is wrong with it."""
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the problem is not JSON: {error}", hint=EXAMPLE) from error
    if not isinstance(data, dict):
        raise UsageError(f"the problem is {KINDS[type(data)]}, not an object", hint=EXAMPLE)
    missing = [key for key in REQUIRED if key not in data]
    unknown = [key for key in data if key not in REQUIRED + OPTIONAL]
    if missing or unknown:
        raise UsageError(
            f"the problem lacks {missing}" if missing else f"the problem has unknown keys {unknown}", hint=EXAMPLE
        )
    candidates = _names(data["candidates"], "candidates")
    _known((data["good"], data["bad"]), candidates, "endpoint")
    if len(set(candidates)) != len(candidates):
        twice = sorted({name for name in candidates if candidates.count(name) > 1})
        raise UsageError(f"candidates given twice: {twice}", hint="name each candidate once, oldest first")
    if "none" in candidates:
        raise UsageError("a candidate is named 'none'", hint="the posterior says none for no change at all: rename it")
    if data["good"] == data["bad"]:
        raise UsageError(f"good and bad are the same candidate {data['good']!r}", hint="a search needs two endpoints")
    return Question(
        problem=_problem(data, candidates),
        observations=_observations(_list(data["observations"], "observations"), candidates),
        workers=num_workers(data.get("workers", 1), "workers"),
        pending=_known(_names(data.get("pending", []), "pending"), candidates, "pending candidate"),
    )


def num_workers(value: object, what: str) -> int:
    """How many probes to ask for; UsageError, which calls the value `what`, where it is no such number."""
    if _positive(value, what) > MAX_WORKERS:
        raise UsageError(f"{what} is above {MAX_WORKERS}", hint="ask for fewer probes at once, and again as they end")
    return _positive(value, what)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys are there once: of two lists of observations the first would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = sorted({key for key, _ in pairs if [other for other, _ in pairs].count(key) > 1})
        raise UsageError(f"the problem has keys given twice: {twice}", hint="give each key once")
    return found


def _problem(data: Mapping[str, object], candidates: tuple[str, ...]) -> Problem:
    equal = [_names(group, "equal") for group in _list(data.get("equal", []), "equal")]
    for group in equal:
        _known(group, candidates, "equal candidate")
    return Problem(
        candidates=candidates,
        good=str(data["good"]),
        bad=str(data["bad"]),
        confidence=_number(data.get("confidence", 0.95), "confidence", low=0.5, high=1.0),
        max_runs=_positive(data.get("max_runs", sys.maxsize), "max_runs"),
        build_cost=_number(data.get("build_cost", 10.0), "build_cost", low=-1e-9, high=float("inf")),
        cached=frozenset(_known(_names(data.get("cached", []), "cached"), candidates, "cached candidate")),
        equal=tuple(equal),
    )


def _observations(entries: list[object], candidates: tuple[str, ...]) -> tuple[Observation, ...]:
    observations = tuple(_observation(entry, candidates) for entry in entries)
    told = [seen for seen in observations if seen.conclusion is not Conclusion.SKIP]
    if len({seen.value is None for seen in told}) > 1:
        raise UsageError(
            "some observations are verdicts and some are throughput ratios", hint="ask one question at a time"
        )
    return observations


def _observation(entry: object, candidates: tuple[str, ...]) -> Observation:
    match entry:
        case [str() as candidate, str() as word] if word in WORDS:
            _known((candidate,), candidates, "observed candidate")
            return Observation(candidate=candidate, conclusion=WORDS[word])
        case [str() as candidate, int() | float() as ratio] if not isinstance(ratio, bool):
            _known((candidate,), candidates, "observed candidate")
            value = math.log(_number(ratio, f"throughput ratio of {candidate!r}", low=1e-6, high=1e6))
            return Observation(candidate=candidate, conclusion=Conclusion.GOOD, value=value)
        case [str() as candidate, word]:
            raise UsageError(
                f"observation of {candidate!r} says {word!r}",
                hint=f"a verdict is one of {', '.join(WORDS)}, or the throughput as a fraction of the good endpoint's",
            )
        case _:
            raise UsageError(f"not an observation: {entry!r}", hint='an observation is ["candidate", "good"]')


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise UsageError(f"{what} is {KINDS[type(value)]}, not a list", hint=EXAMPLE)
    return value


def _names(value: object, what: str) -> tuple[str, ...]:
    names = _list(value, what)
    wrong = [name for name in names if not is_name(name)]
    if wrong:
        raise UsageError(
            f"{what} has {wrong[0]!r}, which is no name",
            hint="candidates are non-empty strings without control characters or others that no terminal shows",
        )
    return tuple(str(name) for name in names)


def _known(names: tuple[object, ...], candidates: tuple[str, ...], what: str) -> tuple[str, ...]:
    for name in names:
        if name not in candidates:
            raise UsageError(
                f"{what} {name!r} is not among the {len(candidates)} candidates", hint="spell it as in candidates"
            )
    return tuple(str(name) for name in names)


def _positive(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{what} is {value!r}", hint=f"{what} is a whole number, 1 or more")
    return value


def _number(value: object, what: str, *, low: float, high: float) -> float:
    if not is_number(value) or not low < value < high:
        raise UsageError(f"{what} is {value!r}", hint=f"{what} is a number between {max(low, 0.0):g} and {high:g}")
    return float(value)
