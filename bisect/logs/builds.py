"""Which torch was there: the versions a log or a result prints, against the one asked for; and one swapped for another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from ..model import Outcome
from ..signatures import Role
from .findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..result import HazardsResult, TrainResult
    from .facts import LogFacts
    from .text import Line

_REMOVED = re.compile(
    r"(?:Found existing installation: torch |Uninstalling torch-|^\s*- torch==)(?P<version>\d[\w.+]*\d|\d[\w.+]*[a-z])"
)
_INSTALLED = re.compile(r"(?:Successfully installed\b.*\btorch-|^\s*\+ torch==)(?P<version>\d[\w.+]*)")
_ASKED = re.compile(r"(?:Collecting torch==(?P<a>\d[\w.+]*)\s*$|\b(?:pip|uv pip) install\b.*\btorch==(?P<b>\d[\w.+]*))")
_FROZEN = re.compile(r"^torch==(?P<version>\d[\w.+]*)\s*$")
_NVIDIA = re.compile(r"^nvidia-([a-z-]+?)-cu(\d\d)(?:==|\s)")


def build_findings(
    lines: Sequence[Line], facts: LogFacts, result: TrainResult | HazardsResult | None, *, expected: str
) -> tuple[Finding, ...]:
    """Another torch than asked for, a torch that an install step replaced, two CUDA families in one freeze."""
    wrong = _unexpected(lines, facts, result, expected=expected)
    return (*wrong, *_replaced(lines, expected=expected), *_two_families(lines))


def named_builds(
    lines: Sequence[Line], facts: LogFacts, result: TrainResult | HazardsResult | None
) -> tuple[tuple[int, str], ...]:
    """The versions of torch that a log or a result names, with their lines; the one that ran is the last."""
    installed = _last(lines, _INSTALLED)
    printed = sorted((*facts.torch, *((installed,) if installed else ())))
    reported = result.environment.torch if result is not None and result.environment is not None else ""
    return (*printed, *([(0, reported)] if reported else []))


def same_build(expected: str, found: str) -> bool:
    """Whether a version found can be the one asked for; a local part (`+cu130`) is compared where both have one."""
    expected_public, _, expected_local = expected.partition("+")
    found_public, _, found_local = found.partition("+")
    return _version(expected_public) == _version(found_public) and (
        not expected_local or not found_local or expected_local == found_local
    )


def _version(text: str) -> Version | str:
    """The version, equal for 2.11 and 2.11.0; the text itself where it is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return text


def _unexpected(
    lines: Sequence[Line], facts: LogFacts, result: TrainResult | HazardsResult | None, *, expected: str
) -> Iterator[Finding]:
    if not expected:
        return
    cuda = facts.cuda
    if result is not None and result.environment is not None:
        cuda = cuda or result.environment.cuda or ""
    for position, version in named_builds(lines, facts, result)[-1:]:
        if not same_build(expected, version):
            yield _wrong(f"torch {version} where {expected} was asked for", position)
            return
    wanted = re.search(r"\+cu(\d+)(\d)\Z", expected)
    if wanted and cuda and cuda != f"{wanted[1]}.{wanted[2]}":
        yield _wrong(f"torch built for CUDA {cuda} where {expected} was asked for", 0)


def _replaced(lines: Sequence[Line], *, expected: str) -> Iterator[Finding]:
    removed = _last(lines, _REMOVED)
    installed = _last(lines, _INSTALLED)
    frozen = [(line.number, match["version"]) for line in lines if (match := _FROZEN.match(line.text))]
    if removed is None and len(frozen) > 1:
        removed, installed = frozen[0], frozen[-1]
    if removed is None or installed is None or installed[0] < removed[0] or removed[1] == installed[1]:
        return
    if expected and same_build(expected, installed[1]) and same_build(installed[1], expected):
        return
    if not expected and any(
        (match := _ASKED.search(line.text)) and (match["a"] or match["b"]) == installed[1] for line in lines
    ):
        return
    yield _wrong(f"torch {removed[1]} was replaced by {installed[1]}", installed[0])


def _last(lines: Sequence[Line], pattern: re.Pattern[str]) -> tuple[int, str] | None:
    found = None
    for line in lines:
        match = pattern.search(line.text)
        if match is not None:
            found = (line.number, match["version"])
    return found


def _wrong(text: str, position: int) -> Finding:
    return Finding(
        outcome=Outcome.parse("wrong_build"),
        role=Role.NOTICE,
        position=position,
        line=position,
        text=text,
        detail="torch",
    )


def _two_families(lines: Sequence[Line]) -> Iterator[Finding]:
    majors: dict[str, dict[str, int]] = {}
    for line in lines:
        match = _NVIDIA.match(line.text)
        if match is not None:
            majors.setdefault(match[1], {})[match[2]] = line.number
    for library, seen in majors.items():
        if len(seen) > 1:
            both = " and ".join(f"cu{major}" for major in sorted(seen))
            yield Finding(
                outcome=Outcome.parse("library_mix"), role=Role.REMARK, position=max(seen.values()), line=max(seen.values()),
                text=f"nvidia-{library} is installed for {both}; their files overwrite each other", detail="two_cuda_families",
            )  # fmt: skip
            return
