"""The one table of signatures, in order of precedence: the first that matches a line names what the line proves."""

from __future__ import annotations

from .device import CUDA, DRIVER, HARDWARE, MEMORY
from .install import INSTALL
from .libraries import LIBRARIES
from .process import ENDINGS, HANGS, NUMBERS
from .races import COMPILER, RACES
from .rule import Role, Signature

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
)


def first_match(text: str) -> tuple[Signature, int, dict[str, str]] | None:
    """The signature that a cleaned line proves, where its match starts, and what the pattern's names caught."""
    lowered = text.lower()
    for signature in TABLE:
        match = signature.search(text, lowered)
        if match is not None:
            return signature, match.start(), {key: value for key, value in match.groupdict().items() if value}
    return None
