"""Reading the result file of the benchmark or of the hazard probes into the records of `result`.

Unknown keys are ignored, so a newer writer may add some; a newer schema, another type or a truncated file is refused
with the reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from .decode import DecodeError, decode
from .result import HazardsResult, TrainResult

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 1


class ResultError(ValueError):
    """A result file cannot be used; the message says why."""


def parse_train(text: str) -> TrainResult:
    """Read a training result; ResultError with the reason when it cannot be used."""
    return _parse(text, TrainResult, kind="train")


def parse_hazards(text: str) -> HazardsResult:
    """Read the result of the hazard probes; ResultError with the reason when it cannot be used."""
    return _parse(text, HazardsResult, kind="hazards")


_R = TypeVar("_R", TrainResult, HazardsResult)


def _parse(text: str, cls: type[_R], *, kind: str) -> _R:
    content = _load(text)
    found_kind, schema = content.get("kind"), content.get("schema")
    if found_kind != kind:
        raise ResultError(f"expected a result of kind {kind!r}, got {found_kind!r}")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ResultError(f"schema: expected a number, got {schema!r}")
    if schema > SCHEMA:
        raise ResultError(f"schema {schema} is newer than {SCHEMA}, the newest this version reads")
    if schema < SCHEMA:
        raise ResultError(f"schema {schema} was never written")
    try:
        return decode(cls, content)
    except DecodeError as error:
        raise ResultError(str(error)) from error


def _load(text: str) -> Mapping[str, object]:
    if not text.strip():
        raise ResultError("the result file is empty")
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ResultError("nested too deeply to be a result file") from error
    except ValueError as error:
        raise ResultError(f"not JSON, or cut short: {error}") from error
    if not isinstance(content, dict):
        raise ResultError(f"expected a JSON object, got {type(content).__name__}")
    return content
