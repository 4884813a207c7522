"""What is shown of a log to a person: a finding with its line, the last step, the last words: short, no secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..model import OutcomeName
from ..signatures import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.facts import LogFacts
    from ..logs.findings import Finding
    from ..logs.text import Line

MAX_SHOWN = 300

_SECRET = re.compile(
    r"(?<=://)[^/@\s]+@|\bhf_\w{8,}|(?<=[Bb]earer )\S+|(?i:(?<=token=)|(?<=password=)|(?<=api_key=))\S+"
)


def shown(finding: Finding) -> str:
    """The line that proves it, with its number where it stands in a log."""
    text = _presentable(finding.text)
    return f"line {finding.line}: {text}" if finding.line else text


def _presentable(text: str) -> str:
    """Without secrets, and of a length to read."""
    text = _SECRET.sub("***", text.strip())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3].rstrip(' .')}..."


def last_sign_of_life(root: Finding, facts: LogFacts) -> tuple[str, ...]:
    """The last step before a hang or an unexplained end: a deadline counts from there, not from the start."""
    if not facts.last_step or root.role < Role.SYMPTOM or root.role > Role.EXIT:
        return ()
    return (f"line {facts.last_step}: last sign of life: {_presentable(facts.last_step_text)}",)


def last_words(name: OutcomeName, lines: Sequence[Line]) -> tuple[str, ...]:
    """The end of a log that nothing explains, for a person to look at."""
    if name is not OutcomeName.UNKNOWN:
        return ()
    spoken = [line for line in lines if line.text.strip("\ufffd ")][-3:]
    return tuple(f"line {line.number}: {_presentable(line.text)}" for line in spoken)
