"""Which search would explain a difference between two cells: the command, ready to paste.

Between two releases of torch it is a search over releases; between an environment and the same one with a history, a
search over packages. Failures of the machine or the network never start one: they are no cell's state.
"""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from . import State
from .factors import BAD
from .key import CLEAN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .factors import Point
    from .state import Assessment, View


def offers(view: View, points: Mapping[str, Point]) -> tuple[str, ...]:
    """Sentences of the form `what differs: command`, without repetition."""
    found = [_between_releases(entries, points) for entries in _alike(view)]
    found += [_by_history(entry, view.assessments) for entry in view.assessments]
    return tuple(dict.fromkeys(text for text in found if text))


def _alike(view: View) -> list[list[Assessment]]:
    """Clean cells that differ in nothing but their build."""
    groups: dict[tuple[object, ...], list[Assessment]] = {}
    for entry in view.assessments:
        key = entry.cell.key
        if key.history == CLEAN and entry.telling:
            groups.setdefault((key.machine, key.workaround, key.cache, key.profile, key.benchmark), []).append(entry)
    return list(groups.values())


def _between_releases(entries: Sequence[Assessment], points: Mapping[str, Point]) -> str:
    """The first pair of neighbouring releases of which one is good and one bad."""
    known = [(version, entry) for entry in entries if (version := _release(entry, points)) is not None]
    known.sort(key=lambda item: item[0])
    for (older, first), (newer, second) in pairwise(known):
        if older == newer or (first.state in BAD) == (second.state in BAD):
            continue
        good, bad = (older, newer) if second.state in BAD else (newer, older)
        worse = second if second.state in BAD else first
        key = worse.cell.key
        words = ["torch-releases", "--good", str(good), "--bad", str(bad), "--probe", "train", "--for", _hunted(worse)]
        words += ["--workaround", key.workaround] if key.workaround != "none" else []
        return f"find the release that {_verb(second)} {worse.label} ({key.title}): {_command(words)}"
    return ""


def _by_history(entry: Assessment, entries: Sequence[Assessment]) -> str:
    """A contaminated cell that is bad where the clean one is good."""
    key = entry.cell.key
    if key.history == CLEAN or entry.state not in BAD:
        return ""
    for other in entries:
        base = other.cell.key
        same = (base.build, base.workaround, base.cache, base.machine) == (
            key.build,
            key.workaround,
            key.cache,
            key.machine,
        )
        if same and base.history == CLEAN and other.state is State.OK:
            words = ["packages", "--good", base.environment, "--bad", key.environment]
            return f"find the packages that bring {entry.label} in ({key.title}): {_command(words)}"
    return ""


def _hunted(entry: Assessment) -> str:
    if entry.state is State.SLOWER or entry.detail.startswith("recompile stalls"):
        return "throughput"
    return entry.detail


def _verb(newer: Assessment) -> str:
    return "brought in" if newer.state in BAD else "fixed"


def _release(entry: Assessment, points: Mapping[str, Point]) -> Version | None:
    try:
        return Version(points.get(entry.cell.key.build, ("", ""))[0])
    except InvalidVersion:
        return None


def _command(words: Sequence[str]) -> str:
    return shlex.join(["python", "-m", "bisect", *words])
