"""Whether a build fits: what it downloads and writes, and what the disks have left."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import machine, uv, venv
from .errors import CannotRunError, UsageError
from .progress import UNPACKED

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lock import Pin
    from .settings import Settings

_MARGIN_BYTES = 200 * 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a build will take, before it starts.

    Attributes:
        download_bytes: at most this much is downloaded; what uv has cached is not counted.
        disk_bytes: size of the environment.
        cache_bytes: what uv's cache grows by.
        image: the base image that must be fetched first, which nobody knows the size of; '' for none.
    """

    download_bytes: int
    disk_bytes: int
    cache_bytes: int
    image: str = ""

    @property
    def image_told(self) -> str:
        """What a plan says of the image; '' for none."""
        return f"the base image {self.image} is fetched first, its size is not known" if self.image else ""


def refuse_if_full(pins: tuple[Pin, ...], settings: Settings, report: Callable[[str], None]) -> None:
    """Refuse what would not fit, with the numbers; otherwise tell them."""
    needs = estimate(pins, settings)
    cache = uv.cache_directory()
    free = machine.free_bytes(settings.store)
    shared = machine.same_filesystem(settings.store, cache)
    wanted = needs.disk_bytes + (needs.cache_bytes if shared else 0) + _MARGIN_BYTES
    if free < wanted:
        raise _does_not_fit(settings.store, wanted, free)
    if not shared and machine.free_bytes(cache) < needs.cache_bytes:
        raise _does_not_fit(cache, needs.cache_bytes, machine.free_bytes(cache))
    report(
        f"{len(pins)} packages: at most {_gb(needs.download_bytes)} to download, "
        f"about {_gb(needs.disk_bytes)} on disk, {_gb(free)} free"
    )


def refuse_unwritable(store: Path) -> None:
    """Refuse a store in which nothing can be made."""
    existing = next(path for path in (store, *store.parents) if path.exists())
    if not existing.is_dir():
        raise UsageError(f"the store {store} cannot be: {existing} is a file", hint="give a directory with --store")
    try:
        Path(tempfile.mkdtemp(dir=existing)).rmdir()
    except OSError as error:
        raise CannotRunError(
            f"the store {store} cannot be written: {error.strerror}", hint="give another one with --store"
        ) from error


def _does_not_fit(where: Path, wanted: int, free: int) -> CannotRunError:
    return CannotRunError(
        f"the build would not fit: it needs about {_gb(wanted)} at {where}, and {_gb(free)} are free",
        hint="free some space with `python -m envs prune`, or choose another place with --store",
        outcome="disk_full",
    )


def estimate(pins: tuple[Pin, ...], settings: Settings) -> Estimate:
    """What installing the pins downloads and writes."""
    cached = venv.cached_names(pins, uv.cache_directory())
    missing = sum(pin.size for pin in pins if pin.name not in cached and not _in_wheelhouse(pin, settings))
    unpacked = sum(pin.size for pin in pins if pin.name not in cached)
    return Estimate(
        download_bytes=missing,
        disk_bytes=int(sum(pin.size for pin in pins) * UNPACKED),
        cache_bytes=int(unpacked * UNPACKED),
    )


def _in_wheelhouse(pin: Pin, settings: Settings) -> bool:
    return settings.wheelhouse is not None and (settings.wheelhouse / pin.filename).exists()


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
