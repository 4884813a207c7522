"""What a search found, from its journal: the verdict in a sentence, the exit code, and what must be known beside it.

Pure: takes the journal's entries and the step the search ended with. Nothing here was not in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from envs.errors import CannotBuildError, CannotRunError

from .model import (
    Conclusion,
    Contradiction,
    Exhausted,
    Found,
    Narrowed,
    NoRegression,
    Probe,
    Step,
)
from .probability import percent
from .report_rows import good_for_one_thing_only, same_code
from .state import commit_in, observation_of

if TYPE_CHECKING:
    from .journal import Contents
    from .lineup import Lineup
    from .nodes import FaultyNode, NodeDependence
    from .report_rows import Row

SCHEMA = 1
EXIT_CODES = {"found": 0, "narrowed": 4, "exhausted": 4, "no-regression": 3, "contradiction": 3, "unfinished": 130}
PROOF_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything the answer says, in any form.

    Attributes:
        kind: the command that searched.
        hunted: what was searched for, in words of the command line.
        step: what the search ended with.
        rows: every candidate, oldest first.
        excluded: builds that never became candidates, with the reason.
        proof: log lines of a bad run of the first bad candidate.
        reproduce: commands that repeat the search and its two neighbours.
        journal: path of the journal.
        commits: commits of the range that touch what matters, newest first (with `--torch-repo`).
        lock_diff: how the environments of the two neighbours differ beside torch.
        faulty: nodes that failed everything; what they ran counts for nothing.
        dependent: candidates that fail on one node only.
        certain: whether the probe was taken at its word, one run settling a build: then `step.confidence` is 1, and
            holds as long as that does.
        line: the line-up that the step was decided on.
        refusal: of an unfinished search, why one of its ends could not be built.
        go_on: of an unfinished search, the command that goes on with it.
    """

    kind: str
    hunted: str
    step: Step
    rows: tuple[Row, ...]
    excluded: tuple[tuple[str, str], ...]
    proof: tuple[str, ...]
    reproduce: tuple[str, ...]
    journal: str
    commits: tuple[str, ...] = ()
    lock_diff: tuple[str, ...] = ()
    faulty: tuple[FaultyNode, ...] = ()
    dependent: tuple[NodeDependence, ...] = ()
    certain: bool = False
    line: Lineup | None = None
    refusal: str = ""
    go_on: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know beside the verdict."""
        nodes = (str(item) for item in (*self.faulty, *self.dependent))
        rows = (*good_for_one_thing_only(self.rows, self.hunted), *same_code(self.rows, self.line))
        every = (*getattr(self.step, "notes", ()), *rows, *nodes)
        return tuple(dict.fromkeys(every))

    @property
    def runs(self) -> int:
        """Runs that were made, builds that failed not counted."""
        return sum(row.good + row.bad for row in self.rows)

    @property
    def neighbours(self) -> tuple[Row | None, Row | None]:
        """The last good and the first bad candidate; None where there is no such claim."""
        if not isinstance(self.step, Found | Narrowed):
            return None, None
        by_name = {row.name: row for row in self.rows}
        return by_name.get(self.step.last_good), by_name.get(self.step.first_bad)

    @property
    def in_time_order(self) -> tuple[Row | None, Row | None]:
        """The two neighbours, the older one first."""
        last_good, first_bad = self.neighbours
        return (first_bad, last_good) if getattr(self.step, "direction", "") == "fix" else (last_good, first_bad)


def proof_of(contents: Contents, step: Step) -> tuple[str, ...]:
    """Log lines of a bad run: of the first bad candidate, else of any."""
    wanted = step.first_bad if isinstance(step, Found | Narrowed) else ""
    bad = [entry for entry in contents.of("observed") if entry["conclusion"] == Conclusion.BAD]
    bad.sort(key=lambda entry: entry["candidate"] != wanted)
    for entry in bad:
        if entry.get("evidence"):
            run = observation_of(entry).run
            return tuple(f"{entry['candidate']} {run}: {line}" for line in entry["evidence"][:PROOF_LINES])
    return ()


def verdict_name(step: Step) -> str:
    """The word in the JSON: found narrowed no-regression contradiction exhausted, or unfinished."""
    match step:
        case Found():
            return "found"
        case Narrowed():
            return "narrowed"
        case NoRegression():
            return "no-regression"
        case Contradiction():
            return "contradiction"
        case Exhausted():
            return "exhausted"
        case Probe():
            return "unfinished"
        case _:
            assert_never(step)


def exit_code(verdict: str, contents: Contents) -> int:
    """What a search of any kind exited with: 5 for an end that cannot be built, 6 where a run told it to stop."""
    if contents.refusal:
        return CannotBuildError.exit_code
    last = contents.entries[-1] if contents.entries else {}
    if last.get("conclusion") == Conclusion.ABORT:
        return CannotRunError.exit_code
    return EXIT_CODES[verdict]


def sentence(report: Report) -> str:
    """The verdict in one sentence, or two."""
    paired = any(row.values for row in report.rows)
    step, runs = report.step, f"{report.runs} {'pairs of runs' if paired else 'runs'}"
    match step:
        case Found():
            word = "fixed" if step.direction == "fix" else "regression"
            text = f"{word}: {_ends(step)} ({report.hunted}; {_how_sure(report, step, runs)})"
        case Narrowed():
            text = (
                f"narrowed: {_ends(step)}; the change is in one of {', '.join(step.suspects)} "
                f"({report.hunted}; {_how_sure(report, step, runs)}): {step.reason}"
            )
        case NoRegression() if report.certain:
            text = f"no regression in the range ({report.hunted}; {_how_sure(report, step, runs)}): {step.reason}"
        case NoRegression():
            text = f"no regression in the range ({report.hunted}; {runs}): {step.reason}"
            if 0.0 < step.allowed_rate < 1.0:
                allowed = "pairs still allow a loss of" if paired else "clean runs still allow a failure rate of"
                text += f"; the {allowed} {percent(step.allowed_rate)}"
        case Contradiction():
            where = f" at {step.endpoint}" if step.endpoint else ""
            text = f"contradiction{where} ({report.hunted}; {runs}): {step.reason}"
        case Exhausted():
            text = (
                f"inconclusive: {step.reason} ({report.hunted}; {_how_sure(report, step, runs)}); "
                f"suspects: {_some(step.suspects)}"
            )
        case Probe():
            told = report.refusal or f"next is {step.candidate}"
            text = f"unfinished: {told} ({report.hunted}; {runs} so far)"
        case _:
            assert_never(step)
    return text


def _how_sure(report: Report, step: Found | Narrowed | NoRegression | Exhausted, runs: str) -> str:
    if report.certain:
        return f"{runs}, each settles its build as long as the probe always answers the same"
    return f"{percent(step.confidence)} sure after {runs}"


def _ends(step: Found | Narrowed) -> str:
    if step.direction == "fix":
        return f"last bad {step.first_bad}, first good {step.last_good}"
    return f"last good {step.last_good}, first bad {step.first_bad}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:4])}, ... ({len(names)} in all)"


def git_range(report: Report) -> str | None:
    """`old..new` of the two neighbours' commits in time order, or None where one is unknown or both are one."""
    commits = [commit_in(row.facts) if row else "" for row in report.in_time_order]
    if not all(commits) or commits[0] == commits[1]:
        return None
    return f"{commits[0]}..{commits[1]}"


def end_labels(step: Step) -> tuple[str, str]:
    """What the good and the bad neighbour are called: in a fix, the first good and the last bad."""
    return ("first good", "last bad") if getattr(step, "direction", "") == "fix" else ("last good", "first bad")


def outcomes_text(row: Row) -> str:
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in row.outcomes)
