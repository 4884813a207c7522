"""What differs between two sides, as items that a mix can have or not have; which belong together; what looks wrong.

An item is the change of one distribution, of one environment variable, of a cache, a `.pth`, an import, or what a
history left on disk beside its packages. Its weight is how likely it is to reach torch (`envs.diff`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envs.suspicion import suspicion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from . import ItemSet


class ItemKind(StrEnum):
    """What sort of difference."""

    PACKAGE = "package"
    VARIABLE = "variable"
    CACHE = "cache"
    PTH = "pth"
    IMPORT = "import"
    RESIDUE = "residue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One difference: `id` is its name for a package, `kind:name` otherwise.

    An empty text means absent; of a variable, which may be set to nothing, only None does.
    """

    id: str
    kind: ItemKind
    name: str
    good: str | None
    bad: str | None
    weight: float
    why: str

    def __str__(self) -> str:
        return f"{self.id} {self._told(self.good)} -> {self._told(self.bad)}"

    def _told(self, text: str | None) -> str:
        empty = self.kind is ItemKind.VARIABLE and text is not None
        return text or ("(empty)" if empty else "(absent)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one side is, as far as a mix can take it over.

    Attributes:
        packages: version by canonical name, with a source where it is not an index.
        requires: what each installed distribution asks for (Requires-Dist), as far as known.
        variables: environment variables of its processes.
        pth: text of `.pth` files that no distribution owns, by name.
        cache: directory of compile caches it starts with; empty for none.
        imports: packages imported before the run starts.
        history: what was done to it after it was built, in words; empty for a fresh one.
    """

    packages: Mapping[str, str]
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    pth: Mapping[str, str] = field(default_factory=dict)
    cache: str = ""
    imports: tuple[str, ...] = ()
    history: tuple[str, ...] = ()


def items(good: Facts, bad: Facts) -> tuple[Item, ...]:
    """Every difference, the likeliest to reach torch first."""
    found = [
        *_packages(good, bad),
        *_texts(ItemKind.VARIABLE, good.variables, bad.variables, 6.0, "set for every process"),
        *_texts(ItemKind.PTH, good.pth, bad.pth, 6.0, "runs at every start of the interpreter"),
        *_texts(ItemKind.CACHE, _named(good.cache), _named(bad.cache), 4.0, "compiled code of an earlier run"),
        *_texts(ItemKind.IMPORT, _listed(good.imports), _listed(bad.imports), 6.0, "runs code before training starts"),
        *_texts(
            ItemKind.RESIDUE,
            _named("; ".join(good.history)),
            _named("; ".join(bad.history)),
            3.0,
            "what the history left on disk that no list of packages shows",
        ),
    ]
    return tuple(sorted(found, key=lambda item: (-item.weight, item.id)))


def _packages(good: Facts, bad: Facts) -> Iterator[Item]:
    torch = bad.packages.get("torch", "")
    for name in sorted(good.packages.keys() | bad.packages.keys()):
        old, new = good.packages.get(name, ""), bad.packages.get(name, "")
        if old != new:
            points, why = suspicion(name, version=new or old, torch=torch, importable=bad.packages)
            weight = 1.0 + points / 10.0
            yield Item(id=name, kind=ItemKind.PACKAGE, name=name, good=old, bad=new, weight=weight, why=why)


def _texts(kind: ItemKind, good: Mapping[str, str], bad: Mapping[str, str], weight: float, why: str) -> Iterator[Item]:
    absent = None if kind is ItemKind.VARIABLE else ""
    for name in sorted(good.keys() | bad.keys()):
        old, new = good.get(name, absent), bad.get(name, absent)
        if old != new:
            yield Item(id=f"{kind}:{name}", kind=kind, name=name, good=old, bad=new, weight=weight, why=why)


def _named(text: str) -> dict[str, str]:
    return {"all": text} if text else {}


def _listed(names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, "imported")


def needs(found: Sequence[Item]) -> tuple[tuple[str, str], ...]:
    """An import needs its package; what a history left on disk is there only with everything it installed."""
    packages = {item.id for item in found if item.kind is ItemKind.PACKAGE}
    imports = [(item.id, item.name) for item in found if item.kind is ItemKind.IMPORT]
    pairs = [(item, canonicalize_name(name)) for item, name in imports if canonicalize_name(name) in packages]
    residue = [item.id for item in found if item.kind is ItemKind.RESIDUE]
    return (*pairs, *((left, package) for left in residue for package in sorted(packages)))


def families(found: Sequence[Item], good: Facts, bad: Facts) -> tuple[ItemSet, ...]:
    """Changed packages that do not fit together half changed: a requirement of one side is broken by the other.

    torch 2.15 asks for triton 3.9.0, torch 2.14 for 3.8: the two changes are one family, and so is whatever else is
    joined to them. Families are kept whole until the failure is known to lie inside one.
    """
    changed = {item.name for item in found if item.kind is ItemKind.PACKAGE}
    joined = [pair for side, other in ((good, bad), (bad, good)) for pair in _broken(side, other, changed)]
    parent = {name: name for name in changed}
    for one, two in joined:
        _union(parent, one, two)
    groups: dict[str, set[str]] = defaultdict(set)
    for name in changed:
        groups[_root(parent, name)].add(name)
    return tuple(sorted((frozenset(group) for group in groups.values() if len(group) > 1), key=sorted))


def _broken(side: Facts, other: Facts, changed: set[str]) -> Iterator[tuple[str, str]]:
    """Pairs (a, b): a as this side has it is content with this side's b and not with the other side's."""
    for name in sorted(changed & side.requires.keys()):
        for text in side.requires[name]:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            needed = canonicalize_name(requirement.name)
            if needed == name or needed not in changed or not side.packages.get(name):
                continue
            here, there = side.packages.get(needed, ""), other.packages.get(needed, "")
            if _content(requirement, here) and not _content(requirement, there):
                yield name, needed


def _content(requirement: Requirement, version: str) -> bool:
    try:
        return bool(version) and requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        name = parent[name]
    return name


def _union(parent: dict[str, str], one: str, two: str) -> None:
    parent[_root(parent, one)] = _root(parent, two)


_FAMILY = re.compile(r"(?P<library>nvidia-[a-z0-9-]+?)-cu(?P<major>\d\d)\Z")


def warnings(good: Facts, bad: Facts) -> tuple[str, ...]:
    """What is wrong with the bad side by its list alone."""
    return (*_torch_replaced(good, bad), *_two_majors(bad), *_flashinfer(bad))


def _torch_replaced(good: Facts, bad: Facts) -> Iterator[str]:
    old, new = good.packages.get("torch", ""), bad.packages.get("torch", "")
    if old and new and old != new:
        same = re.split(r"[+ ]", old)[0] == re.split(r"[+ ]", new)[0]
        how = "the same release as another build" if same else "another release"
        yield f"torch was replaced: {old} -> {new} ({how}): the difference is `another torch` before it is any package"


def _two_majors(bad: Facts) -> Iterator[str]:
    majors: dict[str, set[str]] = defaultdict(set)
    for name in bad.packages:
        match = _FAMILY.match(name)
        if match:
            majors[match["library"]].add(match["major"])
    for library, found in sorted(majors.items()):
        if len(found) > 1:
            both = " and ".join(f"{library}-cu{major}" for major in sorted(found))
            yield f"two CUDA majors of one library are installed ({both}): their files overwrite each other"


def _flashinfer(bad: Facts) -> Iterator[str]:
    main = bad.packages.get("flashinfer-python", "")
    for part in ("flashinfer-cubin", "flashinfer-jit-cache"):
        version = bad.packages.get(part, "")
        if main and version and version.partition("+")[0] != main.partition("+")[0]:
            yield f"{part} {version} does not match flashinfer-python {main}: importing flashinfer raises"
            if bad.variables.get("FLASHINFER_DISABLE_VERSION_CHECK"):
                yield "its version check is switched off: an illegal memory access there says nothing about torch"
