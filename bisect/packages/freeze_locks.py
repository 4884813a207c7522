"""Reads locks of others: which distributions a PEP 751 lock or a uv.lock holds, and where each comes from."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from .freeze_forks import Choice, chosen, installed, offered
from .freeze_lines import Pin, Unreproducible, checked, credentials_removed, parted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envs.index import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLock:
    """A lock as one platform installs it.

    Attributes:
        kind: `pylock` or `uv.lock`.
        here: what is installed.
        elsewhere: what only other platforms install.
        taken: extras and groups that are taken as installed, since the lock does not say which were.
        untaken: the others that it has.
        optional: what those would install.
    """

    kind: str
    here: tuple[Pin | Unreproducible, ...]
    elsewhere: tuple[Pin | Unreproducible, ...]
    taken: tuple[str, ...] = ()
    untaken: tuple[str, ...] = ()
    optional: tuple[Pin | Unreproducible, ...] = ()


def read_lock(text: str, target: Target, *, extras: Iterable[str] = ()) -> OtherLock:
    """Read a lock for a target; ValueError where it does not parse or does not decide what the target installs.

    `extras`: names of the extras and groups of a uv.lock that are installed.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"a lock that does not parse: {error}") from error
    found = _pylock(data, target) if "packages" in data else _uv_lock(data, target, extras)
    _refuse_ambiguous(found.here)
    return found


def _pylock(data: Mapping[str, Any], target: Target) -> OtherLock:
    here, elsewhere = parted((_locked(entry) for entry in data["packages"]), target, data.get("default-groups", ()))
    return OtherLock(kind="pylock", here=here, elsewhere=elsewhere)


def _uv_lock(data: Mapping[str, Any], target: Target, extras: Iterable[str]) -> OtherLock:
    choice = chosen(data, extras)
    listed = data.get("package", [])
    virtual = {position for position, entry in enumerate(listed) if "virtual" in entry.get("source", {})}
    held = installed(data, target, choice) - virtual  # a virtual package has dependencies, and is never installed
    possible = installed(data, target, Choice(everything=True)) - virtual
    entries = [_locked(entry) for entry in listed]
    return OtherLock(
        kind="uv.lock",
        here=tuple(entry for position, entry in enumerate(entries) if position in held),
        elsewhere=tuple(entry for position, entry in enumerate(entries) if position not in held | possible | virtual),
        taken=tuple(sorted(choice.names)),
        untaken=tuple(name for name in offered(data) if name not in choice.names),
        optional=tuple(entry for position, entry in enumerate(entries) if position in possible - held),
    )


def _refuse_ambiguous(entries: Iterable[Pin | Unreproducible]) -> None:
    """A lock installs one version of a name; where the markers leave two, which one it was is not known."""
    versions: dict[str, str] = {}
    for each in entries:
        other = versions.setdefault(each.name, each.version)
        if other != each.version:
            raise ValueError(f"its markers do not decide between {each.name} {other} and {each.version}")


def _locked(entry: Mapping[str, Any]) -> Pin | Unreproducible:
    name, version = canonicalize_name(entry["name"]), str(entry.get("version", ""))
    marker = str(entry.get("marker", ""))
    source = entry.get("source", {})
    if "directory" in entry or source.keys() & {"editable", "virtual", "directory"}:
        return Unreproducible(name=name, reason="a directory of the other machine", line=name, marker=marker)
    if vcs := entry.get("vcs"):
        url = f"git+{credentials_removed(vcs.get('url', ''))}@{vcs.get('commit-id', '')}"
        return Pin(name=name, version=version, source=url, marker=marker)
    if "git" in source:
        url = "git+" + credentials_removed(source["git"]).replace("#", "@")
        return Pin(name=name, version=version, source=url, marker=marker)
    if "path" in entry.get("archive", {}) or "path" in source:
        return Unreproducible(name=name, reason="a file of the other machine", line=name, marker=marker)
    files = [
        *entry.get("wheels", ()),
        *([entry["sdist"]] if "sdist" in entry else []),
        *([entry["archive"]] if "archive" in entry else []),
    ]
    digests = [f"sha256:{file['hashes']['sha256']}" for file in files if file.get("hashes", {}).get("sha256")]
    hashes = tuple(digests) + tuple(file["hash"] for file in files if "hash" in file)
    url = entry.get("archive", {}).get("url", source.get("url", ""))
    if url or not version:
        return Pin(name=name, version=version, source=url, hashes=hashes, marker=marker)
    return replace(checked(name, version, line=name), hashes=hashes, marker=marker)
