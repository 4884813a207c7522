"""Which packages of a uv.lock one platform installs: the lock holds those of every platform at once.

What is installed is walked from the projects of the lock along the dependencies whose markers hold; of the versions
of a name only those count whose `resolution-markers` hold. Which extras and groups were asked for a lock does not
say: all are followed, and where an extra alone decides between two versions nothing is decided.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envs.lock import applies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envs.index import Target

    Table = Mapping[str, Any]


def installed(lock: Table, target: Target) -> frozenset[int]:
    """Positions of the packages that the target installs; ValueError for a lock that is not for the target.

    A lock without a project (or the requirements of a script) is taken whole, as far as resolution markers hold.
    """
    packages: Sequence[Table] = lock.get("package", [])
    supported = lock.get("supported-markers", [])
    if supported and not _any_holds(supported, target):
        raise ValueError(f"it is for {' or '.join(supported)} only")
    possible = [i for i, each in enumerate(packages) if _any_holds(each.get("resolution-markers", [""]), target)]
    starts = list(_starts(lock, possible, target))
    if not starts:
        return frozenset(possible)
    seen: set[tuple[int, str]] = set()
    while starts:
        node = starts.pop()
        if node not in seen:
            seen.add(node)
            for edge in _edges(packages[node[0]], node[1]):
                starts += _targets(edge, packages, possible, target)
    return frozenset(position for position, _ in seen)


def offered(lock: Table) -> tuple[str, ...]:
    """Names of the extras and groups of the projects in the lock."""
    tables = [each.get(kind, {}) for each in lock.get("package", []) if _is_project(each) for kind in _CHOICES]
    return tuple(sorted({name for table in tables for name in table}))


_CHOICES = ("optional-dependencies", "dev-dependencies")


def _is_project(package: Table) -> bool:
    return bool(package.get("source", {}).keys() & {"editable", "virtual"})


def _starts(lock: Table, possible: Iterable[int], target: Target) -> Iterator[tuple[int, str]]:
    packages: Sequence[Table] = lock.get("package", [])
    yield from ((position, "") for position in possible if _is_project(packages[position]))
    for edge in lock.get("manifest", {}).get("requirements", []):
        yield from _targets({"name": edge["name"], "marker": edge.get("marker", "")}, packages, possible, target)


def _edges(package: Table, extra: str) -> Iterator[Table]:
    """The dependencies of a package or of one of its extras; a project's extras and groups are all followed."""
    if extra:
        yield from package.get("optional-dependencies", {}).get(extra, [])
        return
    yield from package.get("dependencies", [])
    for kind in _CHOICES if _is_project(package) else ():
        for edges in package.get(kind, {}).values():
            yield from edges


def _targets(
    edge: Table, packages: Sequence[Table], possible: Iterable[int], target: Target
) -> Iterator[tuple[int, str]]:
    if not _may_hold(edge.get("marker", ""), target):
        return
    meant = [position for position in possible if _is_meant(edge, packages[position])]
    if not meant and any(edge["name"] == each["name"] for each in packages):
        raise ValueError(f"it has no {edge['name']} for Linux with Python {target.python}")
    for position in meant:
        yield from ((position, extra) for extra in ("", *edge.get("extra", ())))


def _is_meant(edge: Table, package: Table) -> bool:
    return all(edge[key] == package.get(key) for key in ("name", "version", "source") if key in edge)


def _any_holds(markers: Iterable[str], target: Target) -> bool:
    return any(_may_hold(marker, target) for marker in markers)


def _may_hold(marker: str, target: Target) -> bool:
    """Whether some choice of extras makes the marker hold; conflicting extras are written as `extra` there."""
    named = re.findall(r"extra\s*[!=]=\s*['\"]([^'\"]+)['\"]", marker)
    return any(applies(marker, target, extra=extra) for extra in ("", *named))
