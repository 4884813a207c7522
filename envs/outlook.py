"""What is known of an environment without building it: whether it is there, what is in it, what it would take."""

from __future__ import annotations

import json
import platform
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import backend, history, images, machine, resolve, room, venv
from .errors import CannotBuildError, CannotRunError
from .index import Target
from .lock import Lock, Pin, pins_digest
from .origin import variant_index
from .place import HOST, image_to_fetch, place_of
from .pylock import from_toml
from .spec import Definition
from .store import Store

if TYPE_CHECKING:
    from .environment_file import Entry
    from .room import Estimate
    from .settings import Settings


def estimate(lock: Lock, settings: Settings) -> Estimate:
    """What building the lock on this machine will download and write; fetches no image.

    Of an image that is not here yet the Python is not known either: then it is what the lock's best one needs.
    """
    image = image_to_fetch(settings)
    if image:
        glibc = machine.glibc() or "2.17"
        target = Target(python=lock.pythons[0], architecture=platform.machine(), glibc=glibc)
    else:
        target = place_of(settings).find_python(lock.pythons, offline=settings.offline).target()
    return replace(room.estimate(lock.select(target), settings), image=image)


def rehearse_build(definition: Definition, settings: Settings, *, require_compiler: bool = False) -> Estimate:
    """What building would take. Raises what `build` would, as far as that can be known without a download.

    Of an environment in an image only what the machine lacks is known: which Python it has, the image says.
    """
    exact = resolve.pinned(history.base_of(definition), settings)
    preflight(exact, settings, require_compiler=require_compiler and settings.backend == "venv")
    lock = resolve.lock_for(exact, settings)
    needs = estimate(lock, settings)
    if settings.backend == "venv":
        python = HOST.find_python(lock.pythons, offline=settings.offline)
        if require_compiler:
            python.require_headers()
        with tempfile.TemporaryDirectory(prefix="envs-plan-") as scratch:
            venv.refuse_unlisted(
                lock.select(python.target()),
                settings,
                torch_index=variant_index(exact, settings),
                python=python,
                subject=definition.name,
                scratch=Path(scratch),
            )
    return needs


def is_built(what: Definition | Lock, settings: Settings) -> bool:
    """Whether the environment is finished in the store; asks no network."""
    return entry_of(what, settings) is not None


def entry_of(what: Definition | Lock, settings: Settings) -> Entry | None:
    """The finished environment of a definition or lock as it lies in the store; asks no network."""
    done: tuple[str, ...] = ()
    image = ""
    if isinstance(what, Definition):
        if what.as_it_is:
            return images.known_entry(what, settings)
        lock, done, image = resolve.known_lock(what, settings), history.identity(what), what.image
    else:
        lock = what
    if lock is None:
        return None
    try:
        python = place_of(settings, image, may_fetch=False).find_python(lock.pythons, offline=True)
        pins = lock.select(python.target())
    except (CannotBuildError, CannotRunError):
        return None
    return Store(settings.store).read(pins_digest(pins, interpreter=python.identity, history=done))


def pins_of(directory: Path) -> tuple[Pin, ...]:
    """What a finished environment was installed from, by the lock that lies in it."""
    path = directory / "pylock.toml"
    entry = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
    _, version, architecture = entry["interpreter"].split("-", maxsplit=2)
    architecture = architecture.partition("@")[0]
    minor, glibc = ".".join(version.split(".")[:2]), machine.glibc() or "2.17"
    target = Target(python=minor, architecture=architecture, glibc=glibc, full=version)
    return from_toml(path.read_text(encoding="utf-8"), origin=str(path)).select(target)


def preflight(definition: Definition, settings: Settings, *, require_compiler: bool) -> None:
    """Refuse what cannot work here before a byte is downloaded."""
    refusals = backend.preflight(definition.cuda, definition.torch, machine.ask())
    for refusal in refusals:
        if refusal.outcome != "driver_too_old" or not settings.any_driver:
            raise CannotRunError(refusal.message, hint=refusal.hint, outcome=refusal.outcome)
    if require_compiler:
        machine.require_compiler()
