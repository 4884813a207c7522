"""Reads one line of a freeze or requirements file, and says of what cannot be had again why not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envs.lock import applies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envs.index import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One distribution at one version.

    Attributes:
        name: canonical name (PEP 503).
        version: as written, with its local tag; empty only where a URL carries none.
        source: empty for an index, else the URL it came from (`git+https://...@commit`, `https://....whl`).
        hashes: `sha256:...` where the file gave them.
        marker: the environment marker of the line, if any.
    """

    name: str
    version: str
    source: str = ""
    hashes: tuple[str, ...] = ()
    marker: str = ""

    def __str__(self) -> str:
        return f"{self.name} @ {self.source}" if self.source else f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreproducible:
    """A line that cannot be installed elsewhere.

    Attributes:
        name: canonical name, or what stands in its place.
        reason: why.
        line: as written.
        version: if it says one.
        marker: the environment marker of the line, if any.
        hashes: `sha256:...` of its files where the list gave them.
    """

    name: str
    reason: str
    line: str = ""
    version: str = ""
    marker: str = ""
    hashes: tuple[str, ...] = ()


def parted(
    found: Iterable[Pin | Unreproducible], target: Target, groups: Sequence[str] = ()
) -> tuple[tuple[Pin | Unreproducible, ...], tuple[Pin | Unreproducible, ...]]:
    """What is installed on the target, and what only elsewhere, by the markers."""
    held = [(each, applies(each.marker, target, groups=groups)) for each in found]
    return tuple(each for each, holds in held if holds), tuple(each for each, holds in held if not holds)


def joined(lines: Sequence[str]) -> Iterator[str]:
    """Lines with their backslash continuations joined, comments and blanks left out."""
    held = ""
    for line in lines:
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        whole = re.sub(r"(^|\s)#.*$", "", held + line).strip()
        held = ""
        if whole:
            yield whole
    if held.strip():
        yield held.strip()


def requirement_lines(lines: Iterable[str]) -> Iterator[Pin | Unreproducible]:
    for line in lines:
        if line.startswith(("-e", "--editable")):
            yield _editable(re.sub(r"^(-e|--editable)[\s=]*", "", line), line)
        elif line.startswith(("-r", "--requirement", "-c", "--constraint")):
            yield Unreproducible(name=line.split()[-1], reason="another file that was not given", line=line)
        elif line.startswith("-"):
            continue  # an index or an installer option: no distribution
        else:
            yield requirement(line)


def _egg(url: str) -> str:
    match = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", url)
    return canonicalize_name(match[1]) if match else ""


def _editable(target: str, line: str) -> Pin | Unreproducible:
    """An editable checkout: a pinned commit of a repository can be had again, a directory cannot."""
    name = _egg(target) or canonicalize_name(re.split(r"[/#@]", target.rstrip("/"))[-1] or "unknown")
    if target.startswith("git+") and re.search(r"@[0-9a-f]{7,40}(?=[#&]|$)", target):
        return Pin(name=name, version="", source=credentials_removed(re.sub(r"#.*$", "", target)))
    return Unreproducible(name=name, reason="an editable directory of the other machine", line=line)


def credentials_removed(url: str) -> str:
    """A URL without a user name or token: these files end up in reports."""
    return re.sub(r"(https?://)[^/@\s]+@", r"\1", url)


def requirement(line: str) -> Pin | Unreproducible:
    """One requirement, exactly pinned or named as not reproducible."""
    body = re.sub(r"\s--[a-z-]+[= ]\S+", "", line).strip()
    hashes = tuple(re.findall(r"--hash[= ](\S+)", line))
    conda = re.fullmatch(r"([A-Za-z0-9._-]+)=([^=\s<>~!;]+)(?:=([^=\s]+))?", body)
    if conda:
        return conda_package(conda[1], conda[2], build=conda[3] or "", line=line)
    if re.match(r"(git|hg|svn|bzr)\+|https?://|file:|[./]", body):
        return _bare_url(body, line=line, hashes=hashes)
    try:
        parsed = Requirement(body)
    except InvalidRequirement as error:
        start = re.match(r"[A-Za-z0-9._-]+", body)
        return Unreproducible(
            name=start[0] if start else body[:40],
            reason=f"not understood: {str(error).splitlines()[0]}",
            line=line,
        )
    name, marker = canonicalize_name(parsed.name), str(parsed.marker or "")
    if parsed.url:
        return from_url(name, parsed.url, line=line, hashes=hashes, marker=marker)
    exact = [spec.version for spec in parsed.specifier if spec.operator in ("==", "===")]
    if len(parsed.specifier) != 1 or not exact or exact[0].endswith(".*"):
        reason = f"not pinned: {parsed.specifier or 'any version'}"
        return Unreproducible(name=name, reason=reason, line=line, marker=marker)
    found = checked(name, exact[0], line=line)
    return replace(found, hashes=hashes, marker=marker)


def _wheel_parts(url: str) -> tuple[str, str]:
    """Name and version in the file name of a wheel or sdist URL; empty strings where there are none."""
    file_name = re.sub(r"[?#].*$", "", url).rsplit("/", 1)[-1].replace("%2B", "+").replace("%2b", "+")
    match = re.match(r"([A-Za-z0-9._]+?)-([0-9][^-]*?)(?:-.*\.whl|\.tar\.gz|\.zip)$", file_name)
    return (canonicalize_name(match[1]), match[2]) if match else ("", "")


def _bare_url(body: str, *, line: str, hashes: tuple[str, ...]) -> Pin | Unreproducible:
    url = body.split(" ", 1)[0]
    name = _egg(url) or _wheel_parts(url)[0] or canonicalize_name(re.split(r"[/#@]", url.rstrip("/"))[-1] or "unknown")
    if url.startswith(("./", "../", "/")):
        return Unreproducible(name=name, reason="a path of the other machine", line=line)
    return from_url(name, url, line=line, hashes=hashes, marker="")


def from_url(name: str, url: str, *, line: str, hashes: tuple[str, ...], marker: str) -> Pin | Unreproducible:
    url = credentials_removed(url)
    version = _wheel_parts(url)[1]
    if url.startswith("file:"):
        built = " (a conda build directory)" if re.search(r"/(croot|feedstock_root|work|tmp/build)/", url) else ""
        reason = f"a file of the other machine{built}"
        return Unreproducible(name=name, reason=reason, line=line, version=version, marker=marker)
    if re.match(r"(git|hg|svn|bzr)\+", url) and not re.search(r"@[0-9a-f]{7,40}(?=[#&]|$)", url):
        return Unreproducible(name=name, reason="a repository without a commit", line=line, marker=marker)
    return Pin(name=name, version=version, source=url, hashes=hashes, marker=marker)


def conda_package(name: str, version: str, *, build: str, line: str) -> Pin | Unreproducible:
    """A package built by conda has other bytes than the wheel of that version; one from PyPI is a wheel."""
    if build.startswith("pypi"):
        return checked(name, version, line=line)
    reason = f"built by conda ({build or 'no build string'}): no wheel has these bytes"
    return Unreproducible(name=canonicalize_name(name), reason=reason, line=line, version=version)


def checked(name: str, version: str, *, line: str) -> Pin | Unreproducible:
    try:
        Version(version)
    except InvalidVersion:
        return Unreproducible(name=canonicalize_name(name), reason=f"not a version: {version}", line=line)
    return Pin(name=canonicalize_name(name), version=version)
