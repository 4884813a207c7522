"""`python -m bisect next`: one step of a search whose runs somebody else makes.

Reads the problem and the observations from a JSON file (`problem_file`), prints the next probe or the verdict.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, assert_never

from envs.errors import UsageError

from .. import throughput
from ..engine import next_step
from ..lineup import lineup, scattered
from ..model import Contradiction, Exhausted, Found, Narrowed, NoRegression, Probe
from ..probability import percent
from ..problem_file import EXAMPLE, OPTIONAL, REQUIRED, WORDS, num_workers, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Step
    from ..problem_file import Question


EPILOG = f"""\
FILE is like
  {{"candidates": ["a", "b", "c"], "good": "a", "bad": "c", "observations": [["c", "bad"]]}}
required keys: {", ".join(REQUIRED)}
  candidates are names, oldest first; an observation is [name, verdict], the verdict one of {", ".join(WORDS)},
  or for a loss of throughput [name, 0.953]: the fraction of the good end's, from two runs one after the other
further keys: {", ".join(OPTIONAL)}
  confidence: how sure an answer must be (0.95); max_runs: observations after which the search ends (without it
  nothing limits it); build_cost: what a candidate that is not among `cached` costs beside a run (10); equal: groups
  of names that are one candidate; workers: probes asked for at once (1); pending: names whose runs are under way
exit codes: 0 a probe to make, or found; 2 the file is wrong; 3 no-regression or contradiction: an end is not what
  was claimed; 4 narrowed or exhausted
example: python -m bisect next --problem search.json --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `next`."""
    parser.add_argument("--problem", required=True, metavar="FILE", help="the problem as JSON; - for stdin")
    parser.add_argument("--workers", type=int, metavar="N", help="ask for N probes at once (default: 1, or the file's)")
    parser.add_argument("--json", action="store_true", help="print the step as JSON")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG


def run(args: argparse.Namespace, *, stdout: TextIO, stderr: TextIO) -> int:
    """Print the next step; 3 when an endpoint contradicts the claim, 4 when the search ended unsettled."""
    question = parse(_read(args.problem))
    for stretches in scattered(question.problem):
        print(f"note: {_apart(stretches)}", file=stderr)
    if ignored := _outside(question):
        print(f"note: {ignored}", file=stderr)
    workers = question.workers if args.workers is None else num_workers(args.workers, "--workers")
    decide = throughput.next_step if any(seen.value is not None for seen in question.observations) else next_step
    step = decide(question.problem, question.observations, workers=workers, pending=question.pending)
    print(json.dumps(as_json(step), indent=2) if args.json else as_text(step), file=stdout)
    return exit_code(step)


def _apart(stretches: Sequence[Sequence[str]]) -> str:
    names = " and ".join(", ".join(group) for group in stretches)
    return (
        f"{names} are equal and do not lie side by side: only neighbours are taken for one candidate, so they count "
        f"as {len(stretches)}"
    )


def _outside(question: Question) -> str:
    """What was seen of candidates that do not lie between the ends, or ''."""
    inside = {name for group in lineup(question.problem, ()).groups for name in group}
    outside = dict.fromkeys(seen.candidate for seen in question.observations if seen.candidate not in inside)
    if not outside:
        return ""
    lie = "lies" if len(outside) == 1 else "lie"
    ends = f"{question.problem.good} and {question.problem.bad}"
    return f"{', '.join(outside)} {lie} outside the ends {ends}: what was seen there is no evidence here"


def _read(name: str) -> str:
    try:
        return sys.stdin.read().removeprefix("\ufeff") if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError, AttributeError) as error:  # a closed stdin is None
        raise UsageError(f"cannot read the problem {name}: {error}", hint=EXAMPLE) from error


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
                [
                    f"narrowed: {_sentence(step)}",
                    f"suspects: {' '.join(step.suspects)}",
                    f"{step.reason}: a result for one of them narrows this further",
                    *step.notes,
                ]
            )
        case NoRegression():
            return f"no regression: {step.reason}; a failure rate up to {step.allowed_rate:.3f} remains possible"
        case Contradiction():
            return f"contradiction: {step.reason}"
        case Exhausted():
            return f"exhausted: {step.reason}\nsuspects ({percent(step.confidence)} sure): {' '.join(step.suspects)}"
        case _:
            assert_never(step)


def _sentence(step: Found | Narrowed) -> str:
    sure = f"{percent(step.confidence)} sure"
    if step.direction == "fix":
        return f"fixed: last bad {step.first_bad}, first good {step.last_good}, {sure}"
    return f"last good {step.last_good}, first bad {step.first_bad}, {sure}"
