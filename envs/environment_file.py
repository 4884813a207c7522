"""`environment.json`: what a finished environment is, written beside it and read again.

A damaged file, or one of a newer version, is an error that says what to do; none is no environment.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from . import fingerprint as fingerprints
from .errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "environment.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finished environment as written beside it.

    Attributes:
        name: definition it was first built for.
        digest: identity: exact wheels, interpreter and history.
        lock: digest of the lock it came from.
        torch: locked version of torch.
        cuda: CUDA tag asked for.
        interpreter: `cpython-3.11.7-x86_64`.
        fingerprint: what it said it is when it was built.
        seconds: time the build took.
        bytes: size of its files.
        environment: variables every process in it gets.
        image: id of the container image it lives in; empty on this machine.
        image_digests: what registries call that image, `name@sha256:...`; empty for one that came from none.
        image_variables: variables the image itself sets that change what torch loads or compiles.
        python: interpreter, when it is not the one of an own virtual environment (an image as it is).
    """

    name: str
    digest: str
    lock: str
    torch: str
    cuda: str
    interpreter: str
    fingerprint: fingerprints.Fingerprint
    seconds: float = 0.0
    bytes: int = 0
    environment: tuple[tuple[str, str], ...] = field(default=())
    image: str = ""
    python: str = ""
    image_digests: tuple[str, ...] = ()
    image_variables: tuple[tuple[str, str], ...] = ()

    @property
    def minor(self) -> str:
        """Minor version of its Python, `3.11`."""
        return ".".join(self.interpreter.split("-")[1].split(".")[:2])

    @property
    def as_it_is(self) -> bool:
        """Whether it is an image as it is, with no virtual environment in the store."""
        return bool(self.python)


def write(directory: Path, entry: Entry) -> None:
    """Write it to the disk itself: the environment is finished when its directory gets its name."""
    with (directory / NAME).open("w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, **asdict(entry)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read(directory: Path) -> Entry | None:
    """What the environment in a directory is; None where none is finished."""
    path = directory / NAME
    try:
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is unreadable: {error}", hint=f"remove {directory} and build the environment again"
        ) from error
    schema = table.pop("schema", None)
    if schema != SCHEMA:
        raise UsageError(
            f"{path} was written by a newer version (schema {schema}, this one knows {SCHEMA})",
            hint="update this tool, or choose another store with --store",
        )
    try:
        said = fingerprints.from_json(table.pop("fingerprint"))
        lists = {key: tuple(table.pop(key, ())) for key in ("environment", "image_digests", "image_variables")}
        return Entry(
            **table,
            fingerprint=said,
            environment=tuple((name, value) for name, value in lists["environment"]),
            image_digests=lists["image_digests"],
            image_variables=tuple((name, value) for name, value in lists["image_variables"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is damaged: {error}", hint=f"remove {directory} and build the environment again"
        ) from error
