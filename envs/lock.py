"""A lock: every distribution with version, source, hash and size, as a valid PEP 751 `pylock.toml`.

Knows the file format and which of a distribution's wheels a machine takes. Refuses to know where a wheel is
downloaded from: wheels are written by file name, so that one lock serves the default index, a mirror and a
directory of wheels. `source = "torch"` marks what must come from PyTorch's own index.

A lock carries the digest of its own content: one edited by hand is noticed and refused.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packaging.markers import InvalidMarker, Marker
from packaging.version import Version

from . import index
from .errors import CannotBuildError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = 1
CREATED_BY = "torch-upgrade-bisect"


class Source(StrEnum):
    """Which index a distribution belongs to."""

    DEFAULT = "default"
    TORCH = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One wheel of a distribution; `size` in bytes, 0 when no index said it."""

    filename: str
    sha256: str
    size: int = 0
    upload_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One distribution of a lock with the wheels for every machine the lock serves."""

    name: str
    version: str
    source: Source
    wheels: tuple[Wheel, ...]
    marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One distribution as one machine installs it: exactly one wheel."""

    name: str
    version: str
    source: Source
    filename: str
    sha256: str
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Everything an environment is made of.

    Attributes:
        name: the definition it was made for.
        request: digest of what was asked for; a lock whose definition has changed is stale.
        pythons: interpreters it serves, best first.
        exclude_newer: upload-time cut-off of the resolution.
        distributions: by name, then version.
    """

    name: str
    request: str
    pythons: tuple[str, ...]
    exclude_newer: str
    distributions: tuple[Distribution, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the whole content: the identity of what was resolved."""
        return _sha256([asdict(self)])

    def serves(self, architecture: str) -> bool:
        """Whether it has a torch for the architecture."""
        return any(
            wheel.filename.endswith(f"_{architecture}.whl")
            for item in self.distributions
            if item.name == "torch"
            for wheel in item.wheels
        )

    def select(self, target: index.Target) -> tuple[Pin, ...]:
        """What this machine installs; CannotBuildError when a distribution has no wheel for it."""
        if target.python not in self.pythons:
            raise CannotBuildError(
                f"the lock of {self.name} does not serve Python {target.python}",
                hint=f"it serves {', '.join(self.pythons)}; put one of them on PATH",
                outcome="not_published",
            )
        wanted = [item for item in self.distributions if _applies(item.marker, target)]
        for item in wanted:
            if item.name == "torch":  # what a person is told when the lock does not serve the machine at all
                _pin(item, target, self.name)
        return tuple(_pin(item, target, self.name) for item in wanted)


def exchanged(base: Lock, *, name: str, request: str, files: Iterable[index.File], source: Source) -> Lock:
    """The lock with one distribution at another version, given by its wheels, and everything else as it was.

    Nothing is resolved: that the rest may ask for another version is what such a lock is for.
    """
    wheels = tuple(
        Wheel(filename=file.filename, sha256=file.sha256, size=file.size, upload_time=_whole_seconds(file.upload_time))
        for file in files
    )
    (first, *_) = index.from_filenames((wheel.filename for wheel in wheels), url="")
    version = str(first.version)
    others = tuple(item for item in base.distributions if item.name != first.name)
    exchange = Distribution(name=first.name, version=version, source=source, wheels=wheels)
    ordered = sorted((*others, exchange), key=lambda item: (item.name, item.version))
    return replace(base, name=name, request=request, distributions=tuple(ordered))


def pins_digest(pins: Iterable[Pin], *, interpreter: str, history: Iterable[str] = ()) -> str:
    """Identity of one built environment: its exact wheels, the interpreter, and what was done to it since."""
    return _sha256([[asdict(pin) for pin in pins], interpreter, list(history)])


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
        serving = [target for target in targets if _applies(marker, target)]
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


def _pin(item: Distribution, target: index.Target, name: str) -> Pin:
    files = index.from_filenames((wheel.filename for wheel in item.wheels), url="")
    chosen = index.best(files, target)
    if chosen is None:
        raise CannotBuildError(
            f"{item.name} {item.version} has no wheel for Python {target.python} on {target.architecture} "
            f"with glibc {target.glibc}",
            hint=f"the lock of {name} has {', '.join(wheel.filename for wheel in item.wheels)}",
            outcome="not_published",
        )
    wheel = next(wheel for wheel in item.wheels if wheel.filename == chosen.filename)
    return Pin(
        name=item.name,
        version=item.version,
        source=item.source,
        filename=wheel.filename,
        sha256=wheel.sha256,
        size=wheel.size,
    )


def _applies(marker: str, target: index.Target) -> bool:
    """Evaluate a marker for a target; a micro version in it is taken as reached."""
    if not marker:
        return True
    environment = {
        "implementation_name": "cpython",
        "implementation_version": f"{target.python}.99",
        "os_name": "posix",
        "platform_machine": target.architecture,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{target.python}.99",
        "python_version": target.python,
        "sys_platform": "linux",
        "extra": "",
    }
    try:
        return Marker(marker).evaluate(environment)
    except InvalidMarker as error:
        raise ValueError(f"marker {marker!r}: {error}") from error


def _fits(filename: str, target: index.Target) -> bool:
    return any(index.rank(file, target) is not None for file in index.from_filenames([filename], url=""))


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


def _whole_seconds(text: str) -> str:
    """An index's upload time as a lock writes it, or the lock would differ from itself once read back."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if text else ""
    except ValueError:
        return ""


def _basename(entry: Mapping[str, Any]) -> str:
    text = entry.get("name") or entry.get("url") or entry.get("path") or ""
    return str(text).rsplit("/", 1)[-1].replace("%2B", "+")


def _distribution(package: Mapping[str, Any]) -> Distribution:
    Version(package["version"])
    wheels = tuple(_uv_wheel(entry) for entry in package["wheels"])
    if not wheels:
        raise ValueError(f"{package['name']} has no wheels")
    if package.get("marker"):
        _applies(package["marker"], index.Target(python="3.11", architecture="x86_64", glibc="2.28"))
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


def _sha256(value: Any) -> str:  # noqa: ANN401  (anything JSON can spell)
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _not_a_lock(origin: str, why: str) -> UsageError:
    return UsageError(
        f"{origin} is not a lock of this tool: {why}",
        hint="make it again with `python -m envs lock NAME`, or delete it when it lies in the store",
    )
