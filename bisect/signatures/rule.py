"""What a signature is: a pattern for one cleaned log line, the outcome it proves, and where that is known from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ..model import Outcome

if TYPE_CHECKING:
    from ..model import Conclusion


NO_DIGITS = {ord(digit): None for digit in "0123456789"}


class Role(IntEnum):
    """How a line relates to the end of its run; a smaller failure role explains a larger one.

    CAUSE explains itself. WRAPPER reports another error that may stand beside it. SYMPTOM is what others see of a
    failure elsewhere (a watchdog). ENDING says only how the process died. GENERIC is an exception that no signature
    names. EXIT is an end from outside, known by the exit code alone. NOTICE did not stop the run but decides what the
    run is worth. REMARK is kept as a secondary and decides nothing.
    """

    CAUSE = 0
    WRAPPER = 1
    SYMPTOM = 2
    ENDING = 3
    GENERIC = 4
    EXIT = 5
    NOTICE = 6
    REMARK = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One line of the table.

    Attributes:
        outcome: what a match proves.
        pattern: searched in a cleaned line (no colours, no time stamps, no rank prefix), ignoring case.
        anchors: lower-case literals, one of which is in every line that the pattern can match; they make scanning cheap.
        shape_anchors: the same without digits, for a line without its digits.
        source: the public report, manual or source file that shows the wording.
        example: a line that must match, and for which no earlier line of the table does.
        role: see `Role`.
        detail: the kind of event in one word, or a template over the pattern's named groups.
        advice: what to do, where the outcome's own advice is not specific enough.
        conclusion: what a search for something else concludes, where it differs from the outcome's own.
        unless: a pattern that, found in the same line, vetoes the match.
        unless_after: a pattern that vetoes the match from one of the next lines (an autotuner that goes on).
        in_source: whether a source line quoted by a traceback proves it (an assert without a message).
    """

    outcome: Outcome
    pattern: re.Pattern[str]
    anchors: tuple[str, ...]
    shape_anchors: tuple[str, ...]
    source: str
    example: str
    role: Role = Role.CAUSE
    detail: str = ""
    advice: str = ""
    conclusion: Conclusion | None = None
    unless: re.Pattern[str] | None = None
    unless_after: re.Pattern[str] | None = None
    in_source: bool = False

    def search(self, text: str, lowered: str) -> re.Match[str] | None:
        """The match in a line, given with its lower-case form; None when absent or vetoed."""
        if not any(anchor in lowered for anchor in self.anchors):
            return None
        match = self.pattern.search(text)
        if match is not None and self.unless is not None and self.unless.search(text):
            return None
        return match


def rule(
    outcome: str,
    pattern: str,
    anchors: str,
    *,
    source: str,
    example: str,
    role: Role = Role.CAUSE,
    detail: str = "",
    advice: str = "",
    conclusion: Conclusion | None = None,
    unless: str = "",
    unless_after: str = "",
    in_source: bool = False,
) -> Signature:
    """Write one row: `outcome` in its spelled form, `anchors` joined by `|`."""
    return Signature(
        outcome=Outcome.parse(outcome),
        pattern=re.compile(pattern, re.IGNORECASE),
        anchors=tuple(anchors.split("|")),
        shape_anchors=tuple(dict.fromkeys(anchor.translate(NO_DIGITS) for anchor in anchors.split("|"))),
        source=source,
        example=example,
        role=role,
        detail=detail,
        advice=advice,
        conclusion=conclusion,
        unless=re.compile(unless, re.IGNORECASE) if unless else None,
        unless_after=re.compile(unless_after, re.IGNORECASE) if unless_after else None,
        in_source=in_source,
    )
