"""An image as it is, as an environment: asked what it holds, recorded by its id, nothing in it replaced.

What it is called may move to other bytes, so its identity is the image's id.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from typing import TYPE_CHECKING

from . import backend, machine
from . import fingerprint as fingerprints
from .errors import CannotBuildError, CannotRunError
from .store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from .place import Place
    from .spec import Definition
    from .store import Store


def entry_of(
    definition: Definition, place: Place, store: Store, *, report: Callable[[str], None]
) -> tuple[Entry, bool]:
    """The image's entry in the store, and whether it was there already.

    CannotBuildError when the image has no torch at all, or another one than the definition names.
    """
    digest = hashlib.sha256(f"image {place.image}".encode()).hexdigest()
    found = store.read(digest)
    if found is not None:
        store.touch(digest)
        return found, True
    with store.locked(digest, report):
        return _asked(definition, place, store, digest, report=report), False


def _asked(definition: Definition, place: Place, store: Store, digest: str, *, report: Callable[[str], None]) -> Entry:
    started = time.monotonic()
    building = store.new_building(digest)
    try:
        python = place.find_python(definition.pythons, offline=True)
        scratch = building / "asked"
        scratch.mkdir()
        report(f"asking the image {definition.image} what it is")
        said = fingerprints.ask(
            python.path,
            scratch=scratch,
            driver=machine.driver_version(),
            environment=definition.environment,
            place=place,
        )
        _refuse_unfit(definition, said)
        shutil.rmtree(scratch, ignore_errors=True)
        entry = Entry(
            name=definition.name,
            digest=digest,
            lock="",
            torch=said.torch,
            cuda=said.cuda,
            interpreter=python.identity,
            fingerprint=said,
            seconds=round(time.monotonic() - started, 3),
            environment=definition.environment,
            image=place.image,
            python=os.fspath(python.path),
        )
        store.finish(building, entry)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return entry


def _refuse_unfit(definition: Definition, said: fingerprints.Fingerprint) -> None:
    if said.torch_error:
        raise CannotBuildError(
            f"the image {definition.image} cannot import torch: {said.torch_error}",
            hint="is it an image with torch? name its Python in the definition's `python`",
            outcome="import_broken",
        )
    if definition.torch and said.torch.partition("+")[0] != definition.torch:
        raise CannotBuildError(
            f"the image {definition.image} holds torch {said.torch}, the definition says {definition.torch}",
            hint="correct `torch` in the definition, or name another image; an image's torch is not replaced",
            outcome="wrong_build",
        )
    refusals = backend.preflight(definition.cuda, said.torch.partition("+")[0], machine.ask())
    if refusals:
        raise CannotRunError(refusals[0].message, hint=refusals[0].hint, outcome=refusals[0].outcome)
