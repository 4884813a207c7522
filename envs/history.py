"""What was done to an environment after it was built: ordered steps in a small TOML file, on top of a base.

`cu128+sglang-residue` is the definition `cu128` with the steps of `histories/sglang-residue.toml`. Knows the file
format and what the steps amount to; refuses to know how a step is carried out (`replay`).
"""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement

from . import spec
from .errors import UsageError
from .step import Action, HistoryStep, parse_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .spec import Definition

DIRECTORY = Path(__file__).parent / "histories"
BASE = "base"
"""In a swap step: the torch of the base environment."""
_KEYS = ("summary", "bases", "exclude_newer", "steps", "instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One history as written.

    Attributes:
        name: the file's name, what follows the `+`.
        summary: one line for lists.
        bases: definitions it ships for (one session each); any other may be asked for too.
        steps: in order.
        exclude_newer: upload-time cut-off of the steps; empty for that of the base.
        instead: per base, requirements that replace others there: another torch needs other releases.
    """

    name: str
    summary: str
    bases: tuple[str, ...]
    steps: tuple[HistoryStep, ...]
    exclude_newer: str = ""
    instead: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


def shipped() -> tuple[History, ...]:
    """Every history in `envs/histories`, by name."""
    return tuple(load(path.stem) for path in sorted(DIRECTORY.glob("*.toml")))


def names() -> tuple[str, ...]:
    """What the shipped histories on their bases are called: `cu128+sglang-residue`."""
    return tuple(f"{base}+{found.name}" for found in shipped() for base in found.bases)


def definitions() -> tuple[Definition, ...]:
    """Every shipped history on each of the bases it ships for."""
    return tuple(compose(spec.load(base), found) for found in shipped() for base in found.bases)


def load(name_or_path: str) -> History:
    """Read a shipped history by name, or any TOML file by path."""
    path = Path(name_or_path) if name_or_path.endswith(".toml") else DIRECTORY / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        names = sorted(found.stem for found in DIRECTORY.glob("*.toml"))
        near = difflib.get_close_matches(name_or_path, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
        raise UsageError(f"no history named {name_or_path!r}", hint=hint) from None
    return parse(text, name=path.stem, origin=str(path))


def parse(text: str, *, name: str, origin: str) -> History:
    """Turn the text of a history into a History; UsageError says which key of which step is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is not TOML: {error}") from error
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are: {', '.join(_KEYS)}"
            raise UsageError(f"{origin}: unknown key {key!r}", hint=hint)
    steps = parse_steps(table.get("steps", []), origin=origin)
    for number, step in enumerate(steps, start=1):
        _check(step, f"{origin}: step {number}")
    if not steps:
        raise UsageError(f"{origin} has no steps", hint="add [[steps]] with an action")
    return History(
        name=name,
        summary=str(table.get("summary", "")),
        bases=tuple(str(base) for base in table.get("bases", ())),
        steps=steps,
        exclude_newer=str(table.get("exclude_newer", "")),
        instead=tuple((base, tuple(sorted(pairs.items()))) for base, pairs in table.get("instead", {}).items()),
    )


def compose(base: Definition, history: History) -> Definition:
    """The base with the history: `cu128+sglang`. What `set-env` sets, every process in it gets."""
    instead = dict(dict(history.instead).get(base.name, ()))
    steps = tuple(_for_base(step, base, instead, history) for step in history.steps)
    variables = dict(base.environment)
    for step in steps:
        variables.update(step.variables)
    return replace(
        base,
        name=f"{base.name}+{history.name}",
        summary=f"{base.name}, then {history.summary}",
        environment=tuple(sorted(variables.items())),
        history=steps,
    )


def base_of(definition: Definition) -> Definition:
    """The definition that was built before the history began; the definition itself if it has none."""
    name, _, history = definition.name.partition("+")
    if not definition.history or not history:
        return replace(definition, history=())
    base = spec.load(name) if (spec.DIRECTORY / f"{name}.toml").exists() else replace(definition, name=name)
    return replace(base, torch=definition.torch, cuda=definition.cuda, history=())


def identity(definition: Definition) -> tuple[str, ...]:
    """One line a step, for the digest of the environment: what, with which installer, up to which upload time."""
    told = (asdict(step) for step in definition.history)
    return tuple(json.dumps({k: v for k, v in step.items() if v or k != "files"}, sort_keys=True) for step in told)


def with_pth(definition: Definition, files: Mapping[str, str]) -> Definition:
    """The same environment with these `.pth` files in its site-packages, as somebody left them; texts by name."""
    if not files:
        return definition
    step = HistoryStep(action=Action.WRITE_PTH, files=tuple(sorted(files.items())))
    return replace(definition, name=f"{definition.name}+pth", history=(*definition.history, step))


def _for_base(step: HistoryStep, base: Definition, instead: Mapping[str, str], history: History) -> HistoryStep:
    torch, cuda = (base.torch, base.cuda) if step.torch == BASE else (step.torch, step.cuda)
    packages = tuple(instead.get(text, text) for text in step.packages)
    cutoff = history.exclude_newer or base.exclude_newer
    return replace(step, torch=torch, cuda=cuda, packages=packages, exclude_newer=cutoff)


def _check(step: HistoryStep, origin: str) -> None:
    """Each action with what it needs and nothing else."""
    needs: dict[Action, tuple[str, Any]] = {
        Action.INSTALL: ("packages", step.packages),
        Action.UNINSTALL: ("packages", step.packages),
        Action.SWAP: ("torch", step.torch),
        Action.SET_ENV: ("variables", step.variables),
        Action.WRITE_PTH: ("files", step.files),
        Action.WIPE_CACHE: ("", True),
    }
    key, value = needs[step.action]
    if not value:
        raise UsageError(f"{origin}: {step.action} needs the key {key!r}")
    if step.action is Action.SWAP and step.torch != BASE and not step.cuda:
        raise UsageError(f"{origin}: swap needs the key 'cuda'", hint='or torch = "base" for the torch of the base')
    for name, _ in step.files:
        if "/" in name or not name.endswith(".pth"):
            raise UsageError(f"{origin}: {name!r} is not the name of a .pth file", hint='like "left.pth"')
    for text in step.packages:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise UsageError(f"{origin}: {text!r} is not a requirement: {error}") from None
