"""Simple index pages as data: which wheels there are, where they lie, and which of them fit a machine.

Pure parsing of PEP 503 HTML and PEP 691 JSON; refuses to know how a page is fetched. What makes PyTorch's pages
different from the default index's: `+` is written `%2B`, files lie on another host, nightlies carry no hash of
the wheel (`data-core-metadata` is the hash of the metadata, another file), not every file has an upload time,
and one page mixes platforms and Pythons, so a date can be there for others and not for us.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version  # noqa: TC002  (dataclass fields are read at run time)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


class PageError(ValueError):
    """The text is not a simple index page."""


class Fit(StrEnum):
    """Whether a wheel can be used on a target, and if not, what is in the way."""

    FITS = "fits"
    OTHER_PLATFORM = "other platform"
    OTHER_PYTHON = "other Python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a wheel must fit: a CPython minor version on Linux with a glibc.

    Attributes:
        python: `3.11`.
        architecture: `x86_64` or `aarch64`.
        glibc: `2.36`; wheels tagged for a newer one do not fit.
        full: `3.11.7`, where the interpreter is known; empty for any of the minor version.
    """

    python: str
    architecture: str
    glibc: str
    full: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One wheel on an index page.

    Attributes:
        filename: decoded file name, with `+`.
        name: canonical name of the distribution.
        version: its version, local part included.
        build: build tag; a re-uploaded wheel of the same version has a higher one.
        tags: what it fits.
        url: where it lies.
        sha256: hash of the wheel; empty when the page does not say.
        size: bytes; 0 when the page does not say.
        upload_time: as written; empty when the page does not say.
        requires_python: specifier; empty when the page does not say.
        metadata: whether `url + ".metadata"` holds the wheel's METADATA.
        yanked: whether it was withdrawn.
    """

    filename: str
    name: str
    version: Version
    build: tuple[int, str] | tuple[()]
    tags: frozenset[Tag]
    url: str
    sha256: str = ""
    size: int = 0
    upload_time: str = ""
    requires_python: str = ""
    metadata: bool = False
    yanked: bool = False


def parse(text: str, *, url: str) -> tuple[File, ...]:
    """The wheels of a page at `url`; PageError for something that is no index page. Sdists are left out."""
    stripped = text.lstrip()
    return _json_files(stripped, url) if stripped.startswith("{") else _html_files(text, url)


def from_filenames(filenames: Iterable[str], *, url: str) -> tuple[File, ...]:
    """The wheels of a directory, given its file names; `url` is the directory's."""
    base = url if url.endswith("/") else f"{url}/"
    files = (_file(name, base + name.replace("+", "%2B")) for name in filenames if name.endswith(".whl"))
    return tuple(file for file in files if file is not None)


def fit(file: File, target: Target) -> Fit:
    """Say whether the wheel can be used on the target."""
    if rank(file, target) is not None:
        return Fit.FITS
    platforms = {tag.platform for tag in file.tags}
    return Fit.OTHER_PYTHON if platforms & {"any", *_platforms(target)} else Fit.OTHER_PLATFORM


def rank(file: File, target: Target) -> int | None:
    """Position of the wheel's best tag in the target's order of preference; None when it does not fit."""
    if file.requires_python and not _python_allowed(file.requires_python, target.python):
        return None
    positions = [position for position, tag in enumerate(supported(target)) if tag in file.tags]
    return min(positions, default=None)


def best(files: Iterable[File], target: Target, *, version: Version | None = None) -> File | None:
    """The wheel an installer would take: not yanked, of the version (or the newest), best tag, newest build.

    A version without a local part matches any local part, as `==` does.
    """
    fitting = [
        (file.version, -position, file.build, file)
        for file in files
        if not file.yanked
        and (version is None or matches(file.version, version))
        and (position := rank(file, target)) is not None
    ]
    return max(fitting, key=lambda item: item[:3])[3] if fitting else None


def matches(have: Version, wanted: Version) -> bool:
    """Whether `==wanted` takes `have`."""
    return have == wanted or (wanted.local is None and have.public == wanted.public)


@lru_cache(maxsize=64)
def supported(target: Target) -> tuple[Tag, ...]:
    """Every tag the target accepts, best first. `cp36-none` is for CPython 3.6 only, `abi3` for later ones too."""
    major, minor = (int(part) for part in target.python.split("."))
    interpreter = f"cp{major}{minor}"
    platforms = tuple(_platforms(target))
    return (
        *cpython_tags((major, minor), abis=[interpreter], platforms=platforms),
        *compatible_tags((major, minor), interpreter=interpreter, platforms=platforms),
    )


def redacted(url: str) -> str:
    """The URL without a user name, password or query, for logs and reports."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _platforms(target: Target) -> Iterator[str]:
    major, minor = (int(part) for part in target.glibc.split(".")[:2])
    for older in range(minor if major == 2 else 40, 4, -1):
        yield f"manylinux_2_{older}_{target.architecture}"
        if older in _LEGACY:
            yield f"{_LEGACY[older]}_{target.architecture}"
    yield f"linux_{target.architecture}"


def _python_allowed(specifier: str, python: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(f"{python}.99", prereleases=True)
    except InvalidSpecifier:
        return True


def _file(filename: str, url: str, **known: Any) -> File | None:  # noqa: ANN401  (the fields of File)
    try:
        name, version, build, tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, ValueError):
        return None
    return File(
        filename=filename, name=canonicalize_name(name), version=version, build=build, tags=tags, url=url, **known
    )


def _html_files(text: str, url: str) -> tuple[File, ...]:
    parser = _Anchors(url)
    parser.feed(text)
    if not parser.anchors and "<a" not in text and "<html" not in text.lower():
        raise PageError(f"{redacted(url)} is not a simple index page")
    files = (_anchored(href, attributes) for href, attributes in parser.anchors)
    return tuple(file for file in files if file is not None)


def _anchored(href: str, attributes: Mapping[str, str | None]) -> File | None:
    target, fragment = urldefrag(href)
    hashed = re.match(r"sha256=([0-9a-f]{64})\Z", fragment)
    metadata = attributes.get("data-core-metadata") or attributes.get("data-dist-info-metadata")
    return _file(
        unquote(urlsplit(target).path.rsplit("/", 1)[-1]),
        target,
        sha256=hashed[1] if hashed else "",
        upload_time=attributes.get("data-upload-time") or "",
        requires_python=attributes.get("data-requires-python") or "",
        metadata=bool(metadata) and metadata != "false",
        yanked="data-yanked" in attributes,
    )


class _Anchors(HTMLParser):
    """Collects every link with its attributes, as an absolute URL."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = url
        self.anchors: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        href = attributes.get("href")
        if tag == "base" and href:
            self._base = urljoin(self._base, href)
        elif tag == "a" and href:
            self.anchors.append((urljoin(self._base, href), attributes))


def _json_files(text: str, url: str) -> tuple[File, ...]:
    try:
        entries = json.loads(text)["files"]
        files = [_entry(entry, url) for entry in entries]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise PageError(f"{redacted(url)} is not a simple index page: {error}") from error
    return tuple(file for file in files if file is not None)


def _entry(entry: Mapping[str, Any], url: str) -> File | None:
    return _file(
        entry["filename"],
        urljoin(url, entry["url"]),
        sha256=entry.get("hashes", {}).get("sha256", ""),
        size=int(entry.get("size") or 0),
        upload_time=entry.get("upload-time") or "",
        requires_python=entry.get("requires-python") or "",
        metadata=bool(entry.get("core-metadata") or entry.get("dist-info-metadata")),
        yanked=bool(entry.get("yanked")),
    )
