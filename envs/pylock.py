"""Locks as files: a valid PEP 751 `pylock.toml`, written, read back, and made from the one that uv writes.

Wheels stand in it by file name; `source = "torch"` marks what must come from PyTorch's own index. A lock carries the
digest of its own content: one edited by hand is noticed and refused.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from . import index
from .errors import UsageError
from .lock import Distribution, Lock, Source, Wheel, applies

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 1
CREATED_BY = "torch-upgrade-bisect"


def to_toml(lock: Lock) -> str:
    """Write a lock as pylock.toml."""
    lines = [
        f"# Made by `python -m envs lock {lock.name}`; do not edit.",
        'lock-version = "1.0"',
        f"requires-python = {_quoted('>=' + min(lock.pythons, key=Version))}",
        f"created-by = {_quoted(CREATED_BY)}",
        "",
    ]
    for item in lock.distributions:
        lines += _package_lines(item)
    lines += [
        "[tool.envs]",
        f"schema = {SCHEMA}",
        f"definition = {_quoted(lock.name)}",
        f"request = {_quoted(lock.request)}",
        f"pythons = [{', '.join(_quoted(python) for python in lock.pythons)}]",
        f"exclude-newer = {_quoted(lock.exclude_newer)}",
        f"digest = {_quoted(lock.digest)}",
    ]
    return "\n".join(lines) + "\n"


def from_toml(text: str, *, origin: str) -> Lock:
    """Read a lock of ours; UsageError when it is not one, is too new, or was changed since it was written."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_a_lock(origin, f"it is not TOML: {error}") from error
    tool = table.get("tool", {}).get("envs", {})
    if isinstance(tool.get("schema"), int) and tool["schema"] > SCHEMA:
        raise UsageError(
            f"{origin} was written by a newer version (schema {tool['schema']}, this one reads {SCHEMA})",
            hint="update this tool",
        )
    try:
        lock = Lock(
            name=tool["definition"],
            request=tool["request"],
            pythons=tuple(tool["pythons"]),
            exclude_newer=tool["exclude-newer"],
            distributions=tuple(_distribution(package) for package in table["packages"]),
        )
        digest = tool["digest"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_a_lock(origin, f"{type(error).__name__}: {error}") from error
    if lock.digest != digest:
        raise UsageError(
            f"{origin} was changed after it was written: its digest is {lock.digest[:12]}, it says {digest[:12]}",
            hint=f"restore it, or make it again with `python -m envs lock {lock.name}`",
        )
    return lock


def from_uv(
    text: str,
    *,
    name: str,
    request: str,
    pythons: tuple[str, ...],
    architectures: tuple[str, ...],
    exclude_newer: str,
    torch_names: frozenset[str],
) -> Lock:
    """Turn the pylock that uv wrote into ours: only Linux wheels for our Pythons, by file name.

    Args:
        text: uv's pylock.toml.
        name: definition the lock is for.
        request: digest of what was asked for.
        pythons: interpreters to keep wheels for.
        architectures: `x86_64`, `aarch64` or both.
        exclude_newer: cut-off that was given to uv.
        torch_names: distributions that uv was told to take from PyTorch's index.
    """
    targets = [
        index.Target(python=python, architecture=architecture, glibc="2.40")
        for python in pythons
        for architecture in architectures
    ]
    distributions = []
    for package in tomllib.loads(text).get("packages", []):
        marker = package.get("marker", "")
        serving = [target for target in targets if any(applies(marker, each) for each in (target, _oldest(target)))]
        wheels = tuple(
            wheel
            for wheel in (_uv_wheel(entry) for entry in package.get("wheels", []))
            if any(_fits(wheel.filename, target) for target in serving)
        )
        if serving and wheels:
            distributions.append(
                Distribution(
                    name=package["name"],
                    version=package["version"],
                    source=Source.TORCH if package["name"] in torch_names else Source.DEFAULT,
                    wheels=wheels,
                    marker=marker,
                )
            )
    return Lock(
        name=name, request=request, pythons=pythons, exclude_newer=exclude_newer, distributions=tuple(distributions)
    )


def locations(text: str) -> dict[str, str]:
    """Where uv found each wheel, by file name; not part of a lock."""
    return {
        _basename(entry): str(entry.get("url") or "")
        for package in tomllib.loads(text).get("packages", [])
        for entry in package.get("wheels", [])
    }


def _fits(filename: str, target: index.Target) -> bool:
    return any(index.rank(file, target) is not None for file in index.from_filenames([filename], url=""))


def _oldest(target: index.Target) -> index.Target:
    """The first release of its minor version: which one a machine has is known when it builds."""
    return replace(target, full=f"{target.python}.0")


def _uv_wheel(entry: Mapping[str, Any]) -> Wheel:
    (file,) = index.from_filenames([_basename(entry)], url="") or (None,)
    if file is None:
        raise UsageError(f"uv locked something that is not a wheel: {_basename(entry)}")
    uploaded = entry.get("upload-time")
    return Wheel(
        filename=file.filename,
        sha256=entry["hashes"]["sha256"],
        size=int(entry.get("size", 0)),
        upload_time=uploaded.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(uploaded, datetime) else "",
    )


def _basename(entry: Mapping[str, Any]) -> str:
    text = entry.get("name") or entry.get("url") or entry.get("path") or ""
    return str(text).rsplit("/", 1)[-1].replace("%2B", "+")


def _distribution(package: Mapping[str, Any]) -> Distribution:
    Version(package["version"])
    wheels = tuple(_uv_wheel(entry) for entry in package["wheels"])
    if not wheels:
        raise ValueError(f"{package['name']} has no wheels")
    if package.get("marker"):
        applies(package["marker"], index.Target(python="3.11", architecture="x86_64", glibc="2.28"))
    return Distribution(
        name=package["name"],
        version=package["version"],
        source=Source(package["tool"]["envs"]["source"]),
        wheels=wheels,
        marker=package.get("marker", ""),
    )


def _package_lines(item: Distribution) -> list[str]:
    lines = ["[[packages]]", f"name = {_quoted(item.name)}", f"version = {_quoted(item.version)}"]
    if item.marker:
        lines.append(f"marker = {_quoted(item.marker)}")
    lines.append("wheels = [")
    lines += [f"    {_wheel_table(wheel)}," for wheel in item.wheels]
    return [*lines, "]", "", "[packages.tool.envs]", f"source = {_quoted(item.source)}", ""]


def _wheel_table(wheel: Wheel) -> str:
    parts = [f"path = {_quoted(wheel.filename)}"]
    if wheel.upload_time:
        parts.append(f"upload-time = {wheel.upload_time}")
    if wheel.size:
        parts.append(f"size = {wheel.size}")
    parts.append(f"hashes = {{ sha256 = {_quoted(wheel.sha256)} }}")
    return f"{{ {', '.join(parts)} }}"


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's."""
    return json.dumps(str(text))


def _not_a_lock(origin: str, why: str) -> UsageError:
    return UsageError(
        f"{origin} is not a lock of this tool: {why}",
        hint="make it again with `python -m envs lock NAME`, or delete it when it lies in the store",
    )
