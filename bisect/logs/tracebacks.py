"""The Python tracebacks of a log: the thread that each names, its frames, and the line of its exception.

The ranks of one job write at once, so the lines of one traceback need not stand together: what follows a line of a rank
is looked for among the lines of that rank. Knows nothing of what an exception means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .text import Line

MAX_LINES_BETWEEN = 500
"""Lines of other ranks that may stand between two of one traceback."""
_BANNER = re.compile(r"Exception in thread ([\w.-]+)")
_CHAINED = re.compile(r"\s*(?:During handling of the above|The above exception was the direct cause)")
_IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b")
_FRAME = re.compile(r'\s*File "([^"]+)", line \d+')
_HEAD = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: |:$|$)")
_AT_EXIT = "multiprocessing/resource_tracker.py"
_START = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """A traceback in a log.

    Attributes:
        body: the indices of its lines, without that of its exception.
        last: the index of its last line, which is that of its exception where it has a `head`.
        thread: the thread that its banner names; empty without one.
        frames: source files, outermost first.
        head: the exception; empty where the log was cut before it.
        ignored: whether the interpreter says that it ignored the exception (in a destructor, at exit), or a helper of its
            own that cleans up after it raised it.
    """

    body: tuple[int, ...]
    last: int
    thread: str
    frames: tuple[str, ...]
    head: str
    ignored: bool = False

    @property
    def first(self) -> int:
        """The index of its first line."""
        return self.body[0]


def tracebacks(lines: Sequence[Line]) -> tuple[Traceback, ...]:
    """Every traceback of a log, in the order of their first lines."""
    found: list[Traceback] = []
    threads: dict[str, str] = {}
    ignored: set[str] = set()
    taken: set[int] = set()
    for index, line in enumerate(lines):
        if index in taken:
            continue
        banner = _BANNER.search(line.text)
        if banner is not None:
            threads[line.rank] = banner[1]
        if _START in line.text:
            block = _block(lines, index, thread=threads.get(line.rank, ""), ignored=line.rank in ignored)
            found.append(block)
            taken.update((*block.body, block.last))
        elif line.text.strip() and banner is None and not _CHAINED.match(line.text):
            threads.pop(line.rank, None)
            ignored.discard(line.rank)
        if _IGNORED.match(line.text):
            ignored.add(line.rank)
    return tuple(found)


def _block(lines: Sequence[Line], start: int, *, thread: str, ignored: bool) -> Traceback:
    body = [start]
    margin = _indent(lines[start].text)
    head = ""
    last = start
    for index in _of_the_same_rank(lines, start):
        text = lines[index].text
        if text and _indent(text) <= margin:
            head = text.strip() if _HEAD.match(text.strip()) else ""
            last = index if head else body[-1]
            break
        body.append(index)
        last = index
    frames = tuple(match[1] for index in body[1:] if (match := _FRAME.match(lines[index].text)))
    ignored = ignored or (bool(frames) and frames[-1].endswith(_AT_EXIT))
    return Traceback(body=tuple(body), last=last, thread=thread, frames=frames, head=head, ignored=ignored)


def _of_the_same_rank(lines: Sequence[Line], start: int) -> Iterator[int]:
    """The indices after a line of what its rank writes; of all that follows where it names no rank."""
    rank, last = lines[start].rank, start
    for index in range(start + 1, len(lines)):
        if not rank or lines[index].rank == rank:
            last = index
            yield index
        elif index - last > MAX_LINES_BETWEEN:
            return


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
