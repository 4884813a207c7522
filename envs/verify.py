"""What a freeze does not see: files changed, deleted, owned twice or by nobody, and code that runs at every start.

Every file is hashed against the RECORD of the distribution that owns it. Hashes are remembered by size, times
and inode, so that a second look at an unchanged environment costs only the listing.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from .errors import UsageError
from .findings import Finding, Kind, Recorded, against_records, mixed, since_built, unexpected, unowned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from .findings import Left
    from .lock import Pin

_WORKERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The outcome of one look at an environment.

    Attributes:
        findings: faults first, by kind and path.
        files: files looked at.
        bytes: their size.
        hashed: files that had to be read.
        seconds: time it took.
    """

    findings: tuple[Finding, ...]
    files: int
    bytes: int
    hashed: int
    seconds: float

    @staticmethod
    def kinds() -> tuple[Kind, ...]:
        """Everything that is looked for, found or not."""
        return tuple(Kind)

    @property
    def ok(self) -> bool:
        """Whether nothing found is a fault."""
        return not any(finding.fault for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A file as it lies there; equal values mean that its content was not changed through the file system."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What is remembered; the ctime also changes when a tool sets the mtime back."""
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode)

    @property
    def changed_ns(self) -> int:
        """When its content was last changed; `cp -p`, `rsync -a` and `tar -x` keep an mtime, never the ctime."""
        return max(self.mtime_ns, self.ctime_ns)


@dataclass(slots=True, kw_only=True)
class _Hashes:
    """Remembered hashes of one environment, and how many had to be computed."""

    path: Path | None
    known: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    computed: int = 0


def verify(
    environment: Path,
    *,
    memory: Path | None = None,
    pins: Sequence[Pin] = (),
    left: Left | None = None,
    contents: bool = True,
    since_ns: int | None = None,
) -> Verification:
    """Look at a virtual environment.

    Args:
        environment: directory with `pyvenv.cfg`.
        memory: file that remembers hashes between calls.
        pins: what should be installed; empty to leave that question out.
        left: what its history left when it was finished, which is no fault.
        contents: whether files are read; a listing finds everything but changed files.
        since_ns: only files that were modified or put there after this are read, and those of which `left` speaks.
    """
    started = time.monotonic()
    site = _site_packages(environment)
    seen = dict(_walk(environment))
    records, broken, installed = _records(site, environment)
    hashes = _remembered(memory)
    known = {*left.digests, *(item.path for item in left.findings)} if left else set()
    listed = [path for path in records.keys() | known if path in seen] if contents else []
    wanted = [path for path in listed if since_ns is None or path in known or seen[path].changed_ns > since_ns]
    actual = _hash(environment, wanted, seen, hashes)
    findings = [
        *broken,
        *against_records(records, seen, actual),
        *unowned(records, seen, str(site.relative_to(environment))),
        *_startup(environment, site, seen),
        *mixed(installed),
        *(unexpected(installed, pins) if pins else ()),
    ]
    if left is not None:
        findings = list(since_built(findings, left, actual))
    _remember(hashes, actual, seen)
    return Verification(
        findings=tuple(sorted(findings, key=lambda item: (not item.fault, item.kind, item.path))),
        files=len(seen),
        bytes=sum(file.size for file in seen.values()),
        hashed=hashes.computed,
        seconds=round(time.monotonic() - started, 3),
    )


def _site_packages(environment: Path) -> Path:
    found = sorted((environment / "lib").glob("python3*/site-packages"))
    if not (environment / "pyvenv.cfg").exists() or not found:
        raise UsageError(f"{environment} is not a virtual environment", hint="give the name of a built environment")
    return found[0]


def _walk(environment: Path) -> Iterator[tuple[str, _Seen]]:
    """Every file of the environment by its relative path; directories behind links (`lib64`) only once."""
    pending = [str(environment)]
    cut = len(str(environment)) + 1
    while pending:
        try:
            entries = os.scandir(pending.pop())
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    yield (
                        entry.path[cut:],
                        _Seen(
                            size=status.st_size,
                            mtime_ns=status.st_mtime_ns,
                            ctime_ns=status.st_ctime_ns,
                            inode=status.st_ino,
                        ),
                    )


def _records(
    site: Path, environment: Path
) -> tuple[dict[str, list[Recorded]], list[Finding], tuple[tuple[str, str], ...]]:
    """Who claims which file; what could not be read; and every distribution as (name, version)."""
    claims: dict[str, list[Recorded]] = defaultdict(list)
    broken: list[Finding] = []
    installed = []
    base = str(site.relative_to(environment))
    for info in sorted(site.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        installed.append((canonicalize_name(name), version))
        owner = f"{canonicalize_name(name)}=={version}"
        try:
            with (info / "RECORD").open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.reader(file) if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            broken.append(
                Finding(kind=Kind.NO_RECORD, path=f"{base}/{info.name}/RECORD", owners=(owner,), detail=str(error))
            )
            continue
        for row in rows:
            path = os.path.normpath(f"{base}/{row[0]}")
            claims[path].append(Recorded(owner=owner, digest=row[1] if len(row) > 1 else ""))
    return claims, broken, tuple(installed)


def _startup(environment: Path, site: Path, seen: Mapping[str, _Seen]) -> Iterator[Finding]:
    """Code that runs at every start of the interpreter, whoever owns it."""
    base = str(site.relative_to(environment))
    for path in seen:
        directory, _, name = path.rpartition("/")
        if directory != base:
            continue
        if name.endswith(".pth"):
            text = (environment / path).read_text(encoding="utf-8", errors="replace").strip()
            own = text == "import _virtualenv"
            yield Finding(kind=Kind.PTH, path=path, detail="of the environment itself" if own else text, fault=False)
        if name in ("sitecustomize.py", "usercustomize.py"):
            yield Finding(kind=Kind.SITECUSTOMIZE, path=path, detail="runs at every start")
    for name in ("sitecustomize", "usercustomize"):
        if any(path.startswith(f"{base}/{name}/") for path in seen):
            yield Finding(kind=Kind.SITECUSTOMIZE, path=f"{base}/{name}", detail="runs at every start")


def _hash(environment: Path, paths: Sequence[str], seen: Mapping[str, _Seen], hashes: _Hashes) -> dict[str, str]:
    """The hash of every file in RECORD's spelling, read only when it is not remembered; biggest files first."""
    actual = {}
    unknown = []
    for path in paths:
        known = hashes.known.get(path)
        if known is not None and known[0] == seen[path].key:
            actual[path] = known[1]
        else:
            unknown.append(path)
    unknown.sort(key=lambda path: -seen[path].size)
    hashes.computed = len(unknown)
    with ThreadPoolExecutor(max_workers=min(_WORKERS, os.cpu_count() or 1)) as pool:
        digests = pool.map(lambda path: digest(environment / path), unknown)
        actual.update(zip(unknown, digests, strict=True))
    return actual


def digest(path: Path) -> str:
    """The hash of a file in RECORD's spelling."""
    with path.open("rb") as file:
        raw = hashlib.file_digest(file, "sha256").digest()
    return f"sha256={base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"


def _remembered(memory: Path | None) -> _Hashes:
    """What was hashed before; an unreadable memory is no memory."""
    if memory is None or not memory.exists():
        return _Hashes(path=memory)
    try:
        table = json.loads(memory.read_text(encoding="utf-8"))
        return _Hashes(path=memory, known={path: (tuple(key), digest) for path, (key, digest) in table.items()})
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return _Hashes(path=memory)


def _remember(hashes: _Hashes, actual: Mapping[str, str], seen: Mapping[str, _Seen]) -> None:
    if hashes.path is None or not hashes.computed:
        return
    table = hashes.known | {path: (seen[path].key, digest) for path, digest in actual.items()}
    temporary = hashes.path.with_suffix(f".{os.getpid()}")
    try:
        temporary.write_text(json.dumps(table), encoding="utf-8")
        temporary.replace(hashes.path)
    except OSError:
        return
