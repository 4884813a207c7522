"""`python -m bisect next`: one step of a search whose runs somebody else makes.

Reads the problem and the observations from a JSON file, prints the next probe or the verdict. Everything the file
may hold is checked here, by name, before the engine sees it. An observation is `["id", "bad"]`, or for a loss of
throughput `["id", 0.953]`: the candidate's as a fraction of the good endpoint's, from two runs one after the other.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, assert_never

from envs.errors import UsageError

from .. import throughput
from ..engine import next_step
from ..model import (
    Conclusion,
    Contradiction,
    Exhausted,
    Found,
    Narrowed,
    NoRegression,
    Observation,
    Probe,
    Problem,
)
from ..shapes import is_name, is_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ..model import Step

MAX_WORKERS = 1000
_WORDS = {word.value: word for word in (Conclusion.GOOD, Conclusion.BAD, Conclusion.SKIP)}
_REQUIRED = ("candidates", "observations", "good", "bad")
_OPTIONAL = ("confidence", "max_runs", "build_cost", "cached", "equal", "workers", "pending")
_EXAMPLE = (
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `next`."""
    parser.add_argument("--problem", required=True, metavar="FILE", help="the problem as JSON; - for stdin")
    parser.add_argument("--workers", type=int, metavar="N", help="ask for N probes at once (default: 1, or the file's)")
    parser.add_argument("--json", action="store_true", help="print the step as JSON")
    parser.epilog = (
        'FILE is like {"candidates": ["a", "b", "c"], "good": "a", "bad": "c", "observations": [["c", "bad"]]}; '
        "example: python -m bisect next --problem search.json --json"
    )


def run(args: argparse.Namespace, *, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001  (one shape for all commands)
    """Print the next step; 3 when an endpoint contradicts the claim, 4 when the search ended unsettled."""
    question = parse(_read(args.problem))
    workers = question.workers if args.workers is None else _workers(args.workers, "--workers")
    decide = throughput.next_step if any(seen.value is not None for seen in question.observations) else next_step
    step = decide(question.problem, question.observations, workers=workers, pending=question.pending)
    print(json.dumps(as_json(step), indent=2) if args.json else as_text(step), file=stdout)
    return exit_code(step)


def _read(name: str) -> str:
    try:
        return sys.stdin.read().removeprefix("\ufeff") if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError, AttributeError) as error:  # a closed stdin is None
        raise UsageError(f"cannot read the problem {name}: {error}", hint=_EXAMPLE) from error


def parse(text: str) -> Question:
    """Check the file's text and turn it into a question; UsageError names what is wrong with it."""
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the problem is not JSON: {error}", hint=_EXAMPLE) from error
    if not isinstance(data, dict):
        raise UsageError(f"the problem is a {type(data).__name__}, not an object", hint=_EXAMPLE)
    missing = [key for key in _REQUIRED if key not in data]
    unknown = [key for key in data if key not in _REQUIRED + _OPTIONAL]
    if missing or unknown:
        raise UsageError(
            f"the problem lacks {missing}" if missing else f"the problem has unknown keys {unknown}", hint=_EXAMPLE
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
        workers=_workers(data.get("workers", 1), "workers"),
        pending=_known(_names(data.get("pending", []), "pending"), candidates, "pending candidate"),
    )


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
        case [str() as candidate, str() as word] if word in _WORDS:
            _known((candidate,), candidates, "observed candidate")
            return Observation(candidate=candidate, conclusion=_WORDS[word])
        case [str() as candidate, int() | float() as ratio] if not isinstance(ratio, bool):
            _known((candidate,), candidates, "observed candidate")
            value = math.log(_number(ratio, f"throughput ratio of {candidate!r}", low=1e-6, high=1e6))
            return Observation(candidate=candidate, conclusion=Conclusion.GOOD, value=value)
        case [str() as candidate, word]:
            raise UsageError(
                f"observation of {candidate!r} says {word!r}",
                hint=f"a verdict is one of {', '.join(_WORDS)}, or the throughput as a fraction of the good endpoint's",
            )
        case _:
            raise UsageError(f"not an observation: {entry!r}", hint='an observation is ["candidate", "good"]')


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise UsageError(f"{what} is a {type(value).__name__}, not a list", hint=_EXAMPLE)
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


def _workers(value: object, what: str) -> int:
    if _positive(value, what) > MAX_WORKERS:
        raise UsageError(f"{what} is above {MAX_WORKERS}", hint="ask for fewer probes at once, and again as they end")
    return _positive(value, what)


def _number(value: object, what: str, *, low: float, high: float) -> float:
    if not is_number(value) or not low < value < high:
        raise UsageError(f"{what} is {value!r}", hint=f"{what} is a number between {max(low, 0.0):g} and {high:g}")
    return float(value)


def exit_code(step: Step) -> int:
    """0 go on or found, 3 an endpoint is not what was claimed, 4 narrowed or ended without an answer."""
    match step:
        case Probe() | Found():
            return 0
        case NoRegression() | Contradiction():
            return 3
        case Narrowed() | Exhausted():
            return 4
        case _:
            assert_never(step)


def as_json(step: Step) -> dict[str, object]:
    """The step as the promised JSON object."""
    posterior = {**dict(step.posterior.by_candidate), "none": step.posterior.none}
    match step:
        case Probe():
            body: dict[str, object] = {
                "step": "probe",
                "candidate": step.candidate,
                "also": list(step.also),
                "reason": step.reason,
            }
        case Found():
            body = {"step": "found", **_neighbours(step), "suspects": [_changed(step)], "notes": list(step.notes)}
        case Narrowed():
            body = {
                "step": "narrowed",
                **_neighbours(step),
                "suspects": list(step.suspects),
                "reason": step.reason,
                "notes": list(step.notes),
            }
        case NoRegression():
            body = {
                "step": "no-regression",
                "confidence": step.confidence,
                "allowed_rate": step.allowed_rate,
                "reason": step.reason,
                **_NOTHING,
            }
        case Contradiction():
            body = {"step": "contradiction", "endpoint": step.endpoint, "reason": step.reason, **_NOTHING}
        case Exhausted():
            body = {
                "step": "exhausted",
                **_NOTHING,
                "confidence": step.confidence,
                "reason": step.reason,
                "suspects": list(step.suspects),
            }
        case _:
            assert_never(step)
    return {**body, "posterior": posterior}


_NOTHING: dict[str, object] = {"last_good": None, "first_bad": None, "suspects": []}


def _neighbours(step: Found | Narrowed) -> dict[str, object]:
    return {
        "last_good": step.last_good,
        "first_bad": step.first_bad,
        "direction": step.direction,
        "confidence": step.confidence,
    }


def _changed(step: Found) -> str:
    """The candidate that brought the change: the first bad one, or the first good one of a fix."""
    return step.first_bad if step.direction == "regression" else step.last_good


def as_text(step: Step) -> str:
    """The step for a person."""
    match step:
        case Probe():
            return "\n".join(f"probe {name}" for name in (step.candidate, *step.also)) + f"\n({step.reason})"
        case Found():
            return "\n".join([f"found: {_sentence(step)}", *step.notes])
        case Narrowed():
            return "\n".join(
                [f"narrowed: {_sentence(step)}", f"suspects: {' '.join(step.suspects)}", step.reason, *step.notes]
            )
        case NoRegression():
            return f"no regression: {step.reason}; a failure rate up to {step.allowed_rate:.3f} remains possible"
        case Contradiction():
            return f"contradiction: {step.reason}"
        case Exhausted():
            return f"exhausted: {step.reason}\nsuspects ({step.confidence:.3f}): {' '.join(step.suspects)}"
        case _:
            assert_never(step)


def _sentence(step: Found | Narrowed) -> str:
    sure = f"confidence {step.confidence:.3f}"
    if step.direction == "fix":
        return f"fixed: last bad {step.first_bad}, first good {step.last_good}, {sure}"
    return f"last good {step.last_good}, first bad {step.first_bad}, {sure}"
