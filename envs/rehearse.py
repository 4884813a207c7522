"""Asks whether every step of a history still resolves, before gigabytes are installed for the steps before it.

A torch or a pin that was deleted since is CannotBuildError with the reason: it says nothing about torch.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import replay, uv
from .place import HOST
from .step import Action, Installer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .interpreter import Interpreter
    from .place import Place
    from .settings import Settings
    from .step import HistoryStep


def refuse_unresolvable(
    steps: Sequence[HistoryStep], settings: Settings, *, python: Interpreter, place: Place = HOST
) -> None:
    """Resolve what each step installs, on its own.

    Of a step of pip's only what it names is looked up, because pip resolves the rest differently. Offline nothing is
    asked: a cache that suffices to install may not suffice to resolve anew.

    Raises:
        CannotBuildError: a step cannot be resolved; `outcome` says which way.
    """
    if settings.offline:
        return
    for step in steps:
        if step.action in (Action.INSTALL, Action.SWAP):
            _resolve(step, settings, python=python, place=place)


def _resolve(step: HistoryStep, settings: Settings, *, python: Interpreter, place: Place) -> None:
    wanted = replay.wanted(step)
    with tempfile.TemporaryDirectory(prefix="envs-rehearse-") as scratch:
        asked = Path(scratch) / "wanted.txt"
        asked.write_text("".join(f"{text}\n" for text in wanted), encoding="utf-8")
        arguments = ["pip", "compile", str(asked), "--output-file", str(Path(scratch) / "found.txt"), "--quiet"]
        arguments += ["--python", str(python.path), *replay.resolution_arguments(step, settings)]
        arguments += ["--no-deps"] if step.installer is Installer.PIP else []
        code, text = uv.run(arguments, log=Path(scratch) / "uv.log", place=place, settings=settings)
    if code != 0:
        raise replay.explained(text, step, wanted)
