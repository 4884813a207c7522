"""Reads locks of others: which distributions a PEP 751 lock or a uv.lock holds, and where each comes from."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from .freeze_lines import Pin, Unreproducible, credentials_removed

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_lock(text: str) -> tuple[str, tuple[Pin | Unreproducible, ...], tuple[str, ...]]:
    """Kind of the lock, its entries, and the dependency groups that it installs unless told otherwise.

    ValueError for a text that does not parse.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"a lock that does not parse: {error}") from error
    kind = "pylock" if "packages" in data else "uv.lock"
    entries = data.get("packages", data.get("package", []))
    return kind, tuple(_locked(entry) for entry in entries), tuple(data.get("default-groups", ()))


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
    if "path" in entry.get("archive", {}):
        return Unreproducible(name=name, reason="a file of the other machine", line=name, marker=marker)
    files = [
        *entry.get("wheels", ()),
        *([entry["sdist"]] if "sdist" in entry else []),
        *([entry["archive"]] if "archive" in entry else []),
    ]
    digests = [f"sha256:{file['hashes']['sha256']}" for file in files if file.get("hashes", {}).get("sha256")]
    hashes = tuple(digests) + tuple(file["hash"] for file in files if "hash" in file)
    url = entry.get("archive", {}).get("url", source.get("url", ""))
    return Pin(name=name, version=version, source=url, hashes=hashes, marker=marker)
