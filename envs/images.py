"""An image as it is, as an environment: asked what it holds, recorded by digest, nothing in it replaced.

What an image is called may move to other bytes, so its identity is its id; what registries call those bytes is kept
beside it, so that another machine can fetch the same ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from . import backend, machine
from . import fingerprint as fingerprints
from .contained import Container
from .environment_file import Entry
from .errors import CannotBuildError, CannotRunError, ToolError, UsageError
from .place import place_of
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .place import Place
    from .settings import Settings
    from .spec import Definition

_MATTERS = re.compile(
    r"(TORCH|TRITON|PYTORCH|CUDA|CUBLAS|CUDNN|NCCL|NVIDIA_TF32|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|OMP_|MKL_)"
)


def entry_of(
    definition: Definition, place: Place, store: Store, *, report: Callable[[str], None]
) -> tuple[Entry, bool]:
    """The image's entry in the store, and whether it was there already.

    UsageError when the definition asks for more than the image; CannotBuildError when the image has no torch at all,
    or another one than the definition names.
    """
    _refuse_additions(definition)
    digest = _digest(place)
    found = store.read(digest)
    if found is None:
        with store.locked(digest, report):
            return _asked(definition, place, store, digest, report=report), False
    _refuse_unfit(definition, found.fingerprint)
    store.touch(digest)
    return _with_digests(found, place, store, report=report), True


def known_entry(definition: Definition, settings: Settings) -> Entry | None:
    """The image's entry when it was asked before; None when not, or when no engine holds it. Fetches no image."""
    try:
        place = place_of(settings, definition.image, may_fetch=False)
    except ToolError:
        return None
    return Store(settings.store).read(_digest(place))


def _digest(place: Place) -> str:
    return hashlib.sha256(f"image {place.image}".encode()).hexdigest()


def _with_digests(entry: Entry, place: Place, store: Store, *, report: Callable[[str], None]) -> Entry:
    """The same bytes may have got another name in a registry since."""
    known = tuple(sorted({*entry.image_digests, *place.digests}))
    if known == entry.image_digests:
        return entry
    with store.locked(entry.digest, report):
        fresh = replace(entry, image_digests=known)
        store.finish(store.new_building(entry.digest), fresh)
    return fresh


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
            report=report,
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
            image_digests=place.digests,
            image_variables=_variables(place),
        )
        store.finish(building, entry)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return entry


def _variables(place: Place) -> tuple[tuple[str, str], ...]:
    """What the image sets that changes what torch loads, compiles or runs."""
    found: Mapping[str, str] = dict(place.held.variables) if isinstance(place, Container) else {}
    return tuple(sorted((name, text) for name, text in found.items() if _MATTERS.match(name)))


def _refuse_additions(definition: Definition) -> None:
    asked = [name for name in ("requirements", "history") if getattr(definition, name)]
    if asked:
        raise UsageError(
            f"{definition.name}: an image is taken as it is, and the definition adds {' and '.join(asked)}",
            hint="to build an environment inside the image, name the image with --base-image and leave out `image`",
        )


def _refuse_unfit(definition: Definition, said: fingerprints.Fingerprint) -> None:
    if said.torch_error:
        raise CannotBuildError(
            f"the image {definition.image} cannot import torch: {said.torch_error}",
            hint="is it an image with torch? name its Python in the definition's `python`",
            outcome="import_broken",
        )
    public = said.torch.partition("+")[0]
    if definition.torch and public != definition.torch:
        raise CannotBuildError(
            f"the image {definition.image} holds torch {said.torch}, the definition says {definition.torch}",
            hint="correct `torch` in the definition; another torch inside the image is `build NAME --torch VERSION`",
            outcome="wrong_build",
        )
    if definition.cuda and said.cuda != backend.cuda_version(definition.cuda):
        raise CannotBuildError(
            f"the image {definition.image} holds torch for CUDA {said.cuda or '(none)'}, the definition says "
            f"{definition.cuda}",
            hint="correct `cuda` in the definition",
            outcome="wrong_build",
        )
    tag = f"cu{said.cuda.replace('.', '')}"
    refusals = backend.preflight(tag, public, machine.ask()) if said.cuda else ()
    if refusals:
        raise CannotRunError(refusals[0].message, hint=refusals[0].hint, outcome=refusals[0].outcome)
