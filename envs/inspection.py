"""The files of an image, looked at inside it: the same findings as `verify` makes of a virtual environment.

An image never changes, so what it answered is kept beside its entry. Paths are told as those of a virtual environment
(`lib/python3.11/site-packages/...`) for the packages that torch lies among, so that the two can be compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from . import scrub
from .errors import CannotBuildError
from .findings import Finding, Kind, Recorded, against_records, mixed, unowned
from .verify import Verification

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .environment_file import Entry
    from .place import Place

_ASK = Path(__file__).parent / "inside" / "files.py"


def look(entry: Entry, directory: Path, place: Place) -> Mapping[str, Any]:
    """What lies in the image of an entry, from the file kept in its `directory` or from inside the image."""
    kept = directory / "files.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="look.", dir=directory) as scratch:
            _ask(entry, Path(scratch), place).replace(kept)
    found: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def _ask(entry: Entry, scratch: Path, place: Place) -> Path:
    python = Path(entry.python)
    env = scrub.child_environment(os.environ, python=python, home=scratch / "home", caches=scratch / "caches")
    answer, log = scratch / "files.json", scratch / "log.txt"
    argv = [str(python), str(_ASK), str(answer)]
    place.run(argv, cwd=scratch, env=env, writable=(scratch,), readable=(_ASK.parent,), output=log, timeout_s=3600.0)
    if not answer.exists():
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise CannotBuildError(f"cannot look into the image of {entry.name}: {last[-1] if last else 'no answer'}")
    return answer


def verification(looked: Mapping[str, Any], *, python: str) -> Verification:
    """The findings; `python` is the interpreter's minor version, `3.11`."""
    started = time.monotonic()
    found = [finding for base, site in _sites(looked, python) for finding in _findings(base, site)]
    installed = [_distribution(info) for site in looked["sites"] for info in site["records"]]
    sizes = [size for site in looked["sites"] for size in site["seen"].values()]
    return Verification(
        findings=tuple(sorted((*found, *mixed(installed)), key=lambda item: (not item.fault, item.kind, item.path))),
        files=len(sizes),
        bytes=sum(sizes),
        hashed=sum(len(site["hashes"]) for site in looked["sites"]),
        seconds=round(time.monotonic() - started, 3),
    )


def records(looked: Mapping[str, Any]) -> dict[str, str]:
    """A digest over what each distribution recorded, as `snapshot` makes it of a virtual environment."""
    return {
        _distribution(info)[0]: digest_of_rows(rows)
        for site in reversed(looked["sites"])
        for info, rows in site["records"].items()
        if rows is not None
    }


def digest_of_rows(rows: list[list[str]]) -> str:
    """Scripts and bookkeeping left out: they hold paths of the machine."""
    counted = sorted(tuple(row[:2]) for row in rows if len(row) > 1 and _counts(row[0]))
    return hashlib.sha256(repr(counted).encode()).hexdigest()


def _counts(path: str) -> bool:
    return not path.startswith("..") and ".dist-info/" not in path and not path.endswith(".pyc")


def _sites(looked: Mapping[str, Any], python: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each directory of packages with what its files are called; the first with torch stands for a venv's own."""
    sites = looked["sites"]
    own = next((site for site in sites if any(_distribution(info)[0] == "torch" for info in site["records"])), None)
    for site in sites:
        yield (f"lib/python{python}/site-packages" if site is own else site["path"]), site


def _findings(base: str, site: Mapping[str, Any]) -> Iterator[Finding]:
    claims: dict[str, list[Recorded]] = defaultdict(list)
    for info, rows in site["records"].items():
        owner = "==".join(_distribution(info))
        if rows is None:
            yield Finding(kind=Kind.NO_RECORD, path=f"{base}/{info}/RECORD", owners=(owner,))
        for row in rows or ():
            path = os.path.normpath(f"{base}/{row[0]}")
            claims[path].append(Recorded(owner=owner, digest=row[1] if len(row) > 1 else ""))
    hashes = {os.path.normpath(f"{base}/{path}"): digest for path, digest in site["hashes"].items()}
    seen = {f"{base}/{path}": size for path, size in site["seen"].items()}
    yield from against_records(claims, {*seen, *hashes}, hashes)
    if claims:  # without one, another packager's: its files are not listed in RECORDs at all
        yield from unowned(claims, seen, base)
    for name, text in site["startup"].items():
        kind = Kind.PTH if name.endswith(".pth") else Kind.SITECUSTOMIZE
        yield Finding(kind=kind, path=f"{base}/{name}", detail=text, fault=kind is not Kind.PTH)


def _distribution(info: str) -> tuple[str, str]:
    name, _, version = info.removesuffix(".dist-info").partition("-")
    return canonicalize_name(name), version
