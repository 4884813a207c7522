"""Two builds of one version: told apart by the hashes of their files where the version does not tell them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envs import index

from .sides import lock_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from envs.index import File
    from envs.interpreter import Interpreter

    from .sides import Side


def told_apart(good: Side, bad: Side, python: Interpreter) -> tuple[Side, Side]:
    """The sides with a hash beside each version that both have as another file: `1.0 (sha256 0f3c...)`.

    What one side cannot have here is told with its hash there alone: the other side's file takes its place.

    Args:
        good: one side.
        bad: the other one.
        python: the interpreter of the mixes, whose wheels count.
    """
    files = [_files(side, python) for side in (good, bad)]
    differing = {
        name
        for name in files[0].keys() & files[1].keys()
        if _version(good, name) == _version(bad, name) and not files[0][name] & files[1][name]
    }
    both = good.facts.packages.keys() & bad.facts.packages.keys()
    return _with_hashes(good, files[0], differing, both), _with_hashes(bad, files[1], differing, both)


def listed_now(sides: Iterable[Side]) -> tuple[File, ...]:
    """The wheels that the sides are made of, as the index told their hashes when they were read."""
    wheels = {
        (wheel.filename, wheel.sha256): wheel
        for side in sides
        for item in side.distributions.values()
        for wheel in item.wheels
        if wheel.sha256
    }
    return tuple(
        replace(file, sha256=wheel.sha256)
        for wheel in wheels.values()
        for file in index.from_filenames((wheel.filename,), url="")
    )


def _files(side: Side, python: Interpreter) -> dict[str, frozenset[str]]:
    """Hashes of the file that is installed of each name; of a name without a wheel here, of all that are listed."""
    pins = lock_of(side.definition, side.distributions, python).select(python.target())
    listed = {canonicalize_name(each.name): each.hashes for each in side.unreproducible if each.hashes}
    return {
        **{name: frozenset(each.removeprefix("sha256:") for each in hashes) for name, hashes in listed.items()},
        **{pin.name: frozenset({pin.sha256}) for pin in pins},
    }


def _version(side: Side, name: str) -> str:
    held: dict[str, str] = {canonicalize_name(each.name): each.version for each in side.unreproducible}
    return side.facts.packages.get(name) or held.get(name, "")


def _with_hashes(side: Side, files: Mapping[str, frozenset[str]], differing: set[str], both: Collection[str]) -> Side:
    def told(name: str, version: str) -> str:
        return f"{version} (sha256 {min(files[name])[:12]})" if name in differing else version

    packages = {name: told(name, text) if name in both else text for name, text in side.facts.packages.items()}
    left_out = tuple(
        replace(each, version=told(canonicalize_name(each.name), each.version)) for each in side.unreproducible
    )
    return replace(side, facts=replace(side.facts, packages=packages), unreproducible=left_out)
