"""Which builds a search chooses between, oldest first, and why every other build is none of them.

Pure: takes the files of an index page and what the machine is. A build is a candidate when it has a wheel for this
platform and this Python; a date without a build is explained, never guessed at or retried. Nightlies are ordered by
their date, releases by PEP 440: a nightly of 2.10 sorts before 2.10.0 and means something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from packaging.version import Version

from envs import index
from envs.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FROZEN_AFTER_DAYS = 14
DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})\Z")
"""A day as nightlies and people write it, `20260215` or `2026-02-15`; the groups are year, month and day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One build that can be installed here. `id` is its version without the CUDA tag, unique in a search."""

    id: str
    version: str
    date: str
    url: str = ""
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A build, or a span of dates, that is no candidate, with the reason."""

    build: str
    reason: str
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Everything an index says, sorted out. `what` names it in messages."""

    what: str
    candidates: tuple[Candidate, ...]
    excluded: tuple[Excluded, ...]


def nightlies(files: Iterable[index.File], target: index.Target, *, cuda: str, what: str, today: date) -> Listing:
    """The nightlies of one CUDA variant. UsageError, saying what is there instead, when none can be installed."""
    builds: dict[str, list[index.File]] = {}
    foreign: dict[str, Excluded] = {}
    for file in files:
        day = nightly_date(file.version)
        if day and file.version.local not in (None, cuda):
            reason = f"built for {file.version.local}, not {cuda}"
            foreign[day] = Excluded(build=str(file.version), reason=reason, date=day)
        elif day:
            builds.setdefault(day, []).append(file)
    found = [_sort_out(day, builds[day], target, day) for day in sorted(builds)]
    found += [excluded for day, excluded in sorted(foreign.items()) if day not in builds]
    return _listing(found, what, builds, target, today)


def releases(files: Iterable[index.File], target: index.Target, *, what: str, cutoff: str, today: date) -> Listing:
    """The releases of a package; those uploaded after `cutoff` (ISO, may be empty) are not candidates."""
    builds: dict[Version, list[index.File]] = {}
    for file in files:
        builds.setdefault(Version(file.version.public), []).append(file)
    found: list[Candidate | Excluded] = []
    for version in sorted(builds):
        day = min((file.upload_time[:10] for file in builds[version] if file.upload_time), default="")
        if version.is_prerelease:
            found.append(Excluded(build=str(version), reason="a pre-release", date=day))
        elif cutoff and day and day > cutoff[:10]:
            reason = f"uploaded {day}, after the environment's cut-off {cutoff[:10]}"
            found.append(Excluded(build=str(version), reason=reason, date=day))
        else:
            found.append(_sort_out(str(version), builds[version], target, day))
    return _listing(found, what, builds, target, today)


def nightly_date(version: Version) -> str:
    """2.12.0.dev20260215 -> `2026-02-15`; '' for anything that is not a dated development build."""
    match = DATE.match(str(version.dev)) if version.dev is not None else None
    return "-".join(match.groups()) if match else ""


def _sort_out(name: str, files: Sequence[index.File], target: index.Target, day: str) -> Candidate | Excluded:
    """A candidate where a wheel fits, else the reason; platforms are looked at before Pythons."""
    standing = [file for file in files if not file.yanked]
    best = index.best(standing, target)
    if best is not None:
        return Candidate(
            id=best.version.public,
            version=str(best.version),
            date=day,
            url=index.redacted(best.url),
            sha256=best.sha256,
            size=best.size,
        )
    label = max(files, key=lambda file: file.version).version.public if files else name
    return Excluded(build=label, reason=_why_not(standing, target), date=day)


def _why_not(files: Sequence[index.File], target: index.Target) -> str:
    if not files:
        return "withdrawn"
    if any(index.fit(file, target) is index.Fit.OTHER_PYTHON for file in files):
        return f"no cp{target.python.replace('.', '')} wheel"
    return f"no wheel for {target.architecture} Linux with glibc {target.glibc} (only {_platforms(files)})"


def _platforms(files: Iterable[index.File]) -> str:
    names = sorted({tag.platform for file in files for tag in file.tags})
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _listing(
    found: Sequence[Candidate | Excluded],
    what: str,
    builds: dict[str, list[index.File]] | dict[Version, list[index.File]],
    target: index.Target,
    today: date,
) -> Listing:
    candidates = tuple(item for item in found if isinstance(item, Candidate))
    excluded = tuple(item for item in found if isinstance(item, Excluded))
    if not candidates:
        raise _nothing_there(what, [file for files in builds.values() for file in files], target, excluded, today)
    return Listing(what=what, candidates=candidates, excluded=excluded)


def _nothing_there(
    what: str, files: list[index.File], target: index.Target, excluded: tuple[Excluded, ...], today: date
) -> UsageError:
    if not files:
        reason = excluded[-1].reason if excluded else "the index has no wheel of it at all"
        return UsageError(f"{what}: no candidates, {reason}", hint="check the CUDA variant and --index")
    newest = max((item.date for item in excluded if item.date), default="")
    frozen = bool(newest) and (today - date.fromisoformat(newest)).days > FROZEN_AFTER_DAYS
    return UsageError(
        f"{what}: the index has {len(files)} wheels, none for Python {target.python} on {target.architecture} Linux "
        f"(only {_platforms(files)})" + (f"; it looks frozen since {newest}" if frozen else ""),
        hint="take another --cuda variant, or another Python",
    )
