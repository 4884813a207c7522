"""Signs of life of a run: the lines that the child writes into its progress file. Silence ends a run, not slowness."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """Follows the child's progress file, and gives up on a child that has been silent for `patience_s`."""

    path: Path
    report: Callable[[Mapping[str, object]], None] | None
    patience_s: float
    stop: threading.Event
    alive_at_s: float = 0.0
    offset: int = 0
    last: Mapping[str, object] = field(default_factory=dict)

    def is_dead(self, elapsed_s: float) -> bool:
        """Whether the child, started so many seconds ago, is to be ended: silent for too long, or nobody wants it."""
        if self.beat():
            self.alive_at_s = elapsed_s
        return self.stop.is_set() or elapsed_s - self.alive_at_s > self.patience_s

    def beat(self) -> bool:
        """Take in what was written since the last call; whether that was anything."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                fresh = file.read()
        except FileNotFoundError:
            return False
        whole, newline, _ = fresh.rpartition(b"\n")
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._take(line)
        return bool(whole)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            return  # a crash may tear a line in the middle of the file; the next one counts
        if isinstance(entry, dict):
            self.last = entry
            if self.report is not None:
                self.report(entry)
