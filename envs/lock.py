"""A lock: every distribution with version, source, hash and size; and which of its wheels a machine takes.

Refuses to know where a wheel is downloaded from: wheels are named by file, so that one lock serves the default
index, a mirror and a directory of wheels. How a lock is written down is `pylock`'s affair.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from . import index
from .errors import CannotBuildError

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        wanted = [item for item in self.distributions if applies(item.marker, target)]
        for item in wanted:
            if item.name == "torch":  # what a person is told when the lock does not serve the machine at all
                _pin(item, target, self.name)
        return tuple(_pin(item, target, self.name) for item in wanted)


def exchanged(base: Lock, *, name: str, request: str, files: Iterable[index.File], source: Source) -> Lock:
    """The lock with one distribution at another version, given by its wheels, and everything else as it was.

    Nothing is resolved: that the rest may ask for another version is what such a lock is for.
    """
    wheels = tuple(
        Wheel(filename=file.filename, sha256=file.sha256, size=file.size, upload_time=whole_seconds(file.upload_time))
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


def whole_seconds(text: str) -> str:
    """An index's upload time as a lock writes it, or the lock would differ from itself once read back."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if text else ""
    except ValueError:
        return ""


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


def applies(marker: str, target: index.Target, *, extra: str = "", groups: Iterable[str] = ()) -> bool:
    """Evaluate a marker for a target; a micro version in it is taken as reached where the target has none.

    Args:
        marker: as a requirement or a lock writes it; an empty one always applies.
        target: what it is evaluated for.
        extra: the extra that is asked for, none by default.
        groups: dependency groups that are installed.
    """
    if not marker:
        return True
    full = target.full or f"{target.python}.99"
    environment: dict[str, str | frozenset[str]] = {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": target.architecture,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": target.python,
        "sys_platform": "linux",
        "extra": extra,
        "extras": frozenset(),
        "dependency_groups": frozenset(groups),
    }
    try:
        return Marker(marker).evaluate(environment, context="lock_file")
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName) as error:
        raise ValueError(f"marker {marker!r}: {error}") from error


def _sha256(value: Any) -> str:  # noqa: ANN401  (anything JSON can spell)
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
