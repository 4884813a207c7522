"""Which packages of a uv.lock one platform installs: the lock holds those of every platform at once.

What is installed is walked from the projects of the lock along the dependencies whose markers hold; of the versions
of a name only those count whose `resolution-markers` hold. Which extras and groups were asked for a lock does not
say: taken are those that `uv sync` takes by itself, the group `dev` and no extra, and those that are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envs.lock import applies

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from envs.index import Target

    Table = Mapping[str, Any]

DEFAULT_GROUPS = frozenset({"dev"})
_KINDS = {"optional-dependencies": "extra", "dev-dependencies": "group"}
_ASKED = re.compile(r"extra\s*([!=])=\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class Choice:
    """The extras and groups that count as installed.

    Attributes:
        names: of the projects' extras and groups.
        everything: every choice at once: what some choice installs.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False

    def takes(self, name: str) -> bool:
        return self.everything or name in self.names

    def holds(self, marker: str, target: Target, encoded: Collection[str]) -> bool:
        """Whether a marker holds; `encoded`: how uv writes the names taken where extras exclude each other."""
        if self.everything:
            named = [name for _, name in _ASKED.findall(marker)]
            return any(applies(marker, target, extra=extra) for extra in ("", *named))

        def decided(match: re.Match[str]) -> str:
            return f"os_name {'=' if (match[2] in encoded) == (match[1] == '=') else '!'}= 'posix'"

        return applies(_ASKED.sub(decided, marker), target)


def chosen(lock: Table, named: Iterable[str]) -> Choice:
    """What is taken of a lock, of all that may be named."""
    return Choice(frozenset(offered(lock)) & (DEFAULT_GROUPS | frozenset(named)))


def installed(lock: Table, target: Target, choice: Choice) -> frozenset[int]:
    """Positions of the packages that the target installs; ValueError for a lock that is not for the target.

    A lock without a project (or the requirements of a script) is taken whole, as far as resolution markers hold.
    """
    packages: Sequence[Table] = lock.get("package", [])
    walk = _Walk(lock=lock, packages=packages, target=target, choice=choice, encoded=_encoded(packages, choice))
    supported = lock.get("supported-markers", [])
    if supported and not walk.any_holds(supported):
        raise ValueError(f"it is for {' or '.join(supported)} only")
    possible = walk.possible()
    starts = list(walk.starts(possible))
    if not starts:
        return frozenset(possible)
    seen: set[tuple[int, str]] = set()
    while starts:
        node = starts.pop()
        if node not in seen:
            seen.add(node)
            for edge in walk.edges(*node):
                starts += walk.targets(edge, possible)
    return frozenset(position for position, _ in seen)


def offered(lock: Table) -> tuple[str, ...]:
    """Names of the extras and groups of the projects in the lock."""
    tables = [each.get(kind, {}) for each in lock.get("package", []) if _is_project(each) for kind in _KINDS]
    return tuple(sorted({name for table in tables for name in table}))


def _is_project(package: Table) -> bool:
    return bool(package.get("source", {}).keys() & {"editable", "virtual"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """From the projects of a lock to what they need."""

    lock: Table
    packages: Sequence[Table]
    target: Target
    choice: Choice
    encoded: frozenset[str]

    def possible(self) -> list[int]:
        """Positions of the packages whose resolution markers hold."""
        markers = [each.get("resolution-markers", [""]) for each in self.packages]
        return [position for position, each in enumerate(markers) if self.any_holds(each)]

    def any_holds(self, markers: Iterable[str]) -> bool:
        return any(self.choice.holds(marker, self.target, self.encoded) for marker in markers)

    def starts(self, possible: Iterable[int]) -> Iterator[tuple[int, str]]:
        yield from ((position, "") for position in possible if _is_project(self.packages[position]))
        for edge in self.lock.get("manifest", {}).get("requirements", []):
            yield from self.targets({"name": edge["name"], "marker": edge.get("marker", "")}, possible)

    def edges(self, position: int, extra: str) -> Iterator[Table]:
        """The dependencies of a package or of one of its extras; of a project also those of what is chosen of it."""
        package = self.packages[position]
        if extra:
            yield from package.get("optional-dependencies", {}).get(extra, [])
            return
        yield from package.get("dependencies", [])
        for kind in _KINDS if _is_project(package) else ():
            for name, edges in package.get(kind, {}).items():
                yield from edges if self.choice.takes(name) else ()

    def targets(self, edge: Table, possible: Iterable[int]) -> Iterator[tuple[int, str]]:
        if not self.any_holds([edge.get("marker", "")]):
            return
        meant = [position for position in possible if _is_meant(edge, self.packages[position])]
        known = any(edge["name"] == each["name"] for each in self.packages)
        if not meant and known and not self.choice.everything:
            raise ValueError(f"it has no {edge['name']} for Linux with Python {self.target.python}")
        for position in meant:
            yield from ((position, extra) for extra in ("", *edge.get("extra", ())))


def _encoded(packages: Iterable[Table], choice: Choice) -> frozenset[str]:
    """`extra-7-trainer-cpu` for the extra `cpu` of `trainer`, 7 being the length of its name."""
    return frozenset(
        f"{word}-{len(each['name'])}-{each['name']}-{name}"
        for each in packages
        if _is_project(each)
        for kind, word in _KINDS.items()
        for name in each.get(kind, {})
        if choice.takes(name)
    )


def _is_meant(edge: Table, package: Table) -> bool:
    return all(edge[key] == package.get(key) for key in ("name", "version", "source") if key in edge)
