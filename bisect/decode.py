"""JSON values into frozen dataclasses: strict on types, tolerant of keys that a newer writer added.

Knows nothing of what the dataclasses mean. A key that is missing takes the field's default, or is an error when it
has none; a value of another type is an error that names the path (`$.threads[1].steps`).
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DecodeError(ValueError):
    """A value does not fit its place; the message names the path."""


def decode(cls: type[T], value: object, *, path: str = "$") -> T:
    """Build `cls`, a dataclass, from a parsed JSON object."""
    if not isinstance(value, Mapping):
        raise DecodeError(f"{path}: expected an object, got {_kind(value)}")
    hints = get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]  # T is a dataclass by contract
        if field.name in value:
            arguments[field.name] = _convert(hints[field.name], value[field.name], f"{path}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DecodeError(f"{path}.{field.name}: missing")
    return cls(**arguments)


def _convert(hint: Any, value: object, path: str) -> Any:  # noqa: ANN401  (a type is only known at run time)
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        return _optional(hint, value, path)
    if origin is tuple:
        return _sequence(get_args(hint)[0], value, path)
    if origin is Mapping:
        return _mapping(get_args(hint)[1], value, path)
    if is_dataclass(hint):
        return decode(hint, value, path=path)  # type: ignore[arg-type]  # a dataclass type, not an instance
    if issubclass(hint, Enum):
        return _member(hint, value, path)
    return value if hint is object else _scalar(hint, value, path)


def _optional(hint: Any, value: object, path: str) -> Any:  # noqa: ANN401
    if value is None:
        return None
    (inner,) = (arm for arm in get_args(hint) if arm is not type(None))
    return _convert(inner, value, path)


def _sequence(inner: Any, value: object, path: str) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, list):
        raise DecodeError(f"{path}: expected a list, got {_kind(value)}")
    return tuple(_convert(inner, item, f"{path}[{index}]") for index, item in enumerate(value))


def _mapping(inner: Any, value: object, path: str) -> Mapping[str, Any]:  # noqa: ANN401
    if not isinstance(value, Mapping):
        raise DecodeError(f"{path}: expected an object, got {_kind(value)}")
    return types.MappingProxyType({key: _convert(inner, item, f"{path}.{key}") for key, item in value.items()})


def _member(hint: type[Enum], value: object, path: str) -> Enum:
    try:
        return hint(value)
    except ValueError as error:
        allowed = ", ".join(str(member.value) for member in hint)
        raise DecodeError(f"{path}: expected one of {allowed}, got {_kind(value)}") from error


def _scalar(hint: Any, value: object, path: str) -> Any:  # noqa: ANN401
    """A float may be written as an int, or as null where it is not a number; a bool is never a number."""
    if hint is float:
        if value is None:
            return float("nan")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise DecodeError(f"{path}: expected {hint.__name__}, got {_kind(value)}")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value), f"{type(value).__name__} {value!r}"[:60])
