"""From axes to cells that are ready to run: definitions, locks, what is built, what cannot work here.

Asks the index only for environments that have no lock yet; downloads nothing.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envs import backend, history, machine, resolve, spec
from envs.errors import CannotBuildError, CannotRunError, ToolError
from envs.outlook import entry_of, estimate
from envs.place import refuse_unavailable

from ..builds import changed_since
from ..changed import ChangedError
from . import Blocked, Cell, State, preflight
from .axes import Axes, span
from .key import CLEAN, CellKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envs.room import Estimate
    from envs.settings import Settings

    from .factors import Point

DOWNLOAD_BYTES_S, DISK_BYTES_S = 40e6, 120e6
"""Speeds for the estimate of a build: a fast line and unpacking on a few cores."""
_BASE = "cu130"
"""The definition that a build given as a bare version is derived from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is known of one environment before it is built."""

    definition: spec.Definition | None
    lock: str = ""
    needs: Estimate | None = None
    blocked: Blocked | None = None

    @property
    def build_s(self) -> float:
        """Expected seconds until it is there; 0 when it is, or when nobody can build it."""
        if self.needs is None:
            return 0.0
        return self.needs.download_bytes / DOWNLOAD_BYTES_S + self.needs.disk_bytes / DISK_BYTES_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Every cell asked for, the environments behind them, and each build's torch release and CUDA variant."""

    cells: tuple[Cell, ...]
    rooms: Mapping[str, Room]
    points: Mapping[str, Point]

    @property
    def build_s(self) -> dict[str, float]:
        """Expected seconds of every environment that is not built yet."""
        return {name: room.build_s for name, room in self.rooms.items() if room.needs is not None}


def template(axes: Axes, here: backend.Machine, *, benchmark: str, node: str, cpus: int) -> CellKey:
    """What all cells on one machine, or on the like nodes of a cluster, share."""
    names = [gpu.name for gpu in here.gpus]
    gpus = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
    return CellKey(
        build="",
        profile=" ".join((axes.profile, *axes.arguments)),
        gpu=gpus or "none",
        driver=here.driver,
        benchmark=benchmark,
        platform=f"{sys.platform}-{here.architecture} {cpus} CPUs",
        node=node,
    )


def prepare(
    axes: Axes,
    settings: Settings,
    *,
    here: backend.Machine,
    common: CellKey,
    builds_here: bool = True,
    in_store: bool = True,
) -> Prepared:
    """Find every cell's environment and mark the cells that cannot work; images are looked for where they are used.

    `in_store`: whether runs use the environments of the store of these settings, or nodes build their own.
    """
    keys = span(axes, common)
    rooms: dict[str, Room] = {}
    for key in keys:
        if key.environment not in rooms:
            origin = axes.origins[key.build]
            rooms[key.environment] = _room(key, origin, settings, here, builds_here=builds_here, in_store=in_store)
    profile = preflight.needs_gpu(axes.profile, here)
    cells = tuple(_cell(key, rooms[key.environment], profile) for key in keys)
    return Prepared(cells=cells, rooms=rooms, points=_points(keys, rooms))


def definition_of(key: CellKey, origin: str) -> spec.Definition | Blocked:
    """The definition of a cell's environment, history included; UsageError for a name that stands for nothing.

    `origin` is the build as the axes give it: a shipped definition, a file, or a version (`2.14.1+cu130`).
    """
    base = _base(origin)
    if isinstance(base, Blocked) or key.history == CLEAN:
        return base
    return history.compose(base, history.load(key.history))


def _base(origin: str) -> spec.Definition | Blocked:
    version = _version(origin)
    if version is None:
        return spec.load(origin)
    built_for = backend.variants(version.public)
    if version.local and built_for and version.local not in built_for:
        return Blocked(
            state=State.NOT_PUBLISHED,
            reason=f"torch {version.public} was never built for {version.local}",
            unblock=f"use one of {', '.join(built_for)}",
        )
    return spec.with_torch(spec.load(_BASE), version=version.public, cuda=version.local or "")


def _room(
    key: CellKey, origin: str, settings: Settings, here: backend.Machine, *, builds_here: bool, in_store: bool
) -> Room:
    definition = definition_of(key, origin)
    if isinstance(definition, Blocked):
        return Room(definition=None, blocked=definition)
    blocked = preflight.cannot_run(definition, here)
    if blocked is not None:
        return Room(definition=definition, blocked=blocked)
    try:
        if here.driver and not definition.image and settings.backend == "venv":  # only what a GPU runs compiles C
            machine.require_compiler()
        if definition.image and builds_here:
            refuse_unavailable(settings, definition.image)
        return _resolved(definition, settings, in_store=in_store)
    except (CannotBuildError, CannotRunError) as error:
        return Room(definition=definition, blocked=from_error(error))


def _resolved(definition: spec.Definition, settings: Settings, *, in_store: bool) -> Room:
    if definition.image:  # what is in it is known only once it is there
        return Room(definition=definition, lock=f"image {definition.image}")
    definition = resolve.pinned(definition, settings)
    lock = resolve.lock_for(definition, settings)
    identity = f"{lock.digest[:16]}{_history_digest(definition)}"
    entry = entry_of(definition, settings)
    if entry is not None:
        changed = changed_since(definition.name, entry.digest, settings.store) if in_store else None
        blocked = from_error(ChangedError(changed)) if changed is not None else None
        return Room(definition=definition, lock=identity, blocked=blocked)
    needs = estimate(lock, settings)
    blocked = preflight.does_not_fit(needs, free_bytes=machine.free_bytes(settings.store))
    return Room(definition=definition, lock=identity, needs=needs, blocked=blocked)


def _history_digest(definition: spec.Definition) -> str:
    """What was done to the environment after it was built is part of its identity."""
    if not definition.history:
        return ""
    steps = "\n".join(history.identity(definition))
    return f"+{hashlib.sha256(steps.encode()).hexdigest()[:12]}"


def from_error(error: ToolError) -> Blocked:
    """Why an environment cannot be had, as the state of its cells."""
    return Blocked.from_outcome(error.outcome, reason=error.message, unblock=error.hint)


def _cell(key: CellKey, room: Room, profile: Blocked | None) -> Cell:
    return Cell(key=replace(key, lock=room.lock), blocked=profile or room.blocked)


def _points(keys: Sequence[CellKey], rooms: Mapping[str, Room]) -> dict[str, Point]:
    points = {}
    for key in keys:
        definition = rooms[key.environment].definition
        if definition is not None and definition.torch:
            points[key.build] = (definition.torch, definition.cuda)
    return points


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
