"""Files that a kill cannot tear, and run directories that are never written over."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from envs.errors import UsageError

LOG_BYTES = 16 << 20
"""What is kept of the log of one run; a search makes hundreds."""


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file or nothing: a reader, or a run killed half-way, never sees a part of it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """A renamed file survives a power cut only once its folder is on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cap_log(path: Path, *, limit: int = LOG_BYTES) -> None:
    """Keep the beginning and the end of a log of more than `limit` bytes, and a line that says what is missing."""
    if not path.exists() or (size := path.stat().st_size) <= limit:
        return
    half = limit // 2
    with path.open("r+b") as log:
        log.seek(size - half)
        tail = log.read(half)
        tail = tail[tail.find(b"\n") + 1 :]
        log.seek(half)
        log.write(f"\n[{size - half - len(tail)} bytes were left out here, after the run was judged]\n".encode() + tail)
        log.truncate()


def refuse_used(path: Path) -> None:
    """A run directory that exists and holds something is refused; nothing in it is touched."""
    if path.exists() and (not path.is_dir() or any(not entry.name.startswith(".") for entry in path.iterdir())):
        raise UsageError(
            f"the run directory {path} exists already and holds something else",
            hint="give another --out, or remove it if nobody needs its evidence",
        )


def make_run_directory(path: Path) -> None:
    """Make an unused run directory."""
    refuse_used(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the run directory {path}: {error.strerror}") from error


def only_one(directory: Path) -> FileLock:
    """The lock of a run directory; UsageError where another process works in it."""
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"another process is at work in {directory}", hint="wait for it, or stop it") from None
    return lock
