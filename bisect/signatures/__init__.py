"""The one table of signatures, in order of precedence: the first that matches a line names what the line proves."""

from __future__ import annotations

import functools

from .device import CUDA, DRIVER, HARDWARE, MEMORY
from .install import INSTALL
from .libraries import LIBRARIES
from .process import DEATHS, ENDINGS, HANGS, NUMBERS
from .races import COMPILER, RACES
from .rule import NO_DIGITS, Role, Signature

__all__ = ["TABLE", "Role", "Signature", "first_match"]

TABLE: tuple[Signature, ...] = (
    *RACES,
    *MEMORY,
    *INSTALL[:1],
    *HARDWARE,
    *DRIVER,
    *CUDA,
    *LIBRARIES,
    *COMPILER,
    *INSTALL[1:],
    *HANGS,
    *ENDINGS,
    *NUMBERS,
    *DEATHS,
)


def first_match(text: str) -> tuple[Signature, tuple[int, int], dict[str, str]] | None:
    """The signature that a cleaned line proves, where its match starts and ends, and what the pattern's names caught."""
    lowered = text.lower()
    for signature in _candidates(lowered.translate(NO_DIGITS)):
        match = signature.search(text, lowered)
        if match is not None:
            return signature, match.span(), {key: value for key, value in match.groupdict().items() if value}
    return None


@functools.lru_cache(maxsize=4096)
def _candidates(shape: str) -> tuple[Signature, ...]:
    """The signatures that a line of this shape can match: a log is mostly a few shapes with other numbers."""
    return tuple(signature for signature in TABLE if any(anchor in shape for anchor in signature.shape_anchors))
