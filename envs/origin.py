"""Where torch comes from: a directory of wheels, an index that replaces PyTorch's, PyTorch's own, or the default.

Decides for one definition on one target, and says why when it is nowhere. Only torch and what is built together
with it may come from such a place, because PyTorch's index also mirrors old copies of common packages.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from . import backend, fetch, index
from .errors import CannotBuildError
from .spec import Channel

if TYPE_CHECKING:
    from .settings import Settings
    from .spec import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where torch comes from.

    Attributes:
        location: index URL or directory; empty means the default index.
        flat: whether it is a directory.
        pin: requirement for exactly this torch.
        direct: projects that torch needs from the same place, to be asked for beside it.
        family: projects that come from this place and from nowhere else.
        fallback: further projects that torch needs and this place has, should the default index lack them.
    """

    location: str = ""
    flat: bool = False
    pin: str
    direct: tuple[str, ...] = ()
    family: frozenset[str] = frozenset()
    fallback: frozenset[str] = frozenset()


def decide(definition: Definition, settings: Settings, target: index.Target) -> Origin:
    """Where the definition's torch comes from; CannotBuildError `not_published` when it is nowhere."""
    if settings.wheelhouse is not None:
        found = _best(wheelhouse_files(settings.wheelhouse, "torch"), definition, target)
        if found is not None:
            return _beside(found, definition, settings, location=str(settings.wheelhouse), flat=True)
    served = is_served(definition, target.architecture)
    if served and not settings.index:
        return Origin(pin=f"torch=={definition.torch}")
    location = variant_index(definition, settings)
    files = index_files(location, "torch", settings)
    found = _best(files, definition, target)
    if found is not None:
        return _beside(found, definition, settings, location=location, flat=False)
    if served:
        return Origin(pin=f"torch=={definition.torch}")
    raise _not_there(definition, files, target, location)


def variant_index(definition: Definition, settings: Settings) -> str:
    """URL of the index that has the definition's variant, or of the one that replaces it."""
    if settings.index:
        return settings.index
    nightly = definition.channel is Channel.NIGHTLY
    return f"{settings.torch_index}/{backend.index_path(definition.cuda, nightly=nightly)}"


def is_served(definition: Definition, architecture: str) -> bool:
    """Whether the default index has this release as this variant."""
    variant = backend.default_variant(definition.torch, architecture=architecture)
    return definition.channel is Channel.RELEASE and variant == definition.cuda


def torch_files(definition: Definition, settings: Settings, *, project: str = "torch") -> tuple[index.File, ...]:
    """Every wheel of torch (or of another project of its family) where the variant's wheels are.

    Looks at the wheelhouse, else at the index that replaces the variant's, else at the variant's own.
    """
    if settings.wheelhouse is not None:
        found = wheelhouse_files(settings.wheelhouse, project)
        if found:
            return found
    return index_files(variant_index(definition, settings), project, settings)


def wheelhouse_files(wheelhouse: Path, project: str) -> tuple[index.File, ...]:
    """The wheels of a project in a directory."""
    names = sorted(path.name for path in wheelhouse.glob("*.whl"))
    files = index.from_filenames(names, url=wheelhouse.as_uri())
    return tuple(file for file in files if file.name == project)


def index_files(location: str, project: str, settings: Settings) -> tuple[index.File, ...]:
    """The wheels of a project on an index."""
    if settings.offline:
        raise CannotBuildError(
            f"cannot look at {index.redacted(location)}: the network is off",
            hint="run once without --offline, or give a directory of wheels with --wheelhouse",
            outcome="download_failed",
        )
    response = fetch.page(f"{location}/{project}/")
    try:
        files = index.parse(response.text, url=response.url)
    except index.PageError as error:
        raise CannotBuildError(str(error), hint="is the index right?", outcome="download_failed") from error
    return tuple(file for file in files if file.name == project)


def published(files: tuple[index.File, ...]) -> str:
    """One line on what there is instead."""
    versions = sorted({file.version for file in files})
    if not versions:
        return "the index has no wheels of torch at all"
    return f"it has {len(versions)} versions, from {versions[0]} to {versions[-1]}; nightlies are removed after a while"


def _best(files: tuple[index.File, ...], definition: Definition, target: index.Target) -> index.File | None:
    """The wheel of the variant; one without a local tag is taken at its index's word."""
    of_variant = [file for file in files if file.version.local in (None, definition.cuda)]
    return index.best(of_variant, target, version=Version(definition.torch))


def _beside(torch: index.File, definition: Definition, settings: Settings, *, location: str, flat: bool) -> Origin:
    """The origin of a wheel that was found: what torch needs, and what of it lies at the same place.

    uv takes a project from an index of its own only when it is a direct requirement, so what torch needs from
    there is made one; the version stays torch's to say.
    """
    needed = _needed(torch, settings)
    asked = {canonicalize_name(Requirement(text).name) for text in definition.requirements}
    wanted = [name for name in backend.TORCH_FAMILY if name in needed | asked]
    there = [name for name in wanted if _has(location, name, settings, flat=flat)]
    return Origin(
        location=location,
        flat=flat,
        pin=f"torch=={torch.version}",
        direct=tuple(name for name in there if name in needed),
        family=frozenset(("torch", *there)),
        fallback=frozenset(name for name in needed if name.startswith("nvidia-")),
    )


def _needed(torch: index.File, settings: Settings) -> set[str]:
    """What the wheel requires on Linux, by its own metadata; without metadata, triton, as every CUDA build does."""
    text = _metadata(torch, settings)
    if text is None:
        return {"triton"}
    needed: set[str] = set()
    for line in message_from_string(text).get_all("Requires-Dist", []):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        linux = {"platform_system": "Linux", "sys_platform": "linux", "extra": ""}
        if requirement.marker is None or requirement.marker.evaluate(linux):
            needed.add(canonicalize_name(requirement.name))
    return needed


def _metadata(torch: index.File, settings: Settings) -> str | None:
    """The METADATA of a wheel, from the wheel itself or from beside it on the index; None when there is none."""
    if torch.url.startswith("file://") and settings.wheelhouse is not None:
        try:
            with zipfile.ZipFile(settings.wheelhouse / torch.filename) as archive:
                name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
                return archive.read(name).decode("utf-8", errors="replace")
        except (OSError, zipfile.BadZipFile, StopIteration) as error:
            raise CannotBuildError(
                f"{settings.wheelhouse / torch.filename} is not a wheel: {error}", hint="download it again"
            ) from error
    if not torch.metadata:
        return None
    try:
        return fetch.page(f"{torch.url}.metadata").text
    except CannotBuildError as error:
        if error.outcome == "not_published":
            return None
        raise


def _has(location: str, project: str, settings: Settings, *, flat: bool) -> bool:
    if flat:
        return bool(wheelhouse_files(Path(location), project))
    try:
        return bool(index_files(location, project, settings))
    except CannotBuildError as error:
        if error.outcome == "not_published":
            return False
        raise


def _not_there(
    definition: Definition, files: tuple[index.File, ...], target: index.Target, location: str
) -> CannotBuildError:
    same = [file for file in files if index.matches(file.version, Version(definition.torch))]
    where = index.redacted(location)
    if not same:
        return CannotBuildError(
            f"torch {definition.torch} is not at {where}", hint=published(files), outcome="not_published"
        )
    reasons = sorted({str(index.fit(file, target)) for file in same} - {"fits"})
    why = f" ({', '.join(reasons)})" if reasons else ""
    return CannotBuildError(
        f"torch {definition.torch} at {where} has no {definition.cuda} wheel for Python {target.python} on "
        f"{target.architecture}{why}",
        hint=f"there are: {', '.join(sorted(file.filename for file in same)[:6])}",
        outcome="not_published",
    )
