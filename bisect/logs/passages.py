"""Passages of a log that show something else than the run: a diff, the messages of commits, tests that were meant to fail.

Each has a beginning that nothing else has and an end that can be counted or seen; a line in it proves nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .text import Line

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_COMMIT = re.compile(r"[*|\\/ ]*commit [0-9a-f]{7,40}\b")
_COMMIT_HEADER = re.compile(
    r"(?:Author|AuthorDate|Commit|CommitDate|Date|Merge|Reflog\w*|gpg|Notes):|[*|\\/ ]*commit [0-9a-f]{7,40}\b"
)
_EXPECTED_FAILURES = re.compile(r"=+ (?:XFAILURES|XPASSES) =+\Z")
_SECTION = re.compile(r"={3,} .* ={3,}\Z")
_FILE = re.compile(r"==> .+ <==\Z")


def last_file(lines: Sequence[Line]) -> int:
    """The line of the last header that `head` and `tail` put over one of several files; 0 without one."""
    return next((line.number for line in reversed(lines) if _FILE.match(line.text)), 0)


def quoted_lines(lines: Sequence[Line]) -> frozenset[int]:
    """The indices of lines that belong to such a passage."""
    quoted: set[int] = set()
    index = 0
    while index < len(lines):
        end = _passage_end(lines, index)
        quoted.update(range(index, end))
        index = max(end, index + 1)
    return frozenset(quoted)


def _passage_end(lines: Sequence[Line], start: int) -> int:
    """The index after the passage that begins at `start`; `start` itself where none does."""
    text = lines[start].text
    hunk = _HUNK.match(text)
    if hunk is not None:
        return _hunk_end(lines, start + 1, old=int(hunk[1] or 1), new=int(hunk[2] or 1))
    if _COMMIT.match(text):
        return _commit_end(lines, start)
    if _EXPECTED_FAILURES.match(text.strip()):
        return next((i for i in range(start + 1, len(lines)) if _SECTION.match(lines[i].text.strip())), len(lines))
    return start


def _hunk_end(lines: Sequence[Line], index: int, *, old: int, new: int) -> int:
    """A hunk's header counts its lines on either side."""
    while index < len(lines) and (old > 0 or new > 0):
        mark = lines[index].text[:1]
        if mark not in ("", " ", "+", "-", "\\"):
            break
        old -= mark in ("", " ", "-")
        new -= mark in ("", " ", "+")
        index += 1
    return index


def _commit_end(lines: Sequence[Line], start: int) -> int:
    """A commit's message is indented; the first line at the margin that is no header of a commit ends it."""
    if not any(line.text.startswith("Author:") for line in lines[start + 1 : start + 4]):
        return start
    index = start + 1
    while index < len(lines):
        text = lines[index].text
        if text.strip() and not text[0].isspace() and not _COMMIT_HEADER.match(text):
            break
        index += 1
    return index
