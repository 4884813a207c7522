"""What a log says of the steps of training: which lines report one, how many different ones, whether the work was done.

The name of an option, a setting and the progress bar of a download look like steps and are none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .text import Line

LAST_LINES = 8
"""The lines at the end of a log that may hold its last word."""
MAX_DIGITS = 18
"""Digits of a count; Python refuses to read a number of thousands."""

TROUBLE = re.compile(r"error|exception|fail|warn|traceback|timeout|killed", re.IGNORECASE)
_STEP = re.compile(
    r"\b(?:global_)?(?P<unit>step|iter(?:ation)?|batch|it)(?P<plural>(?:es|s)?)\b['\"]?\s*[:=#]?\s*(?P<done>\d+)(?:\s*(?:/|of)\s*(?P<total>\d+))?"
    r"|\b(?P<bar_done>\d+)/(?P<bar_total>\d+) \[\d+:\d\d|['\"](?P<loss>loss)['\"]\s*:\s*['\"]?[\d.]+",
    re.IGNORECASE,
)
_WITH_LOSS = r"(?=.{0,80}\bloss\b\W{1,3}\d)"
_COUNTS = (
    re.compile(rf"(?<![\w./-])(?P<done>\d+)\s*/\s*(?P<total>\d+)\b(?!/){_WITH_LOSS}", re.IGNORECASE),
    re.compile(rf"\bepoch\b\D{{0,3}}(?P<done>\d+)\b(?P<total>){_WITH_LOSS}", re.IGNORECASE),
)
"""A loss beside a count of an unnamed unit, or of epochs."""
_OPTION_BEFORE = re.compile(r"(?:^|[\s\[({,|\"'`=])--?[\w-]*\Z")
_SETTING_BEFORE = re.compile(
    r"\b(?:max(?:imum)?|total|every|per|each|save|default|accumulation|(?:resum|restor|continu|start)\w*(?: training)? (?:from|at)|from|already at"
    r"|number of|num)[ _-]?\Z",
    re.IGNORECASE,
)
_SUMMARY = re.compile(r"['\"]?train_runtime\b|\bTrainOutput\(")
"""What a trainer says of all steps together when it is done."""
_LOSS = re.compile(r"loss|tok(?:en)?s?/s", re.IGNORECASE)
_NO_TRAINING_BAR = re.compile(
    r"\b(?:(?:down|up)?load|fetch|tokeni[sz]|map|filter|extract|prepar|convert|install|resolv|build|captur|generat|pack|pars|read|cach|shard"
    r"|quantiz|import|unpack|copy)\w*|\.(?:safetensors|bin|pth?|parquet|arrow|jsonl?|tar|gz|zip|whl)\b",
    re.IGNORECASE,
)
_TRAINING_BAR = re.compile(r"\b(?:epoch[ _]?\d*|train(?:ing)?)\s*:?\s*(?:\d+%\|[^|]*\|)?\s*\Z", re.IGNORECASE)
_PREPARED_BEFORE = re.compile(
    r"\b(?:pre-?process|tokeni[sz]|filter|prepar|convert|download|upload|fetch|captur|index|cach|build|install|setup|job|pipeline)\w*[ :]\Z",
    re.IGNORECASE,
)
_TOOLS_STEP = re.compile(  # TORCH_LOGS, docker build
    r"[:/]? ?(?:torch(?:dynamo|inductor)\b|(?:calling|done) compil"
    r"|\d+ : (?:FROM|RUN|CMD|COPY|ADD|ENV|ARG|LABEL|WORKDIR|EXPOSE|ENTRYPOINT|USER|VOLUME|SHELL|HEALTHCHECK)\b)"
)
_TOOLS_LINE = re.compile(rf"(?:\[[\d/_]+\] )?step \d+(?:/\d+)?{_TOOLS_STEP.pattern}", re.IGNORECASE)
_GROUP_BEFORE = re.compile(r"(?:##\[\w+\]|::group::|^#\d+ \[)\W*\Z")
_DRY_RUN = re.compile(r"\bdry[- ]run\b", re.IGNORECASE)
"""Steps of a compiler, of an image's or a pipeline's making, of preparing data, and of what is only rehearsed."""
_EPOCH = re.compile(r"\bepoch\D{0,3}(\d+)", re.IGNORECASE)

_UNFINISHED = re.compile(
    r"\b(?:not|never|before|when|until|once|to|be|un|in)(?: yet| be| \w+ is)?[ -]?(?:finish|complete|done)|(?:finish|complete)d? \d+ of|\d+% (?:done|complete)"
    r"|(?:finish(?:ed)?|completed?|done)['\"]?(?:\W{1,4}(?:false\b|not\b|no\b\W*\Z|\d{1,2}(?:\.\d+)? ?%)|\?| (?:soon|later|in about)\b)"
    r"|^# |^\W*(?:config|args|echo)\b|\bprint\(",
    re.IGNORECASE,
)
_WORK = r"(?:train(?:ing|ed)?|fine-?tun(?:ing|ed)|fit(?:ting)?|evaluation|evaluating|epochs?|steps?|iterations?|benchmark|drafters?(?:-\d+)?)"
_NO_WORK = r"(?! (?:data\w*|set\w*|config\w*|arg\w*|env\w*|files?|splits?|scripts?|samples|initiali\w*|loader))\b"
_ENDED = r"(?:finish(?:ed)?|completed?|done)\b"
_WORKED = re.compile(
    rf"\b{_WORK}{_NO_WORK}.{{0,40}}\b{_ENDED}|\b{_ENDED}.{{0,20}}\b{_WORK}{_NO_WORK}|train_runtime|\btrained (?:for )?[1-9]\d* (?:steps|epochs|iterations)"
    r"|saved (?:the )?(?:final )?(?:checkpoint|model)\b(?! config)|\bfinal (?:train(?:ing)? )?loss\W{1,3}\d",
    re.IGNORECASE,
)
_NONE_MADE = re.compile(
    r"(?<![\d.])0 (?:\w+ )?(?:steps|iterations|epochs|batches)\b|\bmax_steps['\"]?\W{1,3}0\b|dry[- ]run", re.IGNORECASE
)
_BARE_END = re.compile(rf"\W*(?:all )?{_ENDED}\W*\Z", re.IGNORECASE)
_INSTALLED = re.compile(r"^\W*(?:Successfully installed \S|Installed \d+ packages?\b|Audited \d+ packages?\b)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The report of a step: its unit, its number and how many there will be (empty where unsaid), and the line."""

    unit: str
    done: str
    total: str
    text: str


def step_in(text: str) -> Step | None:
    """The report of a step in a line; None for a line of trouble, and for what only looks like a step."""
    if TROUBLE.search(text) or _SUMMARY.search(text):
        return None
    match = next((match for match in _STEP.finditer(text) if not _is_none(text, match)), None)
    if match is not None:
        done, total = (match["bar_done"], match["bar_total"]) if match["bar_done"] else (match["done"], match["total"])
        unit = match["unit"] or match["loss"] or "bar"
        return Step(unit=unit.lower(), done=done or "", total=total or "", text=text)
    counts = (pattern.search(text) for pattern in _COUNTS) if "loss" in text.lower() else ()
    counted = next((count for count in counts if count is not None), None)
    return counted and Step(unit="count", done=counted["done"], total=counted["total"], text=text)


def _is_none(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 60) : match.start()]
    if match["bar_done"]:
        title = text[max(0, match.start() - 120) : match.start()]
        other = bool(_NO_TRAINING_BAR.search(title)) and not _TRAINING_BAR.search(title)
        return other or (match["bar_done"] == "0" and match["bar_total"] != "0")
    if not match["unit"]:
        return False
    if _OPTION_BEFORE.search(before) or _SETTING_BEFORE.search(before) or _is_anothers(text, match, before):
        return True
    return bool(match["plural"]) and not match["total"] and not _LOSS.search(text)


def _is_anothers(text: str, match: re.Match[str], before: str) -> bool:
    """Whether a numbered step is one of a compiler, of an image, of a pipeline or of a rehearsal."""
    if _LOSS.search(text):
        return False
    after = text[match.start("done") + len(match["done"].rstrip()) :] if match["done"] else ""
    return bool(
        _TOOLS_STEP.match(after)
        or _GROUP_BEFORE.search(before)
        or _PREPARED_BEFORE.search(before)
        or _DRY_RUN.search(text)
    )


def num_different(steps: Sequence[tuple[int, Step]]) -> int:
    """How many different steps of one unit the lines (number, report) tell; several threads report the same ones."""
    seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for number, step in steps:
        seen[step.unit].add((epoch_of(step), step.done or f"line {number}"))
    return max(map(len, seen.values()), default=0)


def is_last_of_all(step: Step | None) -> bool:
    """Whether it is the last of as many as it says there are."""
    if step is None or not step.total or max(len(step.done), len(step.total)) > MAX_DIGITS:
        return False
    return int(step.done) >= int(step.total)


def epoch_of(step: Step) -> str:
    """The epoch that a report names; empty without one."""
    epoch = _EPOCH.search(step.text)
    return epoch[1] if epoch else ""


def says_worked(lines: Sequence[Line], *, steps: int) -> bool:
    """Whether the end of the log says that training (or what a run does instead) was done; `done` alone, of steps seen."""
    last = [line.text for line in lines[-LAST_LINES:]]
    if not steps and any(_NONE_MADE.search(text) for text in last):
        return False
    if any(_is_last_word(text, _WORKED) and not _NONE_MADE.search(text) for text in last):
        return True
    return bool(steps) and any(_BARE_END.match(text) for text in last)


def _is_last_word(text: str, pattern: re.Pattern[str]) -> bool:
    said = bool(pattern.search(text)) and not _UNFINISHED.search(text) and not TROUBLE.search(text)
    return said and not _TOOLS_LINE.match(text)


def says_installed(lines: Sequence[Line]) -> bool:
    """Whether the end of the log is an installer's last word."""
    return any(_INSTALLED.match(line.text) for line in lines[-LAST_LINES:])
