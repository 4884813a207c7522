"""The store: one directory per built environment, named by its digest, finished or not there.

    STORE/store.json                    schema of the store
    STORE/environments/DIGEST/          a finished environment
        environment.json                what it is; its presence in this directory means finished
        pylock.toml, build.log          what it was made from, and how
        venv/                           the environment itself
    STORE/building/DIGEST.*             being built, or left by a killed build; never used
    STORE/locks/DIGEST.lock             held by whoever builds or removes it
    STORE/resolved/*.toml               locks that were resolved here

An environment appears by one rename of a complete directory and disappears by one, so a killed build or prune
never leaves one that looks finished. Knows nothing of how an environment is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from . import environment_file, machine
from .errors import CannotRunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filelock import FileLock

    from .environment_file import Entry

SCHEMA = 1
_KEY_LENGTH = 24


class Store:
    """Opens the store at a path; it is made on the first write. A store of a newer version is refused."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._check_schema()

    def directory(self, digest: str) -> Path:
        """Where the environment is when it is finished."""
        return self.root / "environments" / digest[:_KEY_LENGTH]

    def python(self, digest: str) -> Path:
        """Interpreter of the finished environment."""
        return self.directory(digest) / "venv" / "bin" / "python"

    def read(self, digest: str) -> Entry | None:
        """The finished environment, or None: not built, or its interpreter is gone from the machine."""
        entry = environment_file.read(self.directory(digest))
        return entry if entry is not None and (entry.image or self.python(digest).exists()) else None

    def image_in(self, directory: Path) -> Entry | None:
        """The entry of an image as it is in one of the directories, or None for anything else."""
        entry = environment_file.read(directory)
        return entry if entry is not None and entry.as_it_is else None

    def entries(self) -> tuple[Entry, ...]:
        """Every finished environment, the least recently used first."""
        directories = sorted((self.root / "environments").glob("*"), key=_last_used)
        return tuple(entry for entry in map(environment_file.read, directories) if entry is not None)

    def touch(self, digest: str) -> None:
        """Note that the environment was used now; a store that may only be read is used all the same."""
        with contextlib.suppress(OSError):
            os.utime(self.directory(digest))

    @contextlib.contextmanager
    def locked(self, digest: str, report: Callable[[str], None]) -> Iterator[None]:
        """Hold the environment's lock; says so when another process builds it. Freed when its holder dies."""
        with self._tried(digest) as held:
            if held:
                yield
                return
        report(f"waiting: another process is building {digest[:12]}")
        with self._lock(digest):
            yield

    def new_building(self, digest: str) -> Path:
        """A fresh directory to build in, after removing what killed builds of the same digest left."""
        self.remove_leftovers(digest)
        path = self._writable("building") / f"{digest[:_KEY_LENGTH]}.{uuid.uuid4().hex[:8]}"
        path.mkdir()
        return path

    def finish(self, building: Path, entry: Entry) -> Path:
        """Turn a complete building directory into the finished environment, in one rename."""
        environment_file.write(building, entry)
        _sync(building)
        final = self.directory(entry.digest)
        self._writable("environments")
        if final.exists():
            self._discard(final)
        building.rename(final)
        _sync(final.parent)
        return final

    def remove(self, digest: str) -> bool:
        """Remove a finished environment unless somebody builds it or a process of this machine runs in it."""
        with self._tried(digest) as held:
            free = held and not machine.is_in_use(self.directory(digest))
            if free:
                self._discard(self.directory(digest))
            return free

    def remove_leftovers(self, digest: str = "") -> int:
        """Remove what killed builds left, of one digest whose lock is held, or of all that nobody builds."""
        removed = 0
        for path in (self.root / "building").glob(f"{digest[:_KEY_LENGTH]}*"):
            if digest:
                _clear(path)
                removed += 1
                continue
            with self._tried(path.name.split(".")[0]) as held:
                if held:
                    _clear(path)
                    removed += 1
        return removed

    def resolved(self, request: str) -> Path:
        """Where a lock resolved on this machine is kept."""
        return self.root / "resolved" / f"pylock.{request[:_KEY_LENGTH]}.toml"

    def keep_resolved(self, request: str, text: str) -> None:
        """Keep a lock, whole or not at all."""
        path = self._writable("resolved") / self.resolved(request).name
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    @contextlib.contextmanager
    def _tried(self, digest: str) -> Iterator[bool]:
        """Hold the lock unless somebody else does; says which."""
        from filelock import Timeout  # noqa: PLC0415  (see _lock)

        lock = self._lock(digest)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _lock(self, digest: str) -> FileLock:
        from filelock import FileLock  # noqa: PLC0415  (costs a fifth of the time in which a cached one is ready)

        return FileLock(self._writable("locks") / f"{digest[:_KEY_LENGTH]}.lock")

    def _discard(self, path: Path) -> None:
        """Out of sight by one rename, then removed at leisure."""
        if path.exists():
            trash = self._writable("building") / f"{path.name}.{uuid.uuid4().hex[:8]}"
            path.rename(trash)
            shutil.rmtree(trash, ignore_errors=True)

    def _writable(self, name: str) -> Path:
        """A directory of the store, made with the store itself when it is not there yet."""
        directory = self.root / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
            marker = self.root / "store.json"
            if not marker.exists():
                marker.write_text(json.dumps({"schema": SCHEMA}), encoding="utf-8")
        except OSError as error:
            raise CannotRunError(
                f"cannot write to the store {self.root}: {error.strerror}", hint="choose another place with --store"
            ) from error
        return directory

    def _check_schema(self) -> None:
        path = self.root / "store.json"
        try:
            schema = json.loads(path.read_text(encoding="utf-8"))["schema"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path} is unreadable: {error}", hint="is this a store of this tool? choose another with --store"
            ) from error
        if schema != SCHEMA:
            raise UsageError(
                f"the store {self.root} was written by a newer version (schema {schema}, this one knows {SCHEMA})",
                hint="update this tool, or choose another store with --store",
            )


def size(directory: Path) -> int:
    """Bytes of every file below a directory, links not followed."""
    total = 0
    pending = [directory]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return total


def _clear(building: Path) -> None:
    """Remove what a killed build left, once nothing of it writes there any more."""
    machine.end_orphans(building)
    shutil.rmtree(building, ignore_errors=True)


def _last_used(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:
        return 0.0


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
