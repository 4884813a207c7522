"""The two sides of a package search together: what of them can be compared here, and what a search over them takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from envs import exact, room
from envs.errors import UsageError

from .differences import warnings
from .sides import Side, is_list, lock_of, python_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envs.settings import Settings

    from .freeze import Unreproducible


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides, alike in what only one of them can have here.

    Attributes:
        good: the side without the failure.
        bad: the side with it.
        hidden: differences that this takes out of the search, each `name good -> bad`.
        left_out: names of variables that differ and are not set here.
    """

    good: Side
    bad: Side
    hidden: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def both(self) -> tuple[Side, Side]:
        return self.good, self.bad

    @property
    def optional(self) -> tuple[str, ...]:
        """What extras that are not taken would make differ, each `name good -> bad`."""
        names = sorted(self.good.optional.keys() | self.bad.optional.keys())
        held = [[(side.facts.packages.get(name), side.optional.get(name)) for side in self.both] for name in names]
        return tuple(
            f"{name} {_either(old)} -> {_either(new)}"
            for name, (old, new) in zip(names, held, strict=True)
            if old != new
        )

    @property
    def unlisted(self) -> tuple[str, ...]:
        """What lies in the sides' directories and no mix has, each with its side."""
        return tuple(f"{each} ({side.name})" for side in self.both for each in side.unlisted)

    @property
    def unreproducible(self) -> list[tuple[str, Unreproducible]]:
        """What nobody can install here, each with the side that has it."""
        return [(side.name, item) for side in self.both for item in side.unreproducible]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not part of the search, and what is wrong with the bad side by its list alone."""
        hidden = (f"not part of the search, held equal for want of a wheel: {each}" for each in self.hidden)
        extras = f"not part of the search, in extras that were not named (--extra): {', '.join(self.optional)}"
        files = (f"not part of the search, for no list of packages brings it back: {each}" for each in self.unlisted)
        lacks = (
            f"{side.name} is incomplete, it lacks what its torch requires: {', '.join(side.lacks)}"
            for side in self.both
            if side.lacks
        )
        names = ", ".join(self.left_out)
        others = [f"not part of the search, variables that differ and are not set here: {names}"] if names else []
        return (
            *lacks,
            *hidden,
            *([extras] if self.optional else []),
            *files,
            *others,
            *warnings(self.good.facts, self.bad.facts),
        )

    def planned(self) -> dict[str, Any]:
        """What a journal's plan keeps of them."""
        return {
            "good": self.good.name,
            "bad": self.bad.name,
            "warnings": list(self.warnings),
            "hidden": list(self.hidden),
            "optional": list(self.optional),
            "unlisted": list(self.unlisted),
            "left_out": list(self.left_out),
            "unreproducible": [[f"{item.name} ({name})", item.reason] for name, item in self.unreproducible],
        }


def refuse_unknown(extras: Iterable[str], *sides: Side) -> None:
    """UsageError for the name of an extra or group that no side has."""
    offered = {name for side in sides for name in side.choices}
    if unknown := sorted(set(extras) - offered):
        there = ", ".join(sorted(offered)) or "none: no side is the uv.lock of a project"
        raise UsageError(f"no side has an extra or group {', '.join(unknown)}", hint=f"there is {there}")


def _either(versions: tuple[str | None, str | None]) -> str:
    return " or ".join(version for version in versions if version) or "(absent)"


def level(good: Side, bad: Side) -> Sides:
    """The two sides with everything that only one of them can have here held as that one has it; and what that hides.

    Left out on one side only, a package without a wheel would be a difference nobody asked about: its removal. What a
    history left is there whole or not at all, so there such a package is part of what no mix can take apart.
    """
    gone = [{canonicalize_name(each.name): each for each in side.unreproducible} for side in (good, bad)]
    names = gone[0].keys() | gone[1].keys()
    old, new = (
        {**{name: each.version or each.line or each.reason for name, each in left_out.items()}, **side.facts.packages}
        for left_out, side in zip(gone, (good, bad), strict=True)
    )
    changed = {
        name: f"{name} {old.get(name, '(absent)')} -> {new.get(name, '(absent)')}"
        for name in sorted(names)
        if old.get(name) != new.get(name)
    }
    held, holding = _holding(good, bad, names), _holding(bad, good, names)
    left = {name for name in changed if holding.facts.history and name not in gone[0]}
    along = (f"{changed[name]}, without a wheel" for name in sorted(left))
    facts = replace(holding.facts, history=(*holding.facts.history, *along))
    hidden = tuple(text for name, text in changed.items() if name not in left)
    return Sides(good=held, bad=replace(holding, facts=facts), hidden=hidden)


def _holding(side: Side, other: Side, names: Iterable[str]) -> Side:
    """The side with those of the names that it lacks and the other one has."""
    missing = other.distributions.keys() & set(names) - side.distributions.keys()
    held = {name: other.distributions[name] for name in sorted(missing)}
    if not held:
        return side
    distributions = {**side.distributions, **held}
    packages = {name: item.version for name, item in distributions.items()}
    listed = exact.definition_of(side.definition.name, packages, side.definition)
    return replace(
        side,
        facts=replace(side.facts, packages={**packages, **side.facts.packages}),
        definition=listed if is_list(side) else side.definition,
        distributions=distributions,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a search over mixes of two sides takes: every wheel of every mix is a wheel of one of them.

    Attributes:
        download_bytes: at most this much is downloaded, for all mixes together.
        environment_bytes: size of one environment, the larger of the two sides.
    """

    download_bytes: int
    environment_bytes: int


def sizes(sides: Sides, settings: Settings) -> Sizes:
    """Ask no index: the sizes are those of the wheels that reading the sides has found."""
    python = python_of(sides.good.definition, settings)
    pins = [lock_of(side.definition, side.distributions, python).select(python.target()) for side in sides.both]
    every = {pin.filename: pin for pin in (*pins[0], *pins[1])}
    return Sizes(
        download_bytes=room.estimate(tuple(every.values()), settings).download_bytes,
        environment_bytes=max(room.estimate(each, settings).disk_bytes for each in pins),
    )
