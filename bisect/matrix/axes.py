"""The axes of a matrix, read from a small TOML file, and the cells they span.

builds = ["cu128", "cu130"]                 # environment definitions; "shipped" stands for every shipped one
histories = ["clean", "sglang-residue"]
workarounds = ["none", "lock"]
caches = ["cold"]
profile = "auto"
arguments = ["--steps", "10"]               # given to the benchmark, part of the identity of every cell
current = "cu128"                           # what the cluster runs today: the baseline, and what `stay` means
budget = "20m"                              # minutes (`20m`) or runs (`60 runs`); `--budget` overrides it

[rules]                                     # see `matrix.Rules`
allowed_rate = 0.4

[[exclude]]                                 # cells that are never asked; each named axis must match
build = "cu126"
history = "sglang-residue"
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from . import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .key import CellKey

SHIPPED = "shipped"
_LISTS = ("builds", "histories", "workarounds", "caches", "arguments")
_STRINGS = ("profile", "current", "budget")
_TABLES = ("rules", "exclude", "hazards")
_EXCLUDABLE = ("build", "history", "workaround", "cache")
_CACHES = ("cold", "warm")
_BUDGET = re.compile(r"\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>h|m|min|minutes|s|r|runs?)?\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much one invocation may spend: seconds or runs; None means no limit of that kind."""

    seconds: float | None = None
    runs: int | None = None

    def __str__(self) -> str:
        if self.runs is not None:
            return f"{self.runs} runs"
        return f"{self.seconds / 60:.3g} minutes" if self.seconds is not None else "no limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What to compare, as the file says it."""

    builds: tuple[str, ...]
    histories: tuple[str, ...] = ("clean",)
    workarounds: tuple[str, ...] = ("none",)
    caches: tuple[str, ...] = ("cold",)
    profile: str = "auto"
    arguments: tuple[str, ...] = ()
    current: str = ""
    hazards: bool = True
    budget: Budget = field(default_factory=Budget)
    rules: Rules = field(default_factory=Rules)
    exclude: tuple[tuple[tuple[str, str], ...], ...] = ()

    @property
    def origins(self) -> dict[str, str]:
        """Each build's name in the cells, and what the file says: a definition, its path, or a version."""
        return {build_name(build): build for build in self.builds}


def build_name(build: str) -> str:
    """`envs/my-cluster.toml` is called `my-cluster` in every cell; other builds are called what they are."""
    return PurePath(build).stem if build.endswith(".toml") else build


def parse_axes(text: str, *, shipped: Sequence[str], source: str = "the axes file") -> Axes:
    """Read the TOML; UsageError for an unknown key (with the nearest known one) or a value of the wrong kind."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}") from error
    _reject_unknown(table, (*_LISTS, *_STRINGS, *_TABLES), source)
    values: dict[str, Any] = {name: _strings(table, name, source) for name in _LISTS if name in table}
    values |= {name: _string(table, name, source) for name in _STRINGS if name in table}
    if "builds" not in values:
        raise UsageError(f"{source} names no builds", hint='add a line such as builds = ["cu128", "cu130"]')
    values["builds"] = _expanded(values["builds"], shipped)
    if "budget" in values:
        values["budget"] = parse_budget(values["budget"])
    if not isinstance(table.get("hazards", True), bool):
        raise UsageError(f"{source}: hazards must be true or false, not {table['hazards']!r}")
    values["hazards"] = table.get("hazards", True)
    axes = Axes(**values, rules=_rules(table, source), exclude=_exclude(table, source))
    return _checked(axes, source)


def parse_budget(text: str) -> Budget:
    """`20m`, `1.5h`, `90s`, a bare number of minutes, or `60 runs`."""
    match = _BUDGET.match(text)
    if match is None:
        raise UsageError(f"not a budget: {text!r}", hint="write minutes (20m, 1.5h) or runs (60 runs)")
    amount, unit = float(match["amount"]), match["unit"] or "m"
    if unit.startswith("r"):
        return Budget(runs=int(amount))
    return Budget(seconds=amount * {"h": 3600, "s": 1}.get(unit, 60))


def span(axes: Axes, template: CellKey) -> tuple[CellKey, ...]:
    """Every cell that the axes ask for, the current build's first, on the machine that the template describes."""
    builds = sorted(axes.origins, key=lambda build: build != axes.current)
    keys = (
        replace(template, build=build, history=history, workaround=workaround, cache=cache)
        for build, history, workaround, cache in product(builds, axes.histories, axes.workarounds, axes.caches)
    )
    return tuple(key for key in keys if not _is_excluded(key, axes.exclude))


def _is_excluded(key: CellKey, exclude: Iterable[tuple[tuple[str, str], ...]]) -> bool:
    return any(all(getattr(key, name) == value for name, value in rule) for rule in exclude)


def _checked(axes: Axes, source: str) -> Axes:
    for name in ("builds", "histories", "workarounds", "caches"):
        values = getattr(axes, name)
        if not values:
            raise UsageError(f"{source}: {name} is empty", hint=f"leave {name} out, or name at least one")
        if len(set(values)) != len(values):
            raise UsageError(f"{source}: {name} names something twice: {', '.join(values)}")
    if len(axes.origins) != len(axes.builds):
        raise UsageError(f"{source}: two builds have the same name", hint="rename one of the definition files")
    for cache in axes.caches:
        if cache not in _CACHES:
            raise UsageError(f"{source}: no such cache state: {cache!r}", hint=f"one of {', '.join(_CACHES)}")
    current = build_name(axes.current or axes.builds[0])
    if current not in axes.origins:
        raise UsageError(
            f"{source}: current = {axes.current!r} is not among the builds", hint=f"one of {', '.join(axes.origins)}"
        )
    return replace(axes, current=current)


def _expanded(builds: Sequence[str], shipped: Sequence[str]) -> tuple[str, ...]:
    names = (name for build in builds for name in (shipped if build == SHIPPED else (build,)))
    return tuple(dict.fromkeys(names)) if SHIPPED in builds else tuple(builds)


def _rules(table: Mapping[str, Any], source: str) -> Rules:
    given = table.get("rules", {})
    if not isinstance(given, dict):
        raise UsageError(f"{source}: rules must be a table")
    known = {item.name: type(getattr(Rules(), item.name)) for item in fields(Rules)}
    _reject_unknown(given, tuple(known), f"{source}, [rules]")
    for name, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value < 0 or (known[name] is int and not isinstance(value, int)):
            kind = "a whole number" if known[name] is int else "a number"
            raise UsageError(f"{source}: rules.{name} must be {kind} of 0 or more, not {value!r}")
    if not 0 < given.get("allowed_rate", 0.4) < 1:
        raise UsageError(f"{source}: rules.allowed_rate must lie between 0 and 1")
    return Rules(**{name: known[name](value) for name, value in given.items()})


def _exclude(table: Mapping[str, Any], source: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    rules = table.get("exclude", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise UsageError(f"{source}: exclude must be an array of tables", hint="write [[exclude]]")
    for rule in rules:
        _reject_unknown(rule, _EXCLUDABLE, f"{source}, [[exclude]]")
    return tuple(tuple(sorted((name, str(value)) for name, value in rule.items())) for rule in rules if rule)


def _reject_unknown(table: Mapping[str, Any], known: Sequence[str], source: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"{source}: unknown key {name!r}", hint=hint)


def _strings(table: Mapping[str, Any], name: str, source: str) -> tuple[str, ...]:
    value = table[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{source}: {name} must be a list of strings, not {value!r}")
    return tuple(value)


def _string(table: Mapping[str, Any], name: str, source: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise UsageError(f"{source}: {name} must be a string, not {value!r}")
    return value
