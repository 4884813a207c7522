"""One TOML table read key by key: a wrong type or an unknown key is an error that names file and key. Pure."""

from __future__ import annotations

import difflib
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_E = TypeVar("_E", bound=StrEnum)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}Z)?\Z")


class Table:
    """The keys of one table.

    Args:
        values: the table.
        origin: file and place, for messages.
        known: every key it may have; another one is refused with the near one.
    """

    def __init__(self, values: Mapping[str, Any], *, origin: str, known: Sequence[str]) -> None:
        self.values = values
        self.origin = origin
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys are: {', '.join(known)}"
                raise UsageError(f"{origin}: unknown key {key!r}", hint=hint)

    def wrong(self, key: str, wanted: str) -> UsageError:
        """The error for a value that is not what was wanted."""
        return UsageError(f"{self.origin}: {key} must be {wanted}, not {self.values.get(key)!r}")

    def text(self, key: str, *, required: bool = False) -> str:
        """A string; empty when it is not there and not required."""
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        if required and not value:
            raise UsageError(f"{self.origin}: {key!r} is missing")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of strings")
        return tuple(value)

    def tables(self, key: str) -> tuple[Mapping[str, Any], ...]:
        """A list of tables."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(key, f"a list of tables ([[{key}]])")
        return tuple(value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A table of strings, by name."""
        value = self.values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(key, "a table of strings")
        return tuple(sorted(value.items()))

    def moment(self, key: str) -> str:
        """A date or a moment in UTC, as it is written; empty when it is not there."""
        text = self.text(key)
        if text and not _MOMENT.match(text):
            raise self.wrong(key, "a date like 2026-11-22 or 2026-11-22T00:00:00Z")
        return text

    def choice(self, key: str, enum: type[_E], default: _E | None) -> _E:
        """One of the values of an enum."""
        value = self.values.get(key, default)
        if value not in list(enum):
            raise self.wrong(key, f"one of {', '.join(enum)}")
        return enum(value)
