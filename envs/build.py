"""From a definition to a finished environment that says itself that it is what was asked for.

The order is: lock, identity, already there?, would it work here, would it fit, build under a temporary name,
ask it what it is, compare, and only then give it its name. Nothing half-made is ever visible.
"""

from __future__ import annotations

import platform
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import expected, history, images, machine, outlook, rehearse, replay, resolve, room, venv
from . import fingerprint as fingerprints
from .environment_file import Entry
from .errors import CannotBuildError, CannotRunError
from .lock import Lock, Pin, pins_digest
from .origin import variant_index
from .place import HOST, place_of
from .progress import UNPACKED
from .pylock import to_toml
from .store import Store, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from .interpreter import Interpreter
    from .place import Place
    from .settings import Settings
    from .spec import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A finished environment.

    Attributes:
        name: the definition it was asked for by.
        digest: its identity.
        path: its directory in the store.
        python: its interpreter.
        fingerprint: what it says it is.
        cached: whether it was there already.
        seconds: time this call took.
        environment: variables every process in it gets, from the definition.
        place: where its processes run.
    """

    name: str
    digest: str
    path: Path
    python: Path
    fingerprint: fingerprints.Fingerprint
    cached: bool
    seconds: float
    environment: tuple[tuple[str, str], ...] = ()
    place: Place = HOST


def build(
    definition: Definition,
    settings: Settings,
    *,
    report: Callable[[str], None],
    require_compiler: bool = False,
) -> Built:
    """Return the environment of a definition, building it when it is not in the store.

    Args:
        definition: what is asked for.
        settings: where from and where to.
        report: gets lines for a person, about one every three seconds.
        require_compiler: refuse before downloading when torch.compile could not work here.

    Raises:
        CannotBuildError: not published, not resolvable, not downloadable, or not what was asked for.
        CannotRunError: this machine cannot: driver, architecture, disk, compiler, interpreter.
    """
    started = time.monotonic()
    _refuse_other_systems()
    store = Store(settings.store)
    place = place_of(settings, definition.image)
    for line in place.shortcomings():
        report(line)
    if definition.as_it_is:
        held, cached = images.entry_of(definition, place, store, report=report)
        return _built(held, definition, store, place, cached=cached, started=started)
    entry = outlook.entry_of(definition, settings)
    if entry is not None:
        return _reused(entry, definition, store, place, started)
    exact = resolve.pinned(history.base_of(definition), settings)
    outlook.preflight(exact, settings, require_compiler=require_compiler and not place.image)
    lock = resolve.lock_for(exact, settings)
    pinned = replace(definition, torch=exact.torch)
    python = place.find_python(lock.pythons, offline=settings.offline)
    if require_compiler:
        python.require_headers()
    pins = lock.select(python.target())
    digest = pins_digest(pins, interpreter=python.identity, history=history.identity(definition))
    with store.locked(digest, report):
        entry = store.read(digest)
        if entry is not None:
            return _reused(entry, definition, store, place, started)
        room.refuse_if_full(pins, settings, report)
        rehearse.refuse_unresolvable(definition.history, settings, python=python, place=place)
        entry = _build(
            pinned,
            lock=lock,
            pins=pins,
            python=python,
            digest=digest,
            settings=settings,
            store=store,
            place=place,
            report=report,
        )
    return _built(entry, definition, store, place, cached=False, started=started)


def _refuse_other_systems() -> None:
    if platform.system() != "Linux":
        raise CannotRunError(
            f"environments are built on Linux only, this is {platform.system()}", hint="use a container"
        )


def _build(
    definition: Definition,
    *,
    lock: Lock,
    pins: tuple[Pin, ...],
    python: Interpreter,
    digest: str,
    settings: Settings,
    store: Store,
    place: Place,
    report: Callable[[str], None],
) -> Entry:
    """Build under a temporary name and rename; whatever goes wrong leaves nothing behind."""
    started = time.monotonic()
    building = store.new_building(digest)
    try:
        log = building / "build.log"
        (building / "pylock.toml").write_text(to_toml(lock), encoding="utf-8")
        report(f"building {definition.name}: torch {definition.torch} for {definition.cuda}, Python {python.version}")
        venv.create(building / "venv", python, log=log, place=place)
        venv.install(
            building / "venv",
            pins,
            settings,
            torch_index=variant_index(definition, settings),
            expected_bytes=int(sum(pin.size for pin in pins) * UNPACKED),
            subject=definition.name,
            log=log,
            report=report,
            place=place,
        )
        if definition.history:
            replay.replay(
                definition.history, building / "venv", settings, logs=building / "steps", report=report, place=place
            )
            replay.forget(building)
        report("asking the environment what it is")
        found = _ask(building, definition, _locked_torch(pins), place, report)
        if definition.history:
            report("noting what the history left")
            expected.keep(building, pins, definition.history)
        entry = Entry(
            name=definition.name,
            digest=digest,
            lock=lock.digest,
            torch=definition.torch,
            cuda=definition.cuda,
            interpreter=python.identity,
            fingerprint=found.moved(str(building), str(store.directory(digest))),
            seconds=round(time.monotonic() - started, 3),
            bytes=size(building / "venv"),
            environment=definition.environment,
            image=place.image,
            image_digests=place.digests,
        )
        store.finish(building, entry)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return entry


def _locked_torch(pins: tuple[Pin, ...]) -> str:
    return next((pin.version for pin in pins if pin.name == "torch"), "")


def _ask(
    building: Path, definition: Definition, locked_torch: str, place: Place, report: Callable[[str], None]
) -> fingerprints.Fingerprint:
    """Ask the environment and refuse one that is not what was asked for.

    A torch that cannot be imported stays: whether that is the failure that is hunted is for the search to say.
    """
    scratch = building / "asked"
    scratch.mkdir()
    found = fingerprints.ask(
        building / "venv" / "bin" / "python",
        scratch=scratch,
        driver=machine.driver_version(),
        environment=definition.environment,
        place=place,
        venv=building / "venv",
        report=report,
    )
    differences = fingerprints.compare(definition, found, locked_torch=locked_torch)
    if definition.history:  # what it did to torch is what it is for
        differences = tuple(item for item in differences if item.outcome != "wrong_build")
    if differences:
        raise CannotBuildError(
            f"{definition.name} is not what was asked for: {'; '.join(item.message for item in differences)}",
            hint="the index serves another build under this version; see `python -m envs lock`",
            outcome=differences[0].outcome,
        )
    shutil.rmtree(scratch, ignore_errors=True)
    return found


def _reused(entry: Entry, definition: Definition, store: Store, place: Place, started: float) -> Built:
    store.touch(entry.digest)
    return _built(entry, definition, store, place, cached=True, started=started)


def _built(entry: Entry, definition: Definition, store: Store, place: Place, *, cached: bool, started: float) -> Built:
    """The driver may have changed since the build: it is asked again, for the price of reading one file."""
    return Built(
        name=definition.name,
        digest=entry.digest,
        path=store.directory(entry.digest),
        python=Path(entry.python) if entry.python else store.python(entry.digest),
        fingerprint=replace(entry.fingerprint, driver=machine.driver_version()),
        cached=cached,
        seconds=round(time.monotonic() - started, 3),
        environment=definition.environment,
        place=place,
    )
