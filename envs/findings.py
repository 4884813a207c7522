"""What is wrong with an environment, from what its records claim and what lies there. Pure.

A file is judged by its path and its hash; nothing is read here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from .lock import Pin

# What `uv venv` and `python -m venv` put there themselves.
_OWN_BIN = re.compile(
    r"(python[\d.]*|activate.*|deactivate.*|pydoc\.bat|Activate\.ps1|pip[\d.]*|wheel)\Z", re.IGNORECASE
)
_OWN_TOP = frozenset({"pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG", "lib64"})
_OWN_SITE = frozenset({"_virtualenv.py", "_virtualenv.pth"})
_FAMILY = re.compile(r"(?P<name>nvidia-[a-z0-9-]+?)-cu(?P<major>\d\d)\Z")


class Kind(StrEnum):
    """What was found. The last two are told and are no fault by themselves."""

    CHANGED = "changed"
    MISSING = "missing"
    DOUBLY_OWNED = "doubly_owned"
    UNOWNED = "unowned"
    NO_RECORD = "no_record"
    SITECUSTOMIZE = "sitecustomize"
    MIXED = "mixed"
    UNEXPECTED = "unexpected"
    PTH = "pth"
    SHARED = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found.

    Attributes:
        kind: what.
        path: file, relative to the environment; or a distribution for `mixed` and `unexpected`.
        owners: distributions whose RECORD lists the file, `name==version`.
        detail: one line more.
        fault: whether it makes the environment untrustworthy.
        expected: whether the environment's own history left it so; then it is no fault.
    """

    kind: Kind
    path: str
    owners: tuple[str, ...] = ()
    detail: str = ""
    fault: bool = True
    expected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a history left: the faults of the finished environment.

    Attributes:
        findings: the faults.
        digests: hash as `sha256=...` of each of their files, by path.
    """

    findings: tuple[Finding, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One line of a RECORD: who claims the file, and the hash as `sha256=...` or empty."""

    owner: str
    digest: str


def against_records(
    records: Mapping[str, list[Recorded]], seen: Container[str], actual: Mapping[str, str]
) -> Iterator[Finding]:
    """Changed, missing and shared files. The last installer wins, so a file with two owners fits one at most."""
    for path, claims in records.items():
        owners = tuple(dict.fromkeys(claim.owner for claim in claims))
        expected = {claim.digest for claim in claims if claim.digest}
        if len(owners) > 1:
            same = len(expected) <= 1
            yield Finding(
                kind=Kind.SHARED if same else Kind.DOUBLY_OWNED,
                path=path,
                owners=owners,
                detail="same content" if same else "different content: the last one installed wins",
                fault=not same,
            )
        if path not in seen:
            if not _is_bytecode(path):
                yield Finding(kind=Kind.MISSING, path=path, owners=owners)
        elif expected and path in actual and actual[path] not in expected:
            yield Finding(kind=Kind.CHANGED, path=path, owners=owners, detail=f"now {actual[path]}")


def unowned(records: Mapping[str, list[Recorded]], seen: Mapping[str, object], base: str) -> Iterator[Finding]:
    """Files nobody installed; bytecode of a source that is there is Python's own."""
    for path in seen:
        if path in records or _is_own(path, base):
            continue
        if _is_bytecode(path) and _source(path) in seen:
            continue
        yield Finding(kind=Kind.UNOWNED, path=path)


def mixed(installed: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """One CUDA library for two CUDA majors: the two share directories, and deleting one breaks the other."""
    families: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, version in installed:
        match = _FAMILY.match(name)
        if match:
            families[match["name"]].append((name, version))
    for family, members in sorted(families.items()):
        if len(members) > 1:
            yield Finding(
                kind=Kind.MIXED,
                path=family,
                owners=tuple(f"{name}=={version}" for name, version in sorted(members)),
                detail="two CUDA majors of one library are installed; their files overwrite each other",
            )


def unexpected(installed: Iterable[tuple[str, str]], pins: Sequence[Pin]) -> Iterator[Finding]:
    """Distributions that differ from the lock: another version, not installed, or nobody asked for it."""
    have = {name: version for name, version in installed}  # noqa: C416  (mypy knows the types this way)
    wanted = {pin.name: pin.version for pin in pins}
    for name in sorted(have.keys() | wanted.keys()):
        if _same_version(have.get(name, ""), wanted.get(name, "")):
            continue
        if name not in have:
            detail = f"locked {wanted[name]}, not installed"
        elif name not in wanted:
            detail = f"{have[name]} is installed and not in the lock"
        else:
            detail = f"locked {wanted[name]}, installed {have[name]}"
        yield Finding(kind=Kind.UNEXPECTED, path=name, detail=detail)


def _same_version(one: str, other: str) -> bool:
    """A wheel's directory may spell its version otherwise than the index does (`2024.07.04`, `2024.7.4`)."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def since_built(found: Iterable[Finding], left: Left, actual: Mapping[str, str]) -> Iterator[Finding]:
    """What was found, where what the history left is expected and whatever differs from that is a fault.

    Args:
        found: what a look found.
        left: what the first look at the finished environment found.
        actual: hash of every file that was looked at.
    """
    known = {(item.kind, item.path, item.owners, item.detail) for item in left.findings}
    here: set[tuple[Kind, str]] = set()
    for item in found:
        here.add((item.kind, item.path))
        expected = item.fault and (item.kind, item.path, item.owners, item.detail) in known
        yield replace(item, fault=False, expected=True) if expected else item
    for item in left.findings:
        if (item.kind, item.path) not in here:
            detail = f"{item.kind} when the environment was built, and no longer"
            yield Finding(kind=Kind.UNEXPECTED, path=item.path, owners=item.owners, detail=detail)
    for path, digest in left.digests.items():
        if path in actual and actual[path] != digest and (Kind.CHANGED, path) not in here:
            yield Finding(kind=Kind.CHANGED, path=path, detail=f"now {actual[path]}, {digest} when it was built")


def _is_own(path: str, base: str) -> bool:
    directory, _, name = path.rpartition("/")
    if not directory:
        return name in _OWN_TOP
    if directory == "bin":
        return bool(_OWN_BIN.match(name))
    if directory == base:
        return name in _OWN_SITE
    return False


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc")


def _source(path: str) -> str:
    """`a/__pycache__/b.cpython-311.pyc` -> `a/b.py`."""
    directory, _, name = path.rpartition("/")
    return f"{directory.removesuffix('__pycache__')}{name.split('.')[0]}.py"
