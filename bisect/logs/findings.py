"""What a log shows, line by line: every match of the signature table, every loss that is no number, every traceback.

Judges nothing: which finding is the cause of which is for `classify`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..model import Outcome, OutcomeName
from ..signatures import Role, Signature, first_match
from .losses import LossReader
from .passages import quoted_lines
from .quoting import Speech, speech
from .text import OVERLAP
from .tracebacks import Traceback, tracebacks
from .workers import named_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Conclusion
    from .text import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One piece of evidence.

    Attributes:
        outcome: what it proves.
        role: see `signatures.Role`.
        position: order in the run (a line number, or a step); smaller is earlier.
        line: the line number where it stands in a log; 0 for what a result file, a variable or an exit code says.
        text: the line that proves it, as shown to a person.
        detail: the kind of event in a word.
        advice: what to do, where it is more specific than the outcome's own advice.
        conclusion: what another question concludes, where the signature says so.
        thread: the thread it happened in, where known.
        worker: the worker that the line is of or names.
        told: it stands behind words, as in a sentence.
        alone: nothing but the line itself shows it: no traceback, and no logger that calls it a warning or an error.
        names: what the signature's named groups caught.
        frames: source files of the traceback it ended, outermost first.
    """

    outcome: Outcome
    role: Role
    position: int
    text: str
    line: int = 0
    detail: str = ""
    advice: str = ""
    conclusion: Conclusion | None = None
    thread: str = ""
    worker: str = ""
    told: bool = False
    alone: bool = False
    names: tuple[tuple[str, str], ...] = ()
    frames: tuple[str, ...] = ()


TOLD_OR_HAPPENED = "told_or_happened"
"""The kind of an open question that a line leaves which names a failure."""
_USER_SITE = re.compile(r"/\.local/lib/python3[\d.]*/site-packages/")
_ENVIRONMENT = re.compile(r"/(?:site|dist)-packages/|/bin/\w+$")
_COMMAND_RUN = re.compile(
    r"[+$]+ (?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|uv|exec|env|docker|podman)\s"
)
"""A command that a shell tells it runs: its options are settings of the run."""
_UNFUSED = re.compile(r"torch/_higher_order_ops/flex_attention\.py\Z")
_INFORMATION = re.compile(r".{0,60}\b(?:INFO|DEBUG|TRACE)\b")
_RAISED_BEFORE = re.compile(r"(?:[\w.]+(?:Error|Exception|Warning))?\W*\Z")
_WORD = re.compile(r"\b[A-Za-z]{2,}\b")
WORDS_OF_A_SENTENCE = 3
_RAISED = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")
_NEVER_AT_INFO = frozenset(
    {
        OutcomeName.IMPORT_BROKEN, OutcomeName.DOWNLOAD_FAILED, OutcomeName.HANG, OutcomeName.HARNESS_ERROR,
        OutcomeName.INCONSISTENT_ENV, OutcomeName.LIBRARY_MIX, OutcomeName.NUMERIC_MISMATCH, OutcomeName.TOOL_TOO_OLD,
        OutcomeName.BUILD_FAILED, OutcomeName.HARDWARE_FAULT, OutcomeName.DISK_FULL, OutcomeName.DRIVER_TOO_OLD,
    }
)  # fmt: skip
"""What a line that its logger calls information does not prove, unless it names an exception."""
_LIBRARY_PARTS = ("site-packages", "dist-packages", "torch/", "triton/", "/lib/python")
_IN_SIGHT = 200
"""Characters of a line before a match that a reader is shown."""


def log_findings(lines: Sequence[Line]) -> tuple[Finding, ...]:
    """Everything the table recognises in a log, in the log's order; once where the pieces of a long line overlap."""
    blocks = tracebacks(lines)
    source_lines = {index for block in blocks for index in block.body}
    block_of = {block.last: block for block in blocks if block.head}
    quoted = quoted_lines(lines)
    losses = LossReader()
    found: list[Finding] = []
    for index, line in enumerate(lines):
        if index in quoted:
            continue
        block = block_of.get(index)
        finding = _match(line, lines[index + 1 : index + 4], in_source=index in source_lines, block=block)
        if finding is not None:
            if not _is_again(finding, found, line):
                found.append(finding)
        elif block is not None and not block.ignored and _is_nameless(line.text):
            found.append(_unknown_exception(line, block))
        elif losses.read(line.text):
            found.append(_not_a_number(line))
    return tuple(found)


def isolation_findings(lines: Sequence[Line]) -> tuple[Finding, ...]:
    """A traceback that runs through the user's own packages and through another environment's as well."""
    for block in tracebacks(lines):
        users = [frame for frame in block.frames if _USER_SITE.search(frame)]
        others = [frame for frame in block.frames if _ENVIRONMENT.search(frame) and not _USER_SITE.search(frame)]
        if users and others:
            number = lines[block.first].number
            text = f"the traceback runs through {users[0]} and {others[0]}"
            outcome = Outcome(name=OutcomeName.ENV_NOT_ISOLATED)
            return (
                Finding(outcome=outcome, role=Role.REMARK, position=number, line=number, text=text, detail="user_site"),
            )
    return ()


def dense_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Attention that ran dense, where memory ran out in the function that only the unfused one calls."""
    return tuple(
        replace(finding, outcome=Outcome(name=OutcomeName.DENSE_FALLBACK), role=Role.NOTICE, detail="stack", advice="")
        for finding in findings
        if finding.outcome.name is OutcomeName.OUT_OF_MEMORY and finding.frames and _UNFUSED.search(finding.frames[-1])
    )


def _match(line: Line, following: Sequence[Line], *, in_source: bool, block: Traceback | None) -> Finding | None:
    text = line.text
    match = first_match(text)
    if match is None and line.label:  # "[drafter-1] terminated unexpectedly" says who only in its prefix
        text = f"{line.label} {text}"
        match = first_match(text)
    if match is None:
        return None
    signature, (start, end), names = match
    if (in_source and not signature.in_source) or (block is not None and signature.role is Role.GENERIC):
        return None
    sure = signature.in_source or (signature.detail == "said_disabled" and _COMMAND_RUN.match(text))
    told = Speech.REPORTED if sure else speech(text, start, end)
    if told is Speech.SPOKEN_ABOUT or _is_vetoed(signature, line, following):
        return None
    if told is Speech.OPEN:
        return _open_question(line, _around(text, start))
    found = _finding(line, signature, _around(text, start), names, block)
    return replace(found, told=block is None and _stands_in_a_sentence(text[:start]))


def _stands_in_a_sentence(before: str) -> bool:
    """Whether more stands before an error text than a launcher, a logger or an exception puts there."""
    return len(_WORD.findall(_RAISED_BEFORE.sub("", before))) >= WORDS_OF_A_SENTENCE


def _is_vetoed(signature: Signature, line: Line, following: Sequence[Line]) -> bool:
    if signature.outcome.name in _NEVER_AT_INFO and _INFORMATION.match(line.text) and not _RAISED.search(line.text):
        return True
    veto = signature.unless_after
    return veto is not None and any(veto.search(after.text) for after in following)


def _is_nameless(head: str) -> bool:
    match = first_match(head)
    return match is None or match[0].role is Role.GENERIC


def _is_again(finding: Finding, found: Sequence[Finding], line: Line) -> bool:
    last = found[-1] if found else None
    return (
        last is not None and len(line.text) >= OVERLAP and (last.line, last.outcome) == (line.number, finding.outcome)
    )


def _around(text: str, start: int) -> str:
    """The line from shortly before the match, where the match would be out of sight."""
    return text if start <= _IN_SIGHT else f"...{text[start - _IN_SIGHT // 2 :]}"


def _finding(line: Line, signature: Signature, text: str, names: dict[str, str], block: Traceback | None) -> Finding:
    return Finding(
        outcome=signature.outcome,
        role=signature.role,
        position=line.number,
        line=line.number,
        text=text,
        detail=signature.detail,
        advice=signature.advice,
        conclusion=signature.conclusion,
        thread=block.thread if block else "",
        worker=named_worker(line),
        alone=block is None and not line.is_alarm,
        names=tuple(names.items()),
        frames=block.frames if block else (),
    )


def _open_question(line: Line, text: str) -> Finding:
    """A line that quotes a failure, where nothing says whether it happened in this run: no vote for either side."""
    return Finding(
        outcome=Outcome(name=OutcomeName.UNKNOWN),
        role=Role.GENERIC,
        position=line.number,
        line=line.number,
        text=text,
        detail=TOLD_OR_HAPPENED,
        advice="The line names a failure in quotation marks: look whether it happened in this run or is only spoken about.",
    )


def _unknown_exception(line: Line, block: Traceback) -> Finding:
    """An exception that the table does not know: of the run's own code, or of a library and then an open question."""
    own = bool(block.frames) and not any(part in block.frames[-1] for part in _LIBRARY_PARTS)
    name = OutcomeName.HARNESS_ERROR if own and not block.thread else OutcomeName.UNKNOWN
    return Finding(
        outcome=Outcome(name=name),
        role=Role.GENERIC,
        position=line.number,
        line=line.number,
        text=line.text,
        detail="exception",
        thread=block.thread,
        worker=named_worker(line),
        frames=block.frames,
    )


def _not_a_number(line: Line) -> Finding:
    return Finding(
        outcome=Outcome(name=OutcomeName.NAN_LOSS),
        role=Role.NOTICE,
        position=line.number,
        line=line.number,
        text=line.text,
        detail="loss_value",
    )
