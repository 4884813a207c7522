"""The journal of a search: append-only JSON lines, fsynced one by one, schema on the first line.

A search killed at any instant loses at most the line it was writing, and that line is dropped when the journal is
opened again. Everything a search knows is replayed from here; nothing is ever rewritten. What is read has the shape
that `journal_shape` asks for, and a line that is there twice is read once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envs.errors import CannotRunError, UsageError

from .again import resume_command
from .files import write_atomically
from .journal_shape import MATRIX, first_fault, header_fault, without_repeats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = 1
KIND = "bisect-journal"
FILE_NAME = "journal.jsonl"
_DAMAGED = "restore the journal from a copy, or start again with another --out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a journal says: its header, the entries after it, and how many bytes of it are whole lines."""

    header: Mapping[str, Any]
    entries: tuple[Mapping[str, Any], ...]
    whole_bytes: int

    def of(self, event: str) -> tuple[Mapping[str, Any], ...]:
        """The entries of one kind, in order."""
        return tuple(entry for entry in self.entries if entry["event"] == event)

    def plan(self, directory: Path) -> Mapping[str, Any] | None:
        """The plan of a search, or None before it had one; UsageError where runs are there and their plan is gone."""
        plans = self.of("plan")
        if not plans and any(self.of(event) for event in ("asked", "built", "started", "observed", "verdict")):
            raise UsageError(f"the journal in {directory} has lost the plan of its search", hint=_DAMAGED)
        return plans[-1] if plans else None

    @property
    def refusal(self) -> str:
        """Why an end of the search could not be built, where it was not built since; '' for no such end."""
        standing = ""
        for entry in self.entries:
            if entry["event"] == "refused":
                standing = f"the endpoint {entry['candidate']} cannot be built: {entry['reason']}"
            elif entry["event"] == "built" and standing.startswith(f"the endpoint {entry['candidate']} "):
                standing = ""
        return standing


def read(path: Path) -> Contents:
    """Read a journal; a torn last line is ignored, anything else that is wrong is an error naming the line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"no journal at {path}: {error.strerror}", hint="give the run directory of a search (its --out)"
        ) from error
    whole = data[: data.rfind(b"\n") + 1]
    lines = [_parse(path, number, line) for number, line in enumerate(whole.splitlines(), start=1)]
    if not lines:
        raise UsageError(f"the journal {path} is empty", hint="remove the run directory and start again")
    header, entries = _header(path, lines[0]), lines[1:]
    if wrong := first_fault(header, entries):
        raise UsageError(f"line {wrong[0] + 2} of {path} is damaged, {wrong[1]}", hint=_DAMAGED)
    return Contents(header=header, entries=without_repeats(entries), whole_bytes=len(whole))


def read_search(directory: Path) -> Contents:
    """The journal of a search's run directory; UsageError for that of a matrix, which is read by other means."""
    contents = read(directory / FILE_NAME)
    if contents.header["command"] == MATRIX:
        raise UsageError(
            f"{directory} is the directory of a matrix, not of a search",
            hint="its report is matrix.html there; go on with: python -m bisect matrix --resume --out DIR",
        )
    return contents


def read_planned(directory: Path) -> tuple[Contents, Mapping[str, Any]]:
    """The journal of a search and its plan; UsageError where it was stopped before it had one."""
    contents = read_search(directory)
    plan = contents.plan(directory)
    if plan is None:
        raise UsageError(
            f"the search in {directory} was stopped before it had a plan",
            hint=f"go on with: {resume_command(directory)}",
        )
    return contents, plan


def _parse(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"line {number} of {path} is not JSON: it was changed by hand or the disk is damaged", hint=_DAMAGED
        ) from error
    if not isinstance(entry, dict) or (number > 1 and not isinstance(entry.get("event"), str)):
        raise UsageError(f"line {number} of {path} is not a journal entry", hint=_DAMAGED)
    return entry


def _header(path: Path, line: Mapping[str, Any]) -> Mapping[str, Any]:
    if line.get("kind") != KIND:
        raise UsageError(
            f"{path} is not the journal of a search", hint="give the run directory of a search (its --out)"
        )
    schema = line.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UsageError(
            f"{path} was written by a newer version (schema {schema!r}, this one knows {SCHEMA})",
            hint="use the version that started the search",
        )
    if wrong := header_fault(line):
        raise UsageError(f"line 1 of {path} is damaged: {wrong}", hint=_DAMAGED)
    return line


class Journal:
    """The one writer of a journal. `contents` is what it said when opened; `append` is durable on return."""

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = path
        self.contents = contents
        self._file = path.open("r+b")
        self._file.truncate(contents.whole_bytes)
        self._file.seek(0, os.SEEK_END)

    @classmethod
    def create(cls, path: Path, header: Mapping[str, object]) -> Journal:
        """Start a journal with its header; whole or not there at all, also after a kill."""
        assert not path.exists()
        write_atomically(path, json.dumps({"schema": SCHEMA, "kind": KIND, **header}) + "\n")
        return cls(path, read(path))

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Go on with a journal; a torn last line is cut off."""
        return cls(path, read(path))

    def append(self, event: str, **fields: object) -> Mapping[str, Any]:
        """Add one entry and wait until it is on disk; CannotRunError where somebody removed the journal."""
        if not self.path.exists():
            raise CannotRunError(
                f"the journal {self.path} was removed while the search ran: what it saw is lost",
                hint="start again, with a command that leaves --out alone",
            )
        entry = {"event": event, **fields}
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return entry

    def close(self) -> None:
        self._file.close()
