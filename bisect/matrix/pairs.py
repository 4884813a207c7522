"""How a matrix measures throughput on a machine: in pairs of runs made at the same time, or one run after the other.

Decided when it begins there, and kept: once the baseline ran beside another run, the rate of a run made alone is
compared with nothing, so a change on the way would void what was measured, or all that is measured from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.errors import UsageError

if TYPE_CHECKING:
    from ..journal import Contents

EVENT = "pairs"
_WORDS = {True: "in pairs made at the same time", False: "one run after the other"}


def begun(contents: Contents, machine: tuple[str, ...]) -> bool | None:
    """Whether the matrix began on this machine with pairs; None where it did not begin there."""
    return next((entry["together"] for entry in contents.of(EVENT) if tuple(entry["machine"]) == machine), None)


def settled(before: bool | None, *, together: bool, is_asked: bool) -> bool:  # noqa: FBT001  (what `begun` found)
    """Whether runs are made in pairs now; UsageError where that is asked for otherwise than it began.

    Args:
        before: what `begun` found.
        together: what the command line comes to.
        is_asked: whether it says so itself; what it leaves open is as it was.
    """
    if before is None or before is together:
        return together
    if not is_asked:
        return before
    raise UsageError(
        f"this matrix measures throughput {_WORDS[before]}, and its rates cannot be compared with others",
        hint="leave --pairs out, or give another --out",
    )
