"""What a list of packages from another machine asks for on this one, and what of it has no place here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envs.errors import UsageError

from . import freeze
from .freeze import Unreproducible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from envs.index import Target

    from .freeze import Freeze, Pin

_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One list, read for one platform and Python.

    Attributes:
        packages: version by name of what comes from an index.
        hashes: `sha256:...` of the only files that may stand for a name, where the list gives them.
        unreproducible: what nobody can install here.
        notes: what a person is told of the rest.
        choices: extras and groups that it has.
        optional: version by name of what those would install that are not taken.
    """

    packages: Mapping[str, str]
    hashes: Mapping[str, tuple[str, ...]]
    unreproducible: tuple[Unreproducible, ...]
    notes: tuple[str, ...]
    choices: tuple[str, ...] = ()
    optional: Mapping[str, str] = field(default_factory=dict)


def listing_in(path: Path, target: Target, *, extras: Iterable[str] = ()) -> Listing:
    """Read a file; UsageError for one that is no list, or none of an environment on the target.

    `extras`: names of the extras and groups of a project's lock that are installed.
    """
    try:
        text = freeze.decode(path.read_bytes())
        read = freeze.parse(text, target=target, extras=extras)
    except ValueError as error:
        raise UsageError(
            f"{path}: {error}", hint="give a freeze or `pip list` of it, or the environment itself"
        ) from error
    sourced = tuple(
        Unreproducible(name=pin.name, reason=f"comes from {pin.source}, not from an index", version=pin.version)
        for pin in read.pins
        if pin.source
    )
    packages = {pin.name: pin.version for pin in read.pins if pin.version and not pin.source}
    here = f"Linux with Python {target.python}"
    if "torch" not in packages:
        raise _no_torch(str(path), read, (*read.unreproducible, *sourced), here)
    return Listing(
        packages=packages,
        hashes={pin.name: pin.hashes for pin in read.pins if pin.name in packages and pin.hashes},
        unreproducible=(*read.unreproducible, *sourced),
        notes=(*_notes(path, read, here), *(f"{path}: {note}" for note in micro_notes(text, target))),
        choices=(*read.taken, *read.untaken),
        optional=_versions(read.optional),
    )


def _versions(entries: Iterable[Pin | Unreproducible]) -> dict[str, str]:
    """Version by name; extras that exclude each other may have two."""
    found: dict[str, list[str]] = {}
    for each in entries:
        found.setdefault(each.name, []).append(each.version)
    return {name: " or ".join(sorted(filter(None, versions))) for name, versions in found.items()}


def _notes(path: Path, read: Freeze, here: str) -> Iterator[str]:
    if read.elsewhere:
        yield f"{path}: left out, not for {here}: {_few(read.elsewhere)}"
    if read.untaken:
        whole = f"with {', '.join(read.taken)}, " if read.taken else ""
        without = f"without its extras and groups {', '.join(read.untaken)}"
        yield f"{path}: taken as `uv sync` installs it, {whole}{without} (--extra NAME for those that were installed)"
    elif read.taken:
        yield f"{path}: its extras and groups are taken as installed: {', '.join(read.taken)}"


def micro_notes(text: str, target: Target) -> tuple[str, ...]:
    """How markers on a micro version were read that decide by it alone, in a line; nothing without such a marker."""
    minor = re.escape(target.python)
    found = re.findall(rf"python_full_version\s*[<>=!~]=?=?\s*\\?['\"]{minor}\.\d\w*\\?['\"]", text)
    if not found:
        return ()
    read = f"for Python {target.full}, which every mix runs on" if target.full else "as if its last release ran"
    told = ", ".join(dict.fromkeys(each.replace("\\", "") for each in found))
    return (f"markers on a micro version are read {read}: {told}",)


def _no_torch(path: str, read: Freeze, unreproducible: Sequence[Unreproducible], here: str) -> UsageError:
    found = next((each for each in unreproducible if each.name == "torch"), None)
    if found is not None:
        return UsageError(
            f"{path}: torch cannot be taken from this list: {found.reason}",
            hint=f"write its exact version, for instance torch=={found.version or '2.11.0'}; "
            "an index or a directory that has it is named with --index",
        )
    if any(each.name == "torch" for each in read.optional):
        return UsageError(
            f"{path} has torch in an extra or group only, and which of them was installed a lock does not say",
            hint=f"name it: --extra {read.untaken[0]} (it has {', '.join(read.untaken)})",
        )
    if any(each.name == "torch" for each in read.elsewhere):
        return UsageError(f"{path} lists no torch for {here}", hint="give the list of an environment on Linux")
    return UsageError(f"{path} lists no torch", hint="what is compared must be two environments of torch")


def _few(left_out: Sequence[Pin | Unreproducible]) -> str:
    told = [f"{each.name} {each.version}".strip() for each in left_out]
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return ", ".join(told[:_SHOWN]) + more
