"""The exit code of a command that makes a fixed number of runs, from its answer: now, or as it lies in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .changed import EXIT_CODE
from .model import Outcome, OutcomeName

if TYPE_CHECKING:
    from collections.abc import Mapping

UNSETTLED = 4
MACHINE_CANNOT = {
    OutcomeName.NO_GPU,
    OutcomeName.DRIVER_TOO_OLD,
    OutcomeName.ARCH_UNSUPPORTED,
    OutcomeName.HARDWARE_FAULT,
    OutcomeName.DISK_FULL,
}


def train_code(outcome: OutcomeName, *, changed: bool = False) -> int:
    """0 answered, 4 cannot be told, 6 this machine cannot run it, or ran something else than was built."""
    if outcome in MACHINE_CANNOT or changed:
        return EXIT_CODE
    return UNSETTLED if outcome is OutcomeName.UNKNOWN else 0


def kept_code(answer: Mapping[str, Any]) -> int:
    """What the command that wrote the answer exited with; older answers do not say it.

    Raises:
        KeyError, TypeError, ValueError: it is not an answer.
    """
    if "exit_code" in answer:
        return int(answer["exit_code"])
    return train_code(Outcome.parse(answer["verdict"]).name) if answer["kind"] == "train" else 0
