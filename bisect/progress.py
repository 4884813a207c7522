"""Shows how a run gets on: one bar on a terminal, plain lines elsewhere or in CI. Writes to the stream it is given."""

from __future__ import annotations

import os
import time
from typing import IO, TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_EVERY_S = 10.0
COUNTED = "drafter"
"""Threads of this name make the steps that were asked for; the others feed them."""


class Lines:
    """Plain lines: one for each new phase, and one now and then while steps finish."""

    def __init__(self, label: str, stream: IO[str]) -> None:
        self._label, self._stream = label, stream
        self._phases, self._said_at, self._steps = set[str](), 0.0, dict[str, int]()

    def __call__(self, entry: Mapping[str, object]) -> None:
        phase = str(entry.get("phase", ""))
        if str(entry.get("thread", "")).startswith(COUNTED):
            self._steps[str(entry["thread"])] = int(str(entry.get("step", 0)))
        now = time.monotonic()
        if phase not in self._phases or now - self._said_at >= PLAIN_EVERY_S:
            self._phases.add(phase)
            self._said_at = now
            each = (f"{name} {step}/{entry.get('steps', '?')}" for name, step in sorted(self._steps.items()))
            steps = f"; steps {', '.join(each)}" if self._steps and phase != "completed" else ""
            print(f"{self._label}: {phase}{steps}", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left open."""


class Bar:
    """One bar over the steps of all drafter threads."""

    def __init__(self, label: str, stream: IO[str]) -> None:
        self._bar = tqdm(desc=label, unit="step", file=stream, leave=False, dynamic_ncols=True)
        self._totals: dict[str, tuple[int, int]] = {}

    def __call__(self, entry: Mapping[str, object]) -> None:
        self._bar.set_postfix_str(str(entry.get("phase", "")), refresh=False)
        if str(entry.get("thread", "")).startswith(COUNTED) and entry.get("steps"):
            self._totals[str(entry["thread"])] = (int(str(entry.get("step", 0))), int(str(entry["steps"])))
        self._bar.n = sum(done for done, _ in self._totals.values())
        self._bar.total = sum(total for _, total in self._totals.values()) or None
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


def follow(label: str, stream: IO[str]) -> Lines | Bar:
    """A bar where someone is watching a terminal; lines in a file, a pipe or CI."""
    return Bar(label, stream) if stream.isatty() and not os.environ.get("CI") else Lines(label, stream)
