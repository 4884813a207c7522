"""Which builds a search chooses between, oldest first, and why every other build is none of them.

Pure: takes the files of an index page and what the machine is. A build is a candidate when it has a wheel for this
platform and this Python; a date without a build is explained, never guessed at or retried. Nightlies are ordered by
their date, releases by PEP 440: a nightly of 2.10 sorts before 2.10.0 and means something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envs import index
from envs.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FROZEN_AFTER_DAYS = 14
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})\Z")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The candidates from one endpoint to the other, both included."""

    good: str
    bad: str
    candidates: tuple[Candidate, ...]
    excluded: tuple[Excluded, ...]
    equal: tuple[tuple[str, ...], ...] = ()


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
    match = _DATE.match(str(version.dev)) if version.dev is not None else None
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


def select(listing: Listing, *, good: str, bad: str) -> Range:
    """The range between two endpoints, each a date, a version, `newest` or `oldest`."""
    good_at, bad_at = (_position(listing, text, option) for text, option in ((good, "--good"), (bad, "--bad")))
    if good_at == bad_at:
        raise UsageError(
            f"--good {good} and --bad {bad} are the same build, {listing.candidates[good_at].id}",
            hint="give two different builds",
        )
    first, last = sorted((good_at, bad_at))
    chosen = listing.candidates[first : last + 1]
    low, high = chosen[0], chosen[-1]
    inside = [item for item in listing.excluded if _is_between(item, low, high)]
    return Range(
        good=listing.candidates[good_at].id,
        bad=listing.candidates[bad_at].id,
        candidates=chosen,
        excluded=(*inside, *_missing_days(chosen, inside)),
        equal=_equal(chosen),
    )


def _equal(chosen: Sequence[Candidate]) -> tuple[tuple[str, ...], ...]:
    """Groups of builds whose wheels are the same bytes."""
    by_hash: dict[str, list[str]] = {}
    for candidate in chosen:
        if candidate.sha256:
            by_hash.setdefault(candidate.sha256, []).append(candidate.id)
    return tuple(tuple(names) for names in by_hash.values() if len(names) > 1)


def _is_between(item: Excluded, low: Candidate, high: Candidate) -> bool:
    if _is_nightly(low):
        return low.date < item.date < high.date
    return Version(low.id) < Version(item.build) < Version(high.id)


def _is_nightly(candidate: Candidate) -> bool:
    return bool(nightly_date(Version(candidate.id)))


def _missing_days(chosen: Sequence[Candidate], excluded: Sequence[Excluded]) -> list[Excluded]:
    """Spans of days inside a range of nightlies for which the index has nothing at all."""
    if not _is_nightly(chosen[0]):
        return []
    known = {item.date for item in chosen} | {item.date for item in excluded}
    day, last = date.fromisoformat(chosen[0].date), date.fromisoformat(chosen[-1].date)
    spans: list[list[date]] = []
    while (day := day + timedelta(days=1)) < last:
        if day.isoformat() in known:
            continue
        if spans and (day - spans[-1][-1]).days == 1:
            spans[-1].append(day)
        else:
            spans.append([day])
    return [_missing_span(span) for span in spans]


def _missing_span(span: Sequence[date]) -> Excluded:
    name = span[0].isoformat() if len(span) == 1 else f"{span[0]} to {span[-1]}"
    return Excluded(build=name, reason="not published", date=span[0].isoformat())


def parse_endpoint(text: str, option: str) -> str | date | Version:
    """`newest`, `oldest`, a date or a version; UsageError for anything else, before any index is asked."""
    if text in ("newest", "oldest"):
        return text
    matched = _DATE.match(text)
    try:
        return date(*map(int, matched.groups())) if matched else Version(text)
    except InvalidVersion:
        wrong = "neither a date nor a version"
    except ValueError as error:
        wrong = f"no date: {error}"
    raise UsageError(f"{option} {text!r} is {wrong}", hint="like 2026-02-15, 2.11.0 or newest")


def _position(listing: Listing, text: str, option: str) -> int:
    names = {"newest": len(listing.candidates) - 1, "oldest": 0}
    asked = parse_endpoint(text, option)
    if isinstance(asked, str):
        return names[asked]
    if isinstance(asked, date):
        day = asked.isoformat()
        called = [at for at, item in enumerate(listing.candidates) if item.id == text]  # some versions are dates
        if called:
            return called[0]
        if not _is_nightly(listing.candidates[0]) and all(item.date != day for item in listing.candidates):
            raise UsageError(
                f"{option} {text} is a date, and none of the {listing.what} is of that day",
                hint=f"give a version, like {listing.candidates[-1].id}; dates are for torch-nightlies",
            )
        return _find(listing, text, option, is_it=lambda item: item.date == day, older=lambda item: item.date < day)
    version = asked
    public, day = version.public, nightly_date(version)
    if day:
        return _find(listing, text, option, is_it=lambda item: item.id == public, older=lambda item: item.date < day)
    return _find(
        listing,
        text,
        option,
        is_it=lambda item: Version(item.id) == Version(public),
        older=lambda item: Version(item.id) < version,
    )


def _find(
    listing: Listing,
    text: str,
    option: str,
    *,
    is_it: Callable[[Candidate], bool],
    older: Callable[[Candidate], bool],
) -> int:
    """Position of the one candidate asked for; UsageError with the nearest ones and why it is none."""
    matching = [position for position, item in enumerate(listing.candidates) if is_it(item)]
    if matching:
        return matching[-1]
    split = sum(older(item) for item in listing.candidates)
    near = [item.id for item in listing.candidates[max(0, split - 1) : split + 1]]
    wanted = text.partition("+")[0].replace("-", "")
    reasons = [item.reason for item in listing.excluded if wanted in (item.build, item.date.replace("-", ""))]
    oldest, newest = listing.candidates[0], listing.candidates[-1]
    why = reasons[0] if reasons else f"not on the index, which has {oldest.id} to {newest.id}"
    hint = f"nearest: {', '.join(near)}"
    if not reasons and split == 0 and _is_nightly(oldest):
        why += "; nightlies are pruned"
        hint += f"; or take a release as the endpoint, {_release_before(oldest)}, with `torch-releases`"
    raise UsageError(f"{option} {text}: {listing.what}: {why}", hint=hint)


def _release_before(candidate: Candidate) -> str:
    """The release that was out when this nightly was built: one minor version before it."""
    version = Version(candidate.id)
    return f"{version.major}.{max(0, version.minor - 1)}.0"
