"""Ways around the races, wrapped around a drafter's step at a handful of named places.

A workaround sees the process before anything is compiled (`prepare`), each drafter thread before its first step
(`prepare_thread`), every step as a whole from mask building to backward (`step`), each phase in it (`phase`: "mask",
"forward", "backward"), and every call of the compiled attention (`before_call`).
"""

from __future__ import annotations

import contextlib
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING

from .config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class Workaround:
    """Does nothing; the base of the others. `applied` lists what was really changed."""

    name = "none"
    safe_argument = ""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def prepare(self) -> None:
        """Change the process, in the main thread, before the attention is wrapped by torch.compile."""

    def prepare_thread(self) -> None:
        """Change the calling drafter thread, before the start."""

    def step(self) -> AbstractContextManager[object]:
        """Around mask building, forward and backward of one step."""
        return contextlib.nullcontext()

    def phase(self, phase: str) -> AbstractContextManager[object]:  # noqa: ARG002 - for those that need it
        """Around one phase of a step, inside `step`."""
        return contextlib.nullcontext()

    def before_call(self) -> None:
        """Right before each call of the compiled attention."""


class Lock(Workaround):
    """One lock for the process: no thread traces while another calls compiled code."""

    name = "lock"
    safe_argument = "every compiled call and every trace is inside the lock, warm or cold"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def prepare(self) -> None:
        self.applied.append("one RLock around mask building, forward and backward of all drafters")

    def step(self) -> AbstractContextManager[object]:
        return self._lock


WORKAROUNDS: Mapping[str, type[Workaround]] = MappingProxyType({kind.name: kind for kind in (Workaround, Lock)})


def make(name: str) -> Workaround:
    """A fresh workaround by name."""
    if name not in WORKAROUNDS:
        raise ConfigError(f"unknown workaround {name!r}", hint=f"choose one of {', '.join(WORKAROUNDS)}")
    return WORKAROUNDS[name]()
