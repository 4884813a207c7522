"""uv, the program: where it is, and the arguments every call of it shares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from uv import find_uv_bin

from . import process
from .errors import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

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
) -> tuple[int, str]:
    """Run uv without any configuration of the user; its return code and what it wrote (also added to `log`)."""
    start = log.stat().st_size if log.exists() else 0
    done = process.run(
        [program(), *arguments, "--no-config"],
        cwd=log.parent,
        env=process.installer_environment(environ, extra),
        output=log,
        on_line=on_line,
        watch=watch,
    )
    with log.open("rb") as file:
        file.seek(start)
        return done.returncode, file.read().decode("utf-8", errors="replace")
