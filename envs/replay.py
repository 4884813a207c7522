"""Carries the steps of a history out in an environment that was just built, one log and one freeze a step.

uv and pip resolve differently, so each step names its installer. What cannot be resolved today (a pin that was
deleted since) is CannotBuildError with the reason: it says nothing about torch.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import backend, scrub, uv, uvlog
from .errors import CannotBuildError
from .place import HOST
from .step import Action, Installer, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .errors import ToolError
    from .place import Place
    from .settings import Settings
    from .step import HistoryStep

PIP = "pip==26.1"
"""The pip that carries out pip's steps. It stays outside the environment."""


def replay(
    steps: Sequence[HistoryStep],
    environment: Path,
    settings: Settings,
    *,
    logs: Path,
    report: Callable[[str], None],
    place: Place = HOST,
) -> None:
    """Carry out every step in order.

    Args:
        steps: what to do.
        environment: the virtual environment.
        settings: where packages come from.
        logs: directory that gets `NN-action.log` and `NN-freeze.txt` of every step.
        report: gets a line a step.
        place: where the environment lives.

    Raises:
        CannotBuildError: a step cannot be resolved, downloaded or installed; `outcome` says which.
    """
    logs.mkdir()
    for number, step in enumerate(steps, start=1):
        report(f"step {number} of {len(steps)}: {in_words(step)}")
        log = logs / f"{number:02d}-{step.action}.log"
        log.write_text(f"# {in_words(step)}\n", encoding="utf-8")
        _carry_out(step, environment, settings, log=log, place=place)
        code, text = uv.run(
            ["pip", "freeze", "--python", _python(environment)],
            log=logs / f"{number:02d}-freeze.txt",
            place=place,
            writable=(environment.parent,),
        )
        if code != 0:
            raise uvlog.explain(text, subject=f"the environment is unreadable after step {number}")


def _carry_out(step: HistoryStep, environment: Path, settings: Settings, *, log: Path, place: Place) -> None:
    match step.action:
        case Action.INSTALL | Action.UNINSTALL | Action.SWAP:
            verb = "uninstall" if step.action is Action.UNINSTALL else "install"
            code, text = _installer(step, verb, wanted(step), environment, settings=settings, log=log, place=place)
            if code != 0:
                raise explained(text, step, wanted(step))
        case Action.WIPE_CACHE:
            for cache in ("home", "caches"):
                shutil.rmtree(environment.parent / cache, ignore_errors=True)
        case Action.SET_ENV:
            pass  # part of the definition's environment: every process gets it
        case Action.WRITE_PTH:
            (site,) = environment.glob("lib/python3*/site-packages")
            for name, text in step.files:
                (site / name).write_text(text, encoding="utf-8")


def wanted(step: HistoryStep) -> tuple[str, ...]:
    """The requirements of an install or a swap, the names of an uninstall."""
    return (f"torch=={step.torch}",) if step.action is Action.SWAP else step.packages


def resolution_arguments(step: HistoryStep, settings: Settings) -> list[str]:
    """Where uv looks for what a step installs, and up to which upload time."""
    cutoff = ["--exclude-newer", step.exclude_newer] if step.exclude_newer else []
    indexes = uv.index_arguments(settings, torch_index=_torch_index(step, settings))
    return [*indexes, *cutoff, "--only-binary", ":all:"]


def _installer(
    step: HistoryStep,
    verb: str,
    names: Sequence[str],
    environment: Path,
    *,
    settings: Settings,
    log: Path,
    place: Place,
) -> tuple[int, str]:
    if step.installer is Installer.PIP:
        indexes = uv.index_arguments(settings, torch_index=_torch_index(step, settings))
        return _pip(verb, names, environment, indexes, cutoff=step.exclude_newer, log=log, place=place)
    arguments = ["pip", verb, "--python", _python(environment), *names]
    if verb == "install":
        arguments += resolution_arguments(step, settings)
    return uv.run(arguments, log=log, place=place, settings=settings, writable=(environment.parent,))


def _torch_index(step: HistoryStep, settings: Settings) -> str:
    """Where a swap's torch comes from: PyTorch's index, unless the default one serves it as that variant."""
    if step.action is not Action.SWAP or backend.default_variant(step.torch) == step.cuda:
        return ""
    return settings.index or f"{settings.torch_index}/{backend.index_path(step.cuda, nightly='dev' in step.torch)}"


def _pip(
    verb: str,
    names: Sequence[str],
    environment: Path,
    indexes: Sequence[str],
    *,
    cutoff: str,
    log: Path,
    place: Place,
) -> tuple[int, str]:
    """Run a pip of our own against the environment, which needs none."""
    own = environment.parent / "pip"
    if not own.exists():
        for arguments in (["venv", "--quiet", str(own)], ["pip", "install", "--python", _python(own), PIP]):
            code, text = uv.run(arguments, log=log, place=place, writable=(own.parent,))
            if code != 0:
                return code, text
    arguments = ["--python", _python(environment), "--no-input", "--disable-pip-version-check", verb]
    if verb == "install":
        arguments += ["--only-binary", ":all:", *(_for_pip(word) for word in indexes)]
        arguments += ["--uploaded-prior-to", cutoff] if cutoff else []
    else:
        arguments.append("--yes")
    env = scrub.installer_environment(os.environ, (("PIP_CONFIG_FILE", os.devnull), ("HOME", str(log.parent))))
    done = place.run(
        [_python(own), "-m", "pip", *arguments, *names],
        cwd=log.parent,
        env=env,
        writable=(own.parent,),
        readable=tuple(Path(value) for name, value in env.items() if name in scrub.NETWORK and value[:1] == "/"),
        output=log,
        network=True,
    )
    return done.returncode, log.read_text(encoding="utf-8", errors="replace")


def _for_pip(word: str) -> str:
    """An option of uv as pip spells it."""
    return {"--default-index": "--index-url", "--offline": "--no-index"}.get(word, word)


def forget(building: Path) -> None:
    """Remove what the steps needed and the environment does not."""
    shutil.rmtree(building / "pip", ignore_errors=True)


def explained(log: str, step: HistoryStep, names: Sequence[str]) -> ToolError:
    """Why a step failed. A pin of something else that is gone is a conflict, not a build that was never there."""
    error = uvlog.explain(log, subject=f"cannot {in_words(step)}")
    asked = {canonicalize_name(Requirement(text).name) for text in names}
    missing = {canonicalize_name(name) for name in _MISSING.findall(log)}
    if error.outcome == "not_published" and missing and not missing & asked:
        return CannotBuildError(
            error.message,
            hint=f"a pinned dependency ({', '.join(sorted(missing))}) is no longer on the index: "
            "this says nothing about torch",
            outcome="resolution_conflict",
        )
    return error


_MISSING = re.compile(r"(?:no version of|No matching distribution found for)\s+([A-Za-z0-9._-]+?)(?:\[[^]]*\])?==")


def _python(environment: Path) -> str:
    return str(environment / "bin" / "python")
