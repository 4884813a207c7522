"""uv, the program: where it is, and the arguments every call of it shares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from uv import find_uv_bin

from . import process, scrub
from .errors import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .place import Place
    from .settings import Settings


def program() -> str:
    """Path of the uv that is installed beside this tool."""
    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise CannotRunError("uv is not installed beside this tool", hint="pip install uv") from error


def index_arguments(settings: Settings, *, torch_index: str = "", only_wheelhouse: bool = False) -> list[str]:
    """Where to look for files: the wheelhouse first, then one index.

    One call looks at one index only: with two, uv takes every name that the first one has from it, and
    PyTorch's index has old copies of common packages.
    """
    arguments = ["--find-links", str(settings.wheelhouse)] if settings.wheelhouse else []
    if only_wheelhouse:
        return [*arguments, "--no-index"]
    if settings.offline:
        arguments.append("--offline")
    chosen = torch_index or settings.default_index
    return [*arguments, "--default-index", chosen] if chosen else arguments


def run(
    arguments: Sequence[str],
    *,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    watch: Callable[[float], bool] | None = None,
    environ: Mapping[str, str] = os.environ,
    extra: Sequence[tuple[str, str]] = (),
    place: Place | None = None,
    settings: Settings | None = None,
    writable: Sequence[Path] = (),
) -> tuple[int, str]:
    """Run uv without any configuration of the user; its return code and what it wrote (also added to `log`).

    With a `place` it runs there, and sees of this machine the log's directory, its own cache, the wheelhouse, and
    what is `writable`.
    """
    start = log.stat().st_size if log.exists() else 0
    argv = [program(), *arguments, "--no-config"]
    env = scrub.installer_environment(environ, extra)
    if place is None or not place.image:
        done = process.run(argv, cwd=log.parent, env=env, output=log, on_line=on_line, watch=watch)
    else:
        cache = cache_directory(environ)
        cache.mkdir(parents=True, exist_ok=True)
        done = place.run(
            argv,
            cwd=log.parent,
            env={**env, "HOME": str(log.parent), "UV_CACHE_DIR": str(cache)},
            writable=(log.parent, cache, *writable),
            readable=_needed(env, settings),
            output=log,
            on_line=on_line,
            watch=watch,
            network=True,
        )
    with log.open("rb") as file:
        file.seek(start)
        return done.returncode, file.read().decode("utf-8", errors="replace")


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where uv keeps what it downloaded."""
    if environ.get("UV_CACHE_DIR"):
        return Path(environ["UV_CACHE_DIR"])
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".cache")
    return Path(cache) / "uv"


def _needed(env: Mapping[str, str], settings: Settings | None) -> tuple[Path, ...]:
    """What uv reads of this machine: itself, certificates, and the wheelhouse."""
    named = [Path(value) for name, value in env.items() if name in scrub.NETWORK and value.startswith("/")]
    wheelhouse = [settings.wheelhouse] if settings is not None and settings.wheelhouse else []
    return (Path(program()), *named, *wheelhouse)
