"""One thing that was done to an environment after it was built: what it may be, its TOML table, and it in a few words.

Knows what a step says. What steps amount to on a base is in `history`, how one is carried out in `replay`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = ("action", "packages", "torch", "cuda", "installer", "variables", "files", "exclude_newer")


class Action(StrEnum):
    """What a step of a history does to the environment."""

    INSTALL = "install"
    UNINSTALL = "uninstall"
    SWAP = "swap"
    WIPE_CACHE = "wipe-cache"
    SET_ENV = "set-env"
    WRITE_PTH = "write-pth"


class Installer(StrEnum):
    """Who carries a step out; the two resolve differently, so it belongs to the history."""

    UV = "uv"
    PIP = "pip"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One thing that was done to an environment after it was built.

    Attributes:
        action: what was done.
        packages: requirement strings for install, names for uninstall.
        torch: version for a swap, with `cuda` its variant.
        cuda: CUDA tag of the swapped-in torch.
        installer: who did it.
        variables: environment variables that stay set from here on (set-env).
        files: text of each `.pth` put into site-packages, by name (write-pth).
        exclude_newer: upload-time cut-off of what is resolved.
    """

    action: Action
    packages: tuple[str, ...] = ()
    torch: str = ""
    cuda: str = ""
    installer: Installer = Installer.UV
    variables: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    exclude_newer: str = ""


def parse_steps(tables: object, *, origin: str) -> tuple[HistoryStep, ...]:
    """The steps of a history from its TOML tables."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{origin}: steps must be tables ([[steps]])")
    return tuple(parse_step(table, origin=f"{origin}: step {number}") for number, table in enumerate(tables, start=1))


def parse_step(values: Mapping[str, Any], *, origin: str) -> HistoryStep:
    """One step from its TOML table; UsageError says which key is wrong."""
    table = Table(values, origin=origin, known=_KEYS)
    return HistoryStep(
        action=table.choice("action", Action, None),
        packages=table.texts("packages"),
        torch=table.text("torch"),
        cuda=table.text("cuda"),
        installer=table.choice("installer", Installer, Installer.UV),
        variables=table.pairs("variables"),
        files=table.pairs("files"),
        exclude_newer=table.moment("exclude_newer"),
    )


def in_words(step: HistoryStep) -> str:
    """A step in a few words: `install sglang==0.5.9 with uv`."""
    match step.action:
        case Action.INSTALL | Action.UNINSTALL:
            return f"{step.action} {' '.join(step.packages)} with {step.installer}"
        case Action.SWAP:
            return f"swap torch to {step.torch} {step.cuda} with {step.installer}"
        case Action.WIPE_CACHE:
            return "wipe the compile caches"
        case Action.SET_ENV:
            return "set " + " ".join(f"{name}={value}" for name, value in step.variables)
        case Action.WRITE_PTH:
            return f"put {' '.join(name for name, _ in step.files)} into site-packages"
