"""What an object that was read from JSON must hold, key by key: read once, at the edge, and believed afterwards.

Keys that a shape does not name are let through: a newer version may write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a value must be; `words` say it, `optional` that it may be left out."""

    fits: Callable[[Any], bool]
    words: str
    optional: bool = False


Shape: TypeAlias = Mapping[str, Kind]


def fault(entry: Mapping[str, Any], shape: Shape) -> str:
    """The first thing wrong with an entry, in words; '' for nothing."""
    for name, kind in shape.items():
        if name not in entry:
            if kind.optional:
                continue
            return f"{name!r} is missing"
        if not kind.fits(entry[name]):
            return f"{name!r} is not {kind.words}"
    return ""


def may_lack(kind: Kind) -> Kind:
    """The same, for a key that may be left out."""
    return replace(kind, optional=True)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number that a float can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def is_name(value: object) -> bool:
    """Whether it can name a candidate: text, not empty, that a terminal shows as it is."""
    return isinstance(value, str) and value != "" and value.isprintable()


def one_of(words: Sequence[str]) -> Kind:
    """One of these words."""
    return Kind(fits=lambda value: isinstance(value, str) and value in words, words=f"one of {', '.join(words)}")


def or_none(kind: Kind) -> Kind:
    """The same, or null, or left out."""
    return Kind(fits=lambda value: value is None or kind.fits(value), words=f"{kind.words} or null", optional=True)


def list_of(kind: Kind, words: str) -> Kind:
    """A list of such values, whose name in the plural is `words`."""
    return Kind(fits=lambda value: isinstance(value, list) and all(map(kind.fits, value)), words=f"a list of {words}")


def record(shape: Shape) -> Kind:
    """An object of this shape."""
    return Kind(fits=lambda value: isinstance(value, dict) and not fault(value, shape), words="whole")


TEXT = Kind(fits=lambda value: isinstance(value, str), words="text")
NAME = Kind(fits=is_name, words="a name")
NUMBER = Kind(fits=is_number, words="a finite number")
SECONDS = Kind(fits=lambda value: is_number(value) and value >= 0, words="seconds, 0 or more")
TRUTH = Kind(fits=lambda value: isinstance(value, bool), words="true or false")
OBJECT = Kind(fits=lambda value: isinstance(value, dict), words="an object")
COUNT = Kind(fits=lambda value: isinstance(value, int) and not isinstance(value, bool), words="a whole number")
TEXTS, NAMES = list_of(TEXT, "texts"), list_of(NAME, "names")
PAIRS = list_of(Kind(fits=lambda value: TEXTS.fits(value) and len(value) == 2, words="a pair"), "pairs of texts")

COMMAND: Shape = {"command": TEXT, "argv": TEXTS, "cwd": TEXT}
"""What a run directory keeps of the command that made it, wherever it keeps it."""
