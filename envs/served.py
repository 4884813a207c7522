"""Whether an index still serves the file that a lock was made of, by all that can be known without a download.

A page may tell a wheel's hash, which settles it; PyTorch's page of nightlies tells none. Then its size and upload time
count, and what the server says of the file: its length, and when it was last modified. Where it does not say when, a
small file is read and hashed; a large one of the same length is taken for the same.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from . import fetch
from .lock import whole_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .fetch import Look
    from .index import File
    from .lock import Lock, Wheel

SMALL_BYTES = 16_000_000
CLOCKS_APART_S = 600.0
"""Seconds by which this clock and a server's may differ."""


def replaced(locked: Lock, files: Iterable[File], *, since: float) -> str:
    """Why a wheel of the lock is another one than the index serves now, in a clause; '' where nothing says so.

    Args:
        locked: what was downloaded.
        files: what the index lists now; servers are asked only for files of the lock that have no hash there. Of
            several under one name one that is the same suffices.
        since: POSIX time at which the lock was made.
    """
    known = {wheel.filename: wheel for item in locked.distributions for wheel in item.wheels}
    offered = sorted((file for file in files if file.filename in known), key=attrgetter("filename"))
    for name, group in groupby(offered, key=attrgetter("filename")):
        whys = [_compared(known[name], file, since=since) for file in group]
        if all(whys):
            return whys[0]
    return ""


def _compared(wheel: Wheel, file: File, *, since: float) -> str:
    look = fetch.Look() if file.sha256 else fetch.look(file.url)
    small = 0 < look.size <= SMALL_BYTES and not look.modified
    asked = replace(file, sha256=fetch.sha256(file.url)) if small else file
    return difference(wheel, asked, look, since=since)


def difference(wheel: Wheel, file: File, look: Look, *, since: float) -> str:
    """The same for one wheel and what its server said of it."""
    if file.sha256:
        told = f"the index serves {file.filename} with another hash, {file.sha256[:12]}, than {wheel.sha256[:12]}"
        return told if file.sha256 != wheel.sha256 else ""
    size, uploaded = file.size or look.size, whole_seconds(file.upload_time)
    if size and wheel.size and size != wheel.size:
        return f"the index serves {file.filename} with {size} bytes, not {wheel.size}"
    if uploaded and wheel.upload_time and uploaded != wheel.upload_time:
        return f"the index serves {file.filename} as uploaded at {uploaded}, not {wheel.upload_time}"
    if look.modified > since + CLOCKS_APART_S:
        when = datetime.fromtimestamp(look.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"the index serves a {file.filename} of {when}, which is newer than what was locked here"
    return ""
