"""From pinned wheels to a virtual environment on disk: uv makes it and installs into it, hashes required.

Installs exactly what the lock says (`--no-deps`), from one index at a time, and shows how far it is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import uv, uvlog
from .lock import Source
from .progress import Progress
from .store import size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .errors import ToolError
    from .interpreter import Interpreter
    from .lock import Pin
    from .place import Place
    from .settings import Settings

_LOOK_EVERY_S = 3.0


def create(path: Path, python: Interpreter, *, log: Path, place: Place) -> None:
    """Make an empty environment. Its scripts find it wherever it is moved to."""
    code, text = uv.run(
        ["venv", "--no-project", "--relocatable", "--quiet", "--python", str(python.path), str(path)],
        log=log,
        place=place,
    )
    if code != 0:
        raise uvlog.explain(text, subject="cannot create the environment")


def install(
    path: Path,
    pins: Sequence[Pin],
    settings: Settings,
    *,
    torch_index: str,
    expected_bytes: int,
    subject: str,
    log: Path,
    report: Callable[[str], None],
    place: Place,
) -> None:
    """Install the pins into the environment at `path`.

    Args:
        path: the environment.
        pins: exactly these wheels.
        settings: where to look for them.
        torch_index: URL of the index of those that come from PyTorch's.
        expected_bytes: estimated size of the finished environment, for the progress.
        subject: what to call it in an error.
        log: gets what uv writes.
        report: gets one line every few seconds.
        place: where the environment lives.
    """
    progress = Progress(sizes={pin.name: pin.size for pin in pins}, unpacked=expected_bytes)
    for source in Source:
        group = [pin for pin in pins if pin.source is source]
        if group:
            location = torch_index if source is Source.TORCH else ""
            _install_group(
                path, group, settings, location, subject=subject, log=log, progress=progress, report=report, place=place
            )


def refuse_unlisted(
    pins: Sequence[Pin], settings: Settings, *, torch_index: str, python: Interpreter, subject: str, scratch: Path
) -> None:
    """Ask the indexes for the pins as `install` will, and download nothing.

    Only whether a version is listed is seen: uv compares hashes with what it downloads.

    Raises:
        CannotBuildError: a pin is not there, or an index does not answer.
    """
    log, asks_anew = scratch / "uv.log", [] if settings.offline else ["--refresh"]
    for source in Source:
        group = [pin for pin in pins if pin.source is source]
        arguments = [*("pip", "install", "--dry-run", "--python", str(python.path), "--target", str(scratch / "none"))]
        arguments += _what(group, scratch / f"requirements-{source}.txt")
        told = [
            uv.run([*arguments, *asks_anew, *indexes], log=log, settings=settings)
            for indexes in (_attempts(group, settings, torch_index if source is Source.TORCH else "") if group else [])
        ]
        if told and all(code != 0 for code, _ in told):
            raise uvlog.explain(told[0][1], subject=f"cannot install {subject}")


def _what(pins: Sequence[Pin], requirements: Path) -> list[str]:
    """Arguments for exactly these wheels."""
    requirements.write_text(
        "".join(f"{pin.name}==={pin.version} --hash=sha256:{pin.sha256}\n" for pin in pins), encoding="utf-8"
    )
    return ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirements", str(requirements)]


def _install_group(
    path: Path,
    pins: Sequence[Pin],
    settings: Settings,
    torch_index: str,
    *,
    subject: str,
    log: Path,
    progress: Progress,
    report: Callable[[str], None],
    place: Place,
) -> None:
    arguments = ["pip", "install", "--python", str(path / "bin" / "python")]
    arguments += _what(pins, log.with_name(f"requirements-{pins[0].source}.txt"))
    started = time.monotonic()
    next_look = _LOOK_EVERY_S
    cache = uv.cache_directory()

    def watch(elapsed: float) -> bool:
        nonlocal next_look
        if elapsed >= next_look:
            unpacking = sum(size(partial) for partial in cache.glob(".tmp*"))
            report(progress.line(unpacking=unpacking, installed=size(path), elapsed_s=time.monotonic() - started))
            next_look = time.monotonic() - started + _LOOK_EVERY_S
        return False

    first_error: ToolError | None = None
    for indexes in _attempts(pins, settings, torch_index):
        code, text = uv.run(
            [*arguments, *indexes], log=log, on_line=progress.see, watch=watch, place=place, settings=settings
        )
        if code == 0:
            return
        first_error = first_error or uvlog.explain(text, subject=f"cannot install {subject}")
        if first_error.outcome == "disk_full":
            break
    assert first_error is not None
    raise first_error


def _attempts(pins: Sequence[Pin], settings: Settings, torch_index: str) -> list[list[str]]:
    """Index arguments to try in turn; hashes make sure that every one of them gives the same bytes."""
    held = settings.wheelhouse is not None and all((settings.wheelhouse / pin.filename).exists() for pin in pins)
    if held:
        return [uv.index_arguments(settings, only_wheelhouse=True)]
    attempts = [uv.index_arguments(settings, torch_index=torch_index)]
    if settings.index and not torch_index:
        attempts.append(uv.index_arguments(settings, torch_index=settings.index))
    return attempts


def cached_names(pins: Sequence[Pin], cache: Path) -> frozenset[str]:
    """Names of the pins that uv has unpacked already, as far as its cache's layout is understood."""
    buckets = [*cache.glob("wheels-v*/pypi"), *cache.glob("wheels-v*/index/*")]
    return frozenset(pin.name for pin in pins if any(_is_cached(pin, bucket) for bucket in buckets))


def _is_cached(pin: Pin, bucket: Path) -> bool:
    stem = pin.filename.removesuffix(".whl").partition("-")[2]
    return (bucket / pin.name / stem).exists()
