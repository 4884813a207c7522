"""`cache save | restore | list`: options and output; the work is in `cache`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import cache
from ..errors import UsageError
from .output import SCHEMA, built_entry, print_json, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ..cache import Manifest
    from ..environment_file import Entry
    from ..settings import Settings


def add_save(parser: argparse.ArgumentParser) -> None:
    """Options of `save`."""
    parser.add_argument("directory", nargs="?", metavar="DIR", help="`caches` of a run, with inductor/, triton/ in it")
    parser.add_argument("--env", required=True, metavar="ENV", help="the built environment that made the cache")
    parser.add_argument("--folder", action="append", default=[], metavar="KIND=DIR", help="one cache by its kind")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="what it was compiled for")
    parser.add_argument("--archive", metavar="FILE", help="default: STORE/caches/ENV-DIGEST-TIME.tar.gz")


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Options of `restore`."""
    parser.add_argument("archive", metavar="ARCHIVE", help="a file, or a name from `list`")
    parser.add_argument("directory", metavar="DIR", help="where to put it; must not hold anything")
    parser.add_argument("--env", required=True, metavar="ENV", help="the built environment that will use it")
    parser.add_argument("--anyway", action="store_true", help="even into a build it does not fit")


def save(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Save a compile cache with a manifest."""
    archive, manifest = _save(arguments, chosen, built_entry(arguments.env, chosen))
    if arguments.json:
        return print_json({"schema": SCHEMA, **_row(archive, manifest)})
    print(archive)  # noqa: T201
    say(f"saved {manifest.bytes / 1e6:.1f} MB of {', '.join(folder.name for folder in manifest.folders)}")
    return 0


def _save(arguments: argparse.Namespace, chosen: Settings, entry: Entry) -> tuple[Path, Manifest]:
    named = {kind: Path(text) for kind, text in _pairs(arguments.folder, "--folder")}
    found = cache.sources(Path(arguments.directory) if arguments.directory else None, named)
    manifest = cache.describe(
        found,
        entry.fingerprint,
        environment=entry.name,
        digest=entry.digest,
        configuration=dict(_pairs(arguments.config, "--config")),
        now=time.time(),
    )
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(manifest.created_at))
    default = chosen.store / "caches" / f"{entry.name}-{entry.digest[:12]}-{stamp}{cache.SUFFIX}"
    archive = Path(arguments.archive) if arguments.archive else default
    cache.save(found, manifest, archive)
    return archive, manifest


def restore(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Restore a compile cache into a build that it fits."""
    entry = built_entry(arguments.env, chosen)
    archive = _locate(arguments.archive, chosen)
    manifest = cache.restore(archive, Path(arguments.directory), entry.fingerprint, anyway=arguments.anyway)
    if arguments.json:
        return print_json({"schema": SCHEMA, "directory": arguments.directory, **_row(archive, manifest)})
    print(arguments.directory)  # noqa: T201
    say(f"restored {manifest.bytes / 1e6:.1f} MB made by {manifest.environment} (torch {manifest.torch})")
    return 0


def list_all(arguments: argparse.Namespace, chosen: Settings) -> int:
    """The saved compile caches."""
    from tabulate import tabulate  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    rows = [_row(archive, manifest) for archive, manifest in cache.listing(chosen.store / "caches")]
    if arguments.json:
        return print_json({"schema": SCHEMA, "caches": rows})
    headers = ("name", "torch", "triton", "GPU", "files", "size")
    print(tabulate(_table(rows), headers=headers, disable_numparse=True))  # noqa: T201
    return 0


def _locate(text: str, chosen: Settings) -> Path:
    """An archive by its path, or by its name in the store."""
    path = Path(text)
    if path.is_file():
        return path
    return chosen.store / "caches" / (text if text.endswith(cache.SUFFIX) else text + cache.SUFFIX)


def _row(archive: Path, manifest: Manifest) -> dict[str, Any]:
    """An archive as JSON has it."""
    return {"archive": str(archive), "name": archive.name.removesuffix(cache.SUFFIX), **asdict(manifest)}


def _table(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Archives as lines of a table: name, build, triton, GPU, files, size."""
    return [
        (
            each["name"],
            each["torch"],
            each["triton"],
            ", ".join(each["gpus"]) or "none",
            str(sum(folder["files"] for folder in each["folders"])),
            f"{sum(folder['bytes'] for folder in each['folders']) / 1e6:.1f} MB",
        )
        for each in rows
    ]


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    if bad := [key for key, equals, value in pairs if not (key and equals and value)]:
        raise UsageError(f"{option} {bad[0]!r} is not KEY=VALUE")
    return [(key, value) for key, _, value in pairs]
