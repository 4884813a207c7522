"""From a definition to a lock: the committed one, one resolved here before, or one that uv resolves now.

A committed lock serves several Pythons and machines; a lock resolved now serves this one.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from . import history, index, interpreter, lock, pylock, served, spec, uv
from .errors import CannotBuildError, UsageError
from .origin import decide, is_served, published, torch_files, wheelhouse_files
from .resolution import compile_lock
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .settings import Settings

LOCKS = Path(__file__).parent / "locks"


def lock_for(definition: spec.Definition, settings: Settings) -> lock.Lock:
    """The lock of a definition on this machine; resolved by uv when there is none yet.

    A definition without a version of torch takes the newest of its channel; one with a history has its base's.
    """
    definition = history.base_of(definition)
    known = known_lock(definition, settings)
    if known is not None:
        return known
    exact = pinned(definition, settings)
    return known_lock(exact, settings) or lock_now(exact, settings)


def pinned(definition: spec.Definition, settings: Settings) -> spec.Definition:
    """The definition with an exact version of torch; offline, the newest one that was resolved here before."""
    if definition.torch:
        return definition
    known = _newest_known(definition, settings) if settings.offline else ""
    return replace(definition, torch=known) if known else newest(definition, settings)


def _newest_known(definition: spec.Definition, settings: Settings) -> str:
    """Version of the newest torch among the locks that were made here for the definition."""
    locks = (
        pylock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
        for path in Store(settings.store).resolved("").parent.glob("pylock.*.toml")
    )
    versions = [
        Version(item.version)
        for found in locks
        if found.name == definition.name
        for item in found.distributions
        if item.name == "torch"
    ]
    return max(versions).public if versions else ""


def resolved_path(definition: spec.Definition, settings: Settings) -> Path:
    """Where `lock_now` keeps the lock of a definition with an exact version."""
    return Store(settings.store).resolved(resolution_key(definition, settings))


def known_lock(definition: spec.Definition, settings: Settings) -> lock.Lock | None:
    """The lock that needs no network: committed for a shipped definition, or resolved on this machine before."""
    definition = history.base_of(definition)
    if not definition.torch:
        return None
    committed = None if settings.index else committed_lock(definition)
    if (
        committed is not None
        and committed.serves(platform.machine())
        and not _contradicts(settings.wheelhouse, committed, definition)
    ):
        return committed
    path = Store(settings.store).resolved(resolution_key(definition, settings))
    try:
        return pylock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
    except FileNotFoundError:
        return None


def _contradicts(wheelhouse: Path | None, committed: lock.Lock, definition: spec.Definition) -> bool:
    """Whether the directory holds this torch with other bytes than the committed lock's; then it is what is wanted."""
    if wheelhouse is None:
        return False
    locked = {wheel.filename: wheel.size for item in committed.distributions for wheel in item.wheels}
    held = [
        file.filename
        for file in wheelhouse_files(wheelhouse, "torch")
        if index.matches(file.version, Version(definition.torch))
    ]
    return any(locked.get(name) != (wheelhouse / name).stat().st_size for name in held)


def committed_lock(definition: spec.Definition) -> lock.Lock | None:
    """The lock beside the shipped definitions; UsageError when its definition has changed since."""
    path = LOCKS / f"pylock.{definition.name}.toml"
    try:
        found = pylock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
    except FileNotFoundError:
        return None
    if found.request == request_digest(definition):
        return found
    if definition == spec.load(definition.name):
        raise UsageError(
            f"{path} is stale: the definition of {definition.name} has changed since it was made",
            hint=f"make it again with `python -m envs lock {definition.name}`",
        )
    return None


def renew(definition: spec.Definition, settings: Settings, files: Sequence[index.File]) -> str:
    """Resolve anew where the lock kept on this machine is of another file than the index serves now; why, or ''.

    `files`: what the index lists now.
    """
    definition = history.base_of(definition)
    path = resolved_path(definition, settings)
    if settings.offline or not files or not path.exists():
        return ""
    kept = pylock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
    why = served.replaced(kept, files, since=path.stat().st_mtime)
    if why:
        lock_now(definition, settings, again=True)
    return why


def lock_now(definition: spec.Definition, settings: Settings, *, again: bool = False) -> lock.Lock:
    """Resolve for this machine and keep the lock in the store; `again`, whatever uv knows of the wheels already."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    target = python.target()
    resolved = compile_lock(
        definition,
        settings,
        origin=decide(definition, settings, target),
        request=request_digest(definition),
        pythons=(target.python,),
        architectures=(target.architecture,),
        platform=["--python", str(python.path)],
        again=again,
    )
    keep_lock(definition, settings, resolved)
    return resolved


def keep_lock(definition: spec.Definition, settings: Settings, resolved: lock.Lock) -> None:
    """Make this lock the one that `lock_for` answers for the definition on this machine."""
    Store(settings.store).keep_resolved(resolution_key(definition, settings), pylock.to_toml(resolved))


def lock_universal(definition: spec.Definition, settings: Settings) -> lock.Lock:
    """Resolve for every Python of the definition and both architectures: what is committed."""
    target = index.Target(python=definition.python, architecture="x86_64", glibc="2.40")
    origin = decide(definition, settings, target)
    both = bool(origin.location) or is_served(definition, "aarch64")
    return compile_lock(
        definition,
        settings,
        origin=origin,
        request=request_digest(definition),
        pythons=definition.pythons,
        architectures=("x86_64", "aarch64") if both else ("x86_64",),
        platform=["--universal", "--python-version", min(definition.pythons, key=Version)],
    )


def newest(definition: spec.Definition, settings: Settings, *, date: str = "") -> spec.Definition:
    """The definition with the newest torch of its channel for this machine, or the nightly of a date (20260215)."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    files = torch_files(definition, settings)
    wanted = [file for file in files if not date or f"dev{date}" in str(file.version)]
    found = index.best(wanted, python.target())
    if found is None:
        what = f"nightly of {date}" if date else f"torch for {definition.cuda}"
        raise CannotBuildError(
            f"there is no {what} for Python {python.minor} on {python.target().architecture}",
            hint=published(files),
            outcome="not_published",
        )
    return replace(definition, torch=found.version.public)


def request_digest(definition: spec.Definition) -> str:
    """Digest of everything that a resolution depends on."""
    asked = [
        definition.torch,
        definition.cuda,
        definition.channel,
        definition.pythons,
        definition.requirements,
        definition.exclude_newer,
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def resolution_key(definition: spec.Definition, settings: Settings) -> str:
    """Digest of the request and of where it was resolved; a wheelhouse counts with the torch it holds now."""
    held = []
    if settings.wheelhouse is not None:
        paths = sorted(settings.wheelhouse.glob("torch-*.whl"))
        held = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    places = [settings.index, str(settings.wheelhouse or ""), settings.default_index, settings.torch_index, held]
    return hashlib.sha256(json.dumps([request_digest(definition), definition.name, places]).encode()).hexdigest()
