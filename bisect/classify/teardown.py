"""Kills that a launcher did itself: when one rank has failed it ends the others, and how they end explains nothing.

torchrun lists them under `Failures:` and names the first under `Root Cause`; srun says which task exited with a code
before it cancels the step. Under a shell a kill that follows a failure is one too, or comes of what was left running.
A lost connection is no such failure: it is how the other ranks see that one of them was killed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..signatures import Role
from ..signatures.advice import PRESUMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.findings import Finding
    from ..logs.text import Line

FROM_OUTSIDE = PRESUMED | {"step_cancelled"}
NEVER = 10**12
_OTHERS = re.compile(r"(?:Other )?Failures:$")
_FIRST = re.compile(r"Root Cause\b|[=*]{8,}$")
_NAMED_FIRST = re.compile(r"\bfailed \(exit ?code|^exit ?code\s*:|^traceback : Signal")
_EXITED = re.compile(r"\btasks? [\d,-]+: Exited with exit code (?!0\b|137\b|143\b)\d")
_LOST_CONNECTION = re.compile(
    r"connection (?:was )?(?:closed|reset|refused|lost)|broken pipe|closed by peer", re.IGNORECASE
)


def without_teardown(findings: Sequence[Finding], lines: Sequence[Line]) -> tuple[Finding, ...]:
    """The findings of a log, without the ends of ranks that a launcher says it ended after the first failure."""
    others = _named_after_the_first(lines)
    exited = next((line.number for line in lines if _EXITED.search(line.text)), NEVER)
    return tuple(
        finding
        for finding in findings
        if finding.detail not in FROM_OUTSIDE or (finding.position not in others and finding.position < exited)
    )


def after_failures(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings in their final form; a kill that stands after a failure explains less than that does."""
    failed = min((finding.position for finding in findings if _is_a_failure(finding)), default=NEVER)
    return tuple(
        replace(finding, role=Role.EXIT)
        if finding.detail in FROM_OUTSIDE and failed < finding.position and not _NAMED_FIRST.search(finding.text)
        else finding
        for finding in findings
    )


def _is_a_failure(finding: Finding) -> bool:
    able = finding.role <= Role.GENERIC and finding.detail not in FROM_OUTSIDE
    return able and _LOST_CONNECTION.search(finding.text) is None


def _named_after_the_first(lines: Sequence[Line]) -> frozenset[int]:
    """Lines of torchrun's list of the failures that it does not call the root cause."""
    numbers, inside = [], False
    for line in lines:
        if _OTHERS.match(line.text):
            inside = True
        elif _FIRST.match(line.text):
            inside = False
        elif inside:
            numbers.append(line.number)
    return frozenset(numbers)
