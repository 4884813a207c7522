"""How much a run may write before it is ended: its log goes to the disk that every later run needs as well.

The child writes into the file itself, so the log is whole when this process is killed, and no reader that stopped can
block it. What grows beyond all use is ended instead of thinned out: the log is then judged whole, like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs import machine

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
LIMIT_BYTES = GIB
"""About a hundred times what a long run says; reading it takes minutes (1 to 5 MB/s on one core)."""


@dataclass(slots=True, kw_only=True)
class LogLimit:
    """Watches the log of a run.

    Attributes:
        path: the log.
        limit_bytes: size after which the run is ended.
        why: why it was, in a clause; empty while it was not.
    """

    path: Path
    limit_bytes: int = LIMIT_BYTES
    why: str = ""

    def is_passed(self) -> bool:
        """Whether the run is to be ended for its log."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return False  # not yet, or the child removed it, which its end will tell
        self.why = self.why or too_long(size, machine.free_bytes(self.path.parent), limit_bytes=self.limit_bytes)
        return bool(self.why)


def too_long(log_bytes: int, free_bytes: int, *, limit_bytes: int = LIMIT_BYTES) -> str:
    """Why a log of that size, on a disk with so much left, is to end its run; '' where it may grow.

    A disk that is nearly full ends only a run whose log takes more of it than is left.
    """
    if log_bytes > limit_bytes:
        return f"its log passed {_told(limit_bytes)}"
    if log_bytes > free_bytes and free_bytes < GIB:
        return f"its log, {_told(log_bytes)}, was filling the disk, which has {_told(free_bytes)} left"
    return ""


def _told(size: int) -> str:
    return f"{size / GIB:.0f} GiB" if size >= GIB else f"{size / (1 << 20):.0f} MiB"
