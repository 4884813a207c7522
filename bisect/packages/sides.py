"""The two sides of a package search: what each is, the lock it is made of, and the environment of any mix of them.

A side is a definition (with or without a history), a virtual environment, a lock, or a list of packages from
another machine. A mix is the good side's list with chosen entries of the bad side, installed exactly as listed.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envs import build, exact, fingerprint, history, interpreter, lock, machine, outlook, resolve, spec, uv, verify
from envs.errors import UsageError
from envs.findings import Kind
from envs.step import in_words

from .differences import Facts, ItemKind
from .files import requirements_in, unlisted
from .freeze import Unreproducible
from .lists import listing_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from envs.settings import Settings
    from envs.spec import Definition

    from . import ItemSet
    from .differences import Item


_LIST_SUFFIXES = (".txt", ".lock", ".freeze", ".list", ".json", ".yml", ".yaml", ".toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side.

    Attributes:
        name: as given on the command line.
        facts: what it is.
        definition: its environment.
        distributions: every distribution with its wheels, by name.
        unreproducible: what its list holds and nobody can install here.
        unlisted: what lies in its directory and no list of packages brings back, in words.
        lacks: what its torch requires and its list does not name.
        choices: extras and groups that its lock has.
        optional: version by name of what those of them would install that are not taken.
    """

    name: str
    facts: Facts
    definition: Definition
    distributions: Mapping[str, lock.Distribution]
    unreproducible: tuple[Unreproducible, ...] = ()
    unlisted: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    optional: Mapping[str, str] = field(default_factory=dict)


class NotBuiltError(UsageError):
    """What a history leaves is known once it is built, and a dry run builds nothing."""

    def __init__(self, definition: Definition) -> None:
        name = definition.name
        super().__init__(f"what {name} holds is known once it is built", hint=f"python -m envs build {name}")
        self.definition = definition


def read_side(
    text: str,
    settings: Settings,
    *,
    base: Definition,
    say: Callable[[str], None],
    may_build: bool = True,
    extras: Collection[str] = (),
) -> Side:
    """Read one side from its name or file. What a history left is known only once it is built.

    `extras`: names of the extras and groups that are installed of a project's lock.
    """
    path = Path(text)
    if path.is_file() and not _is_definition(path):
        return _from_file(path, settings, base, say, extras)
    if (path / "pyvenv.cfg").exists():
        return _from_directory(path.resolve(), settings, base)
    if not path.exists() and (path.parent != Path() or path.suffix in _LIST_SUFFIXES):
        raise UsageError(f"there is no file {text}", hint="give a freeze, a `pip list`, a lock or an environment")
    definition = spec.load(text)
    if not definition.history:
        return _from_lock(definition, settings)
    if not may_build and not outlook.is_built(definition, settings):
        raise NotBuiltError(definition)
    return _from_history(definition, settings, say)


def _is_definition(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return path.suffix == ".toml" and "summary" in text and "[[package" not in text


def _from_lock(definition: Definition, settings: Settings) -> Side:
    found = resolve.lock_for(definition, settings)
    python = interpreter.find(found.pythons, uv=uv.program(), offline=settings.offline)
    chosen = {(pin.name, pin.version) for pin in found.select(python.target())}
    distributions = {item.name: item for item in found.distributions if (item.name, item.version) in chosen}
    facts = Facts(
        packages={name: item.version for name, item in distributions.items()}, variables=dict(definition.environment)
    )
    return Side(name=definition.name, facts=facts, definition=definition, distributions=distributions)


def _from_history(definition: Definition, settings: Settings, say: Callable[[str], None]) -> Side:
    """An environment with a history is what it became: it is built and asked."""
    base = _from_lock(history.base_of(definition), settings)
    built = build.build(definition, settings, report=say)
    packages = dict(_named(entry) for entry in built.fingerprint.distributions)
    side = _exact(definition.name, packages, settings, definition, known=base.distributions)
    facts = replace(
        side.facts,
        variables=dict(definition.environment),
        history=tuple(in_words(step) for step in definition.history),
    )
    return replace(side, facts=facts, definition=definition)


def _from_file(
    path: Path, settings: Settings, base: Definition, say: Callable[[str], None], extras: Collection[str]
) -> Side:
    listed = listing_in(path, python_of(base, settings).target(), extras=extras)
    for note in listed.notes:
        say(note)
    side = _exact(path.stem, listed.packages, settings, base, hashes=listed.hashes)
    elsewhere = {canonicalize_name(item.name) for item in listed.unreproducible}
    lacks = [name for name in exact.lacking(side.definition, listed.packages, settings) if name not in elsewhere]
    whole = (*listed.unreproducible, *side.unreproducible)
    return replace(
        side,
        name=str(path),
        unreproducible=whole,
        lacks=tuple(lacks),
        choices=listed.choices,
        optional=listed.optional,
    )


def _from_directory(path: Path, settings: Settings, base: Definition) -> Side:
    with tempfile.TemporaryDirectory(prefix="bisect-side-") as scratch:
        said = fingerprint.ask(path / "bin" / "python", scratch=Path(scratch), driver=machine.driver_version())
    packages = dict(_named(entry) for entry in said.distributions)
    side = _exact(path.name, packages, settings, base)
    found = verify.verify(path).findings
    left = [path / item.path for item in found if item.kind is Kind.UNOWNED and item.path.endswith(".pth")]
    pth = {file.name: file.read_text(encoding="utf-8", errors="replace") for file in left}
    facts = replace(side.facts, pth=pth, requires=requirements_in(path))
    apart = unlisted(found, python=said.python, rebuilt_with=python_of(side.definition, settings).minor)
    return replace(side, name=str(path), facts=facts, unlisted=apart)


def _exact(
    name: str,
    packages: Mapping[str, str],
    settings: Settings,
    base: Definition,
    *,
    known: Mapping[str, lock.Distribution] | None = None,
    hashes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Side:
    """A side from versions, and from hashes where they are listed.

    What `known` has at the same version is taken from there, hash and all.
    """
    if "torch" not in packages:
        raise UsageError(f"{name} lists no torch", hint="what is compared must be two environments of torch")
    definition = exact.definition_of(_identifier(name, hashes), packages, base)
    same = {each: item for each, item in (known or {}).items() if packages.get(each) == item.version}
    asked = {each: version for each, version in packages.items() if each not in same}
    found = exact.exact_lock(definition, asked, settings, hashes=hashes)
    distributions = {**same, **{item.name: item for item in found.lock.distributions}}
    left_out = dict(found.left_out)
    if "torch" not in distributions:
        raise UsageError(
            f"{name}: torch {packages['torch']} cannot be had: {left_out['torch']}",
            hint="name a mirror that has it with --index",
        )
    return Side(
        name=name,
        facts=Facts(packages={each: item.version for each, item in distributions.items()}),
        definition=definition,
        distributions=distributions,
        unreproducible=tuple(
            Unreproducible(name=each, reason=reason, version=packages[each], hashes=hashes.get(each, ()))
            for each, reason in left_out.items()
        ),
    )


def _identifier(name: str, hashes: Mapping[str, tuple[str, ...]]) -> str:
    """A name for the side's definition; two lists of one name that differ in hashes alone are two."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in name.lower()).strip("-._") or "list"
    return f"{plain}-{hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()[:8]}" if hashes else plain


def _named(text: str) -> tuple[str, str]:
    name, _, version = text.partition("==")
    return canonicalize_name(name), version


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """Makes the environment of any mix of the two sides."""

    good: Side
    bad: Side
    items: tuple[Item, ...]
    settings: Settings

    def definition(self, mix: ItemSet, name: str) -> Definition:
        """The environment of a mix; its lock is put where `envs.build` looks for it.

        The ends are the two sides themselves. In a mix a package of the bad side replaces (or removes) the one of
        the good side, with `--no-deps`: the packages are exactly the listed ones. A `.pth` that no distribution owns
        is put where it was, into site-packages.
        """
        return history.with_pth(self._packages(mix, name), self._pth(mix))

    def _packages(self, mix: ItemSet, name: str) -> Definition:
        packages = {item.name for item in self.items if item.kind is ItemKind.PACKAGE and item.id in mix}
        if len(mix) == len(self.items):
            return self._whole(self.bad)
        if not packages:
            return self._whole(self.good)
        return self._exact(name, packages)

    def _pth(self, mix: ItemSet) -> dict[str, str]:
        """The `.pth` files of nobody: those of the good side, with the chosen changes of the bad one."""
        changed = {item.name: item.bad if item.id in mix else item.good for item in self.items if item.kind == "pth"}
        return {name: text for name, text in {**self.good.facts.pth, **changed}.items() if text}

    def _whole(self, side: Side) -> Definition:
        """One of the two sides; its variables are set for each run, so that a mix can leave them out."""
        if is_list(side):
            self._keep(side.definition, side.distributions)
        return replace(side.definition, environment=())

    def _exact(self, name: str, changed: Iterable[str]) -> Definition:
        wanted = set(changed)
        distributions = {each: item for each, item in self.good.distributions.items() if each not in wanted}
        distributions |= {each: item for each, item in self.bad.distributions.items() if each in wanted}
        packages = {each: item.version for each, item in distributions.items()}
        definition = replace(exact.definition_of(name, packages, self.good.definition), environment=())
        self._keep(definition, distributions)
        return definition

    def _keep(self, definition: Definition, distributions: Mapping[str, lock.Distribution]) -> None:
        resolve.keep_lock(
            definition, self.settings, lock_of(definition, distributions, python_of(definition, self.settings))
        )


def python_of(definition: Definition, settings: Settings) -> interpreter.Interpreter:
    return interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)


def lock_of(
    definition: Definition, distributions: Mapping[str, lock.Distribution], python: interpreter.Interpreter
) -> lock.Lock:
    return lock.Lock(
        name=definition.name,
        request=resolve.request_digest(definition),
        pythons=(python.minor,),
        exclude_newer="",
        distributions=tuple(distributions[name] for name in sorted(distributions)),
    )


def is_list(side: Side) -> bool:
    """Whether a side was given as a list of packages: then its lock is ours to keep."""
    return side.definition.summary.endswith("exact packages")
