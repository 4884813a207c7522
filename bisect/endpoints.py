"""The range between two endpoints in a listing: what lies between them, what is missing there, where an endpoint is.

Pure. An endpoint is a date, a version, `newest` or `oldest`; one that is not there is an error that names the nearest
ones and says why it is none. Spans of days without a nightly are explained like any other build that is no candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envs.errors import UsageError

from .candidates import DATE, Candidate, Excluded, Listing, nightly_date

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The candidates from one endpoint to the other, both included."""

    good: str
    bad: str
    candidates: tuple[Candidate, ...]
    excluded: tuple[Excluded, ...]
    equal: tuple[tuple[str, ...], ...] = ()


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
    matched = DATE.match(text)
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
