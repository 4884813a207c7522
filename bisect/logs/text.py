"""A log of any size as a bounded list of clean lines: no colours, no time stamps, no rank or pod prefixes.

Knows nothing of what lines mean. The first megabytes and the end are kept whole; in between only lines of a shape
(the line without its digits) that has not been seen often, because a log of gigabytes is mostly one line repeated.
A line too long to be one is read in pieces that overlap, and of one that holds binary data what text stands in it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WHOLE_CHARACTERS = 1_500_000
SHAPE_REPEATS = 8
SHAPE_LENGTH = 120
WHOLE_LINES = 15_000
MAX_LINES = 40_000
TAIL_LINES = 1_500
LINE_LENGTH = 8_000
PIECE_LENGTH = 2_000
OVERLAP = 500
"""Characters of a piece of a longer line, and of it those that the next piece begins with: no message is cut in two."""
MIN_TEXT = 8
"""Characters of text between binary data that can be a message."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_GUTTER = re.compile(r"^ {2,}(?:\| ?)+(?=\s|\w)")  # exception groups draw one
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BINARY = re.compile(r"[\ufffd\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]+")
_LONE_NUL = re.compile(r"(?<!\x00)\x00(?!\x00)")  # wide characters without a mark
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
_ALARMS = (
    "err", "exception", "fail", "fatal", "warn", "detected", "killed", "signal", "nan", " inf", "=inf", "timeout", "timed out",
    "no space", "symbol", "cannot", "traceback", "abort", "xid", "oom", "memory", "mismatch", "limit", "deadlock",
    "unsatisf", "not found", "driver", "capab", "compile",
)  # fmt: skip
_STAMP = re.compile(
    r"(?:(?P<year>20\d\d)-(?P<month>\d\d)-(?P<day>\d\d)[T\x20_])?"
    r"(?<!\d)(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)"
)
_ALARM_LEVEL = re.compile(
    r"\b(?:WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|\[?[WEF]\d{4} \S*\d\d|\blevel['\"]?[:=]\s?['\"]?(?:warn|error|critical|fatal)|##\[error\]"
)
_LABEL = re.compile(r"\[((?:drafter|thread|worker)-\d+)\]", re.IGNORECASE)
_RANK = re.compile(
    r"\[(?:rank|gpu|dp|T|[\w-]{0,20}@?cuda)[ _:=-]?(?P<bracket>\d+)\]|^\s*\[\d+,(?P<mpi>\d+)\]<std|^\s*(?P<srun>\d{1,4}):(?=\s)"
    r"|\((?:[\w.-]+\s)?pid=(?P<actor>\d+)|^\s*(?:cuda:|(?:gpu|dp|rank)[ _:-]?)(?P<bare>\d+)\s*[|:]",
    re.IGNORECASE,
)
"""Who wrote a line: `[rank1]`, `[GPU 6]`, `[drafter@cuda:6]`, `[1,3]<stderr>`, `3: ` of srun, `(Actor pid=77)`, `dp2 | `."""
_PREFIX = re.compile(
    r"""\s*(?:
      \[?\d{4}-\d\d-\d\d[T\x20_]\d\d:\d\d:\d\d(?:[.,:]\d+)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?:?   # 2026-11-29 12:00:01,123
    | \[?\d\d/\d\d/\d\d(?:\d\d)?[\x20-]\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?
    | (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d+\s\d\d:\d\d:\d\d\s[\w.-]+\s(?=kernel|\w+\[)
    | kernel:
    | \[\s*\d+\.\d+\]                                              # dmesg
    | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?
    | \[?[IWEF]\d{3,4}\s\d\d:\d\d:\d\d(?:\.\d+)?(?:\s+\d+)?\s+\S+?:\d+\]     # W1129 12:00:01.1 77 torch/_dynamo/x.py:10]
    | \[[\w-]{0,20}(?:rank|worker|default|thread|drafter|target|gpu|node|pod)[\s:=_-]?\d+\]:?
    | (?:rank|node|gpu)[\s:=_-]?\d+\s*[:|]
    | \((?:[\w.-]+\s)?(?:pid|rank|ip)=[^)]*\)                       # (TrainWorker pid=1, ip=10.0.0.1)
    | \[\d{1,5}\][:|]?(?=\s)
    | \[\d{1,5},\d{1,5}\]<std(?:out|err)>:?                          # mpirun --tag-output
    | \d{1,4}:(?=\s)                                               # srun --label
    | [a-z][\w.-]{0,38}[-_]\d+\s+\|(?=\s)                          # docker compose
    )\s?""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log.

    Attributes:
        number: its number, from 1.
        text: it without colours and prefixes.
        seconds: its time stamp, since any fixed point; None without one.
        label: the thread that its prefix names.
        rank: the process that its prefix names (`rank-1`).
        is_alarm: whether its logger calls it a warning or an error.
    """

    number: int
    text: str
    seconds: float | None = None
    label: str = ""
    rank: str = ""
    is_alarm: bool = False


def clean(text: str) -> str:
    """A line without escapes, control characters and the prefixes that launchers and loggers put before it."""
    text = _GUTTER.sub("", _CONTROLS.sub("", _ESCAPES.sub("", text[:LINE_LENGTH])).rstrip())
    for _ in range(6):
        match = _PREFIX.match(text)
        if match is None or match.end() == 0:
            break
        text = text[match.end() :]
    return text


def seconds(raw: str) -> float | None:
    """The time stamp that a line begins with (or that a scheduler put into it), in seconds since any fixed point."""
    match = _STAMP.search(raw[:120])
    if match is None:
        return None
    days = 0
    if match["year"]:  # any fixed length of a month keeps two stamps of one run apart by at least what passed
        days = (int(match["year"]) * 12 + int(match["month"])) * 31 + int(match["day"])
    return float(((days * 24 + int(match["hour"])) * 60 + int(match["minute"])) * 60 + int(match["second"]))


def read_lines(chunks: Iterable[str]) -> tuple[Line, ...]:
    """The lines of a log, bounded in number, in their order."""
    kept: list[Line] = []
    tail: deque[tuple[int, str]] = deque(maxlen=TAIL_LINES)
    shapes: Counter[str] = Counter()
    pieces: Counter[int] = Counter()
    characters = 0
    for number, raw, whole in _raw_lines(chunks):
        characters += len(raw)
        if characters > WHOLE_CHARACTERS or number > WHOLE_LINES:
            if whole:
                tail.append((number, raw))
            if not (
                _is_new(raw, shapes=shapes, num_kept=len(kept))
                if whole
                else _is_new_piece(raw, pieces=pieces, num_kept=len(kept))
            ):
                continue
        kept.extend(_lines(number, raw))
    last = kept[-1].number if kept else 0
    missing = (line for number, raw in tail if number > last for line in _lines(number, raw))
    return (*kept, *missing)


def _lines(number: int, raw: str) -> Iterator[Line]:
    label = _LABEL.search(raw[:120])
    is_alarm = bool(_ALARM_LEVEL.search(raw[:120]))
    rank = _RANK.search(raw[:120])
    names = (label[1] if label else "", f"rank-{next(filter(None, rank.groups()))}" if rank else "")
    return (Line(number, text, seconds(raw), *names, is_alarm) for text in _texts(raw))


def _is_new(raw: str, *, shapes: Counter[str], num_kept: int) -> bool:
    shape = raw[:SHAPE_LENGTH].translate(_NO_DIGITS)
    shapes[shape] += 1
    if shapes[shape] > SHAPE_REPEATS or num_kept >= MAX_LINES:
        return False
    if len(shapes) > MAX_LINES:
        shapes.clear()
    return num_kept < MAX_LINES * 3 // 4 or _alarms(raw, num_kept=0)


def _is_new_piece(raw: str, *, pieces: Counter[int], num_kept: int) -> bool:
    """Whether a piece of a long line holds a word of trouble and is not one text repeated over megabytes."""
    if not _alarms(raw, num_kept=num_kept):
        return False
    shape = hash(raw.translate(_NO_DIGITS))
    pieces[shape] += 1
    return pieces[shape] <= SHAPE_REPEATS


def _alarms(raw: str, *, num_kept: int) -> bool:
    """Whether a word of trouble stands in it; the pieces of long lines may take half of what is kept."""
    lowered = raw.lower()
    return num_kept < MAX_LINES // 2 and any(alarm in lowered for alarm in _ALARMS)


def _texts(raw: str) -> Iterator[str]:
    """What is text in a line. A structured record holds its newlines escaped, so that a traceback in it can be read."""
    raw = _LONE_NUL.sub("", raw) if "\0" in raw else raw
    binary = sum(map(len, _BINARY.findall(raw))) if "\ufffd" in raw or "\0" in raw else 0
    if binary * 10 > len(raw):
        yield "\ufffd" * min(binary, 80)
        yield from (clean(text) for text in _BINARY.split(raw) if len(text) >= MIN_TEXT)
    elif "\\n" in raw and raw.lstrip().startswith("{"):
        yield from (clean(text) for text in raw.split("\\n"))
    else:
        yield clean(raw)


def _raw_lines(chunks: Iterable[str]) -> Iterator[tuple[int, str, bool]]:
    """Number and text of each line, or of each piece of a long one, and whether it is whole.

    Lines end at newlines and at the carriage returns of progress bars.
    """
    number, rest, in_pieces = 1, "", False
    for chunk in chunks:
        text = rest + chunk
        held = "\r" if text.endswith("\r") else ""  # the newline may begin the next chunk
        *lines, rest = text[: len(text) - len(held)].replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            pieces, last = _cut(line, in_pieces=in_pieces)
            yield from ((number, piece, False) for piece in pieces)
            yield number, last, not (pieces or in_pieces)
            number, in_pieces = number + 1, False
        pieces, rest = _cut(rest, in_pieces=in_pieces)
        yield from ((number, piece, False) for piece in pieces)
        in_pieces = in_pieces or bool(pieces)
        rest += held
    if rest.strip("\r"):
        yield number, rest.strip("\r"), not in_pieces


def _cut(line: str, *, in_pieces: bool) -> tuple[list[str], str]:
    """The pieces that precede the last one of a line longer than LINE_LENGTH; of the rest of one once it is begun."""
    if not in_pieces and len(line) <= LINE_LENGTH:
        return [], line
    step = PIECE_LENGTH - OVERLAP
    starts = range(0, max(0, len(line) - PIECE_LENGTH), step)
    return [line[start : start + PIECE_LENGTH] for start in starts], line[len(starts) * step :]
