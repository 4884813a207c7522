"""`build`, `path` and `base-image`: environments, and the image they are made in."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .. import build as builder
from .. import outlook, resolve, room, spec
from ..errors import UsageError
from ..store import Store
from .output import SCHEMA, built_entry, entry_row, gb, print_json, say

if TYPE_CHECKING:
    import argparse

    from ..settings import Settings


def build(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Build unless it is in the store."""
    definition = spec.load(arguments.name)
    if arguments.torch:
        definition = spec.with_torch(definition, version=arguments.torch, cuda=arguments.cuda)
    elif arguments.cuda:
        raise UsageError("--cuda needs --torch", hint="which version of torch for that variant?")
    if arguments.date:
        definition = resolve.newest(definition, chosen, date=arguments.date)
    if arguments.dry_run:
        return _dry_run(arguments, definition, chosen)
    built = builder.build(definition, chosen, report=say)
    if arguments.json:
        return print_json(
            {
                "schema": SCHEMA,
                "name": built.name,
                "digest": built.digest,
                "path": str(built.path),
                "python": str(built.python),
                "cached": built.cached,
                "seconds": built.seconds,
                "image": built.place.image,
                "image_digests": list(built.place.digests),
                "fingerprint": built.fingerprint.as_json(),
            }
        )
    print(built.path)  # noqa: T201
    said = built.fingerprint
    say(
        f"torch {said.torch or said.torch_error} (CUDA {said.cuda or '?'}, {said.git_version[:11] or '?'}), "
        f"Python {said.python}, {'ready' if built.cached else 'built'} in {built.seconds:.1f} s"
    )
    return 0


def _dry_run(arguments: argparse.Namespace, definition: spec.Definition, chosen: Settings) -> int:
    built = outlook.is_built(definition, chosen)
    if definition.as_it_is:  # its size is the engine's affair
        needs = room.Estimate(download_bytes=0, disk_bytes=0, cache_bytes=0)
    else:
        needs = outlook.estimate(resolve.lock_for(definition, chosen), chosen)
    if arguments.json:
        return print_json({"schema": SCHEMA, "name": definition.name, "built": built, **asdict(needs)})
    say(
        f"{definition.name}: {'built already; ' if built else ''}at most {gb(needs.download_bytes)} to download, "
        f"about {gb(needs.disk_bytes)} on disk{f'; {needs.image_told}' if needs.image else ''}"
    )
    return 0


def path(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Where a built environment is."""
    entry = built_entry(arguments.name, chosen)
    store = Store(chosen.store)
    if arguments.json:
        row = {"python": entry.python or str(store.python(entry.digest)), **entry_row(entry, chosen)}
        return print_json({"schema": SCHEMA, **row})
    print(store.directory(entry.digest))  # noqa: T201
    return 0


def base_image(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Make or import the base image of the container backend."""
    from .. import base_image  # noqa: PLC0415  (a cached environment is to be ready in half a second)

    if arguments.rootfs is not None and not arguments.rootfs.is_file():
        raise UsageError(f"--rootfs: there is no file {arguments.rootfs}")
    identifier = base_image.make(
        chosen, rootfs=arguments.rootfs, reference=arguments.reference, suite=arguments.suite, report=say
    )
    if arguments.json:
        return print_json({"schema": SCHEMA, "image": chosen.base_image, "id": identifier})
    print(f"{chosen.base_image} {identifier}")  # noqa: T201
    return 0
