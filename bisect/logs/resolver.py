"""A resolver's explanation is a paragraph folded over lines: read whole, it says whether a version is missing or two pins fight.

A version that was asked for directly and is not there is `not_published`; one that another package asked for, or two
requirements that exclude each other, is `resolution_conflict`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import Outcome, OutcomeName
from ..signatures import Role
from .findings import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .text import Line

RESOLVER_OUTCOMES = frozenset({OutcomeName.NOT_PUBLISHED, OutcomeName.RESOLUTION_CONFLICT})
_UV_START = re.compile(r"No solution found when resolving", re.IGNORECASE)
_PIP_START = re.compile(
    r"Could not find a version that satisfies|No matching distribution found|conflicting dependencies|ResolutionImpossible",
    re.IGNORECASE,
)
_END = re.compile(r"^\s*(?:hint\b|error\b|warning\b|\$|\+)", re.IGNORECASE)
_ASKED_BY_ANOTHER = re.compile(
    r"depends? on|\(from (?!versions)|ResolutionImpossible|conflicting dependencies|requested .{1,80} \d", re.IGNORECASE
)
_MISSING = re.compile(
    r"there (?:is|are) no versions? of|Could not find a version|No matching distribution|was not found in the package registry|only .{1,80} (?:is|are) available"
    r"|no wheels? (?:are available )?with a matching|not found in the",
    re.IGNORECASE,
)
_FOLD = re.compile(r"^[\s|`>╰─▶│└├\u00d7x-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The lines of one explanation and what it amounts to."""

    first: int
    last: int
    finding: Finding


def explanations(lines: Sequence[Line]) -> tuple[Explanation, ...]:
    """Every resolver failure of a log."""
    found: list[Explanation] = []
    index = 0
    while index < len(lines):
        text = lines[index].text
        if _UV_START.search(text):
            found.append(_explain(lines, index, _paragraph_end(lines, index)))
        elif _PIP_START.search(text) and "pip's dependency resolver does not" not in text:
            found.append(_explain(lines, index, min(index + 3, len(lines))))
        index = max(index, found[-1].last if found else 0) + 1
    return tuple(found)


def _paragraph_end(lines: Sequence[Line], start: int) -> int:
    for index in range(start + 1, min(start + 60, len(lines))):
        if not lines[index].text.strip() or _END.match(_FOLD.sub("", lines[index].text)):
            return index
    return min(start + 60, len(lines))


def _explain(lines: Sequence[Line], first: int, end: int) -> Explanation:
    text = " ".join(_FOLD.sub("", line.text) for line in lines[first:end])
    missing = bool(_MISSING.search(text)) and not _ASKED_BY_ANOTHER.search(text)
    name = OutcomeName.NOT_PUBLISHED if missing else OutcomeName.RESOLUTION_CONFLICT
    finding = Finding(
        outcome=Outcome(name=name),
        role=Role.WRAPPER,
        position=lines[first].number,
        line=lines[first].number,
        text=text,
        detail="resolver",
    )
    return Explanation(first=first, last=end - 1, finding=finding)
