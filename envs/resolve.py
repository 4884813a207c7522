"""From a definition to a lock: the committed one, one resolved here before, or one that uv resolves now.

torch and what must match it come from PyTorch's index (or what replaces it) only; everything else from the
default index only. Where the default index serves the release as the wanted CUDA variant, torch comes from there
too. A committed lock serves several Pythons and machines; a lock resolved now serves this one.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from . import backend, fetch, history, index, interpreter, lock, spec, uv, uvlog
from .errors import CannotBuildError, UsageError
from .spec import Channel
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import Settings

LOCKS = Path(__file__).parent / "locks"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where torch comes from: `location` is an index URL or a directory; empty means the default index.

    `files` are the wheels by project, as far as they were looked at.
    """

    location: str = ""
    flat: bool = False
    files: Mapping[str, tuple[index.File, ...]]


def lock_for(definition: spec.Definition, settings: Settings) -> lock.Lock:
    """The lock of a definition on this machine; resolved by uv when there is none yet.

    A definition without a version of torch takes the newest of its channel; one with a history has its base's.
    """
    definition = history.base_of(definition)
    known = known_lock(definition, settings)
    if known is not None:
        return known
    exact = pinned(definition, settings)
    return known_lock(exact, settings) or lock_now(exact, settings)


def pinned(definition: spec.Definition, settings: Settings) -> spec.Definition:
    """The definition with an exact version of torch; offline, the newest one that was resolved here before."""
    if definition.torch:
        return definition
    known = _newest_known(definition, settings) if settings.offline else ""
    return replace(definition, torch=known) if known else newest(definition, settings)


def _newest_known(definition: spec.Definition, settings: Settings) -> str:
    """Version of the newest torch among the locks that were made here for the definition."""
    locks = (
        lock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
        for path in Store(settings.store).resolved("").parent.glob("pylock.*.toml")
    )
    versions = [
        Version(item.version)
        for found in locks
        if found.name == definition.name
        for item in found.distributions
        if item.name == "torch"
    ]
    return max(versions).public if versions else ""


def resolved_path(definition: spec.Definition, settings: Settings) -> Path:
    """Where `lock_now` keeps the lock of a definition with an exact version."""
    return Store(settings.store).resolved(resolution_key(definition, settings))


def known_lock(definition: spec.Definition, settings: Settings) -> lock.Lock | None:
    """The lock that needs no network: committed for a shipped definition, or resolved on this machine before."""
    definition = history.base_of(definition)
    if not definition.torch:
        return None
    if not (settings.index or settings.wheelhouse):
        committed = committed_lock(definition)
        if committed is not None:
            return committed
    path = Store(settings.store).resolved(resolution_key(definition, settings))
    try:
        return lock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
    except FileNotFoundError:
        return None


def committed_lock(definition: spec.Definition) -> lock.Lock | None:
    """The lock beside the shipped definitions; UsageError when its definition has changed since."""
    path = LOCKS / f"pylock.{definition.name}.toml"
    try:
        found = lock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
    except FileNotFoundError:
        return None
    if found.request == request_digest(definition):
        return found
    if definition == spec.load(definition.name):
        raise UsageError(
            f"{path} is stale: the definition of {definition.name} has changed since it was made",
            hint=f"make it again with `python -m envs lock {definition.name}`",
        )
    return None


def lock_now(definition: spec.Definition, settings: Settings) -> lock.Lock:
    """Resolve for this machine and keep the lock in the store."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    target = python.target()
    origin = _origin(definition, settings, target)
    resolved = _compile(
        definition,
        settings,
        origin=origin,
        pythons=(target.python,),
        architectures=(target.architecture,),
        platform=["--python", str(python.path)],
    )
    keep_lock(definition, settings, resolved)
    return resolved


def keep_lock(definition: spec.Definition, settings: Settings, resolved: lock.Lock) -> None:
    """Make this lock the one that `lock_for` answers for the definition on this machine."""
    Store(settings.store).keep_resolved(resolution_key(definition, settings), lock.to_toml(resolved))


def lock_universal(definition: spec.Definition, settings: Settings) -> lock.Lock:
    """Resolve for every Python of the definition and both architectures: what is committed."""
    target = index.Target(python=definition.python, architecture="x86_64", glibc="2.40")
    origin = _origin(definition, settings, target)
    both = bool(origin.location) or _served(definition, "aarch64")
    return _compile(
        definition,
        settings,
        origin=origin,
        pythons=definition.pythons,
        architectures=("x86_64", "aarch64") if both else ("x86_64",),
        platform=["--universal", "--python-version", min(definition.pythons, key=Version)],
    )


def newest(definition: spec.Definition, settings: Settings, *, date: str = "") -> spec.Definition:
    """The definition with the newest torch of its channel for this machine, or the nightly of a date (20260215)."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    files = torch_files(definition, settings)
    wanted = [file for file in files if not date or f"dev{date}" in str(file.version)]
    found = index.best(wanted, python.target())
    if found is None:
        what = f"nightly of {date}" if date else f"torch for {definition.cuda}"
        raise CannotBuildError(
            f"there is no {what} for Python {python.minor} on {python.target().architecture}",
            hint=_published(files),
            outcome="not_published",
        )
    return replace(definition, torch=found.version.public)


def torch_files(definition: spec.Definition, settings: Settings, *, project: str = "torch") -> tuple[index.File, ...]:
    """Every wheel of torch (or of another project of its family) where the variant's wheels are.

    Looks at the wheelhouse, else at the index that replaces the variant's, else at the variant's own.
    """
    if settings.wheelhouse is not None:
        found = _wheelhouse_files(settings.wheelhouse, project)
        if found:
            return found
    return _index_files(_variant_index(definition, settings), project, settings)


def request_digest(definition: spec.Definition) -> str:
    """Digest of everything that a resolution depends on."""
    asked = [
        definition.torch,
        definition.cuda,
        definition.channel,
        definition.pythons,
        definition.requirements,
        definition.exclude_newer,
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def resolution_key(definition: spec.Definition, settings: Settings) -> str:
    """Digest of the request and of where it was resolved; a wheelhouse counts with the torch it holds now."""
    held = []
    if settings.wheelhouse is not None:
        paths = sorted(settings.wheelhouse.glob("torch-*.whl"))
        held = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    places = [settings.index, str(settings.wheelhouse or ""), settings.default_index, settings.torch_index, held]
    return hashlib.sha256(json.dumps([request_digest(definition), definition.name, places]).encode()).hexdigest()


def _variant_index(definition: spec.Definition, settings: Settings) -> str:
    if settings.index:
        return settings.index
    nightly = definition.channel is Channel.NIGHTLY
    return f"{settings.torch_index}/{backend.index_path(definition.cuda, nightly=nightly)}"


def _origin(definition: spec.Definition, settings: Settings, target: index.Target) -> _Origin:
    """Decide where torch comes from; CannotBuildError `not_published` when it is nowhere."""
    version = Version(definition.torch)
    if settings.wheelhouse is not None:
        files = _wheelhouse_files(settings.wheelhouse, "torch")
        if _offers(files, version, definition.cuda, target):
            return _Origin(location=str(settings.wheelhouse), flat=True, files={"torch": files})
    served = _served(definition, target.architecture)
    if served and not settings.index:
        return _Origin(files={})
    location = _variant_index(definition, settings)
    files = _index_files(location, "torch", settings)
    if _offers(files, version, definition.cuda, target):
        return _Origin(location=location, files={"torch": files})
    if served:
        return _Origin(files={})
    raise _not_there(definition, files, target, location)


def _served(definition: spec.Definition, architecture: str) -> bool:
    """Whether the default index has this release as this variant."""
    variant = backend.default_variant(definition.torch, architecture=architecture)
    return definition.channel is Channel.RELEASE and variant == definition.cuda


def _offers(files: tuple[index.File, ...], version: Version, cuda: str, target: index.Target) -> bool:
    return index.best(_of_variant(files, cuda), target, version=version) is not None


def _of_variant(files: tuple[index.File, ...], cuda: str) -> tuple[index.File, ...]:
    """Wheels of the variant; one without a local tag is taken at its index's word."""
    return tuple(file for file in files if file.version.local in (None, cuda))


def _not_there(
    definition: spec.Definition, files: tuple[index.File, ...], target: index.Target, location: str
) -> CannotBuildError:
    same = [file for file in files if index.matches(file.version, Version(definition.torch))]
    where = index.redacted(location)
    if not same:
        return CannotBuildError(
            f"torch {definition.torch} is not at {where}", hint=_published(files), outcome="not_published"
        )
    reasons = sorted({str(index.fit(file, target)) for file in same} - {"fits"})
    return CannotBuildError(
        f"torch {definition.torch} at {where} has no {definition.cuda} wheel for Python {target.python} on "
        f"{target.architecture}{f' ({chr(44).join(reasons)})' if reasons else ''}",
        hint=f"there are: {', '.join(sorted(file.filename for file in same)[:6])}",
        outcome="not_published",
    )


def _published(files: tuple[index.File, ...]) -> str:
    versions = sorted({file.version for file in files})
    if not versions:
        return "the index has no wheels of torch at all"
    return f"it has {len(versions)} versions, from {versions[0]} to {versions[-1]}; nightlies are removed after a while"


def _wheelhouse_files(wheelhouse: Path, project: str) -> tuple[index.File, ...]:
    names = sorted(path.name for path in wheelhouse.glob("*.whl"))
    files = index.from_filenames(names, url=wheelhouse.as_uri())
    return tuple(file for file in files if file.name == project)


def _index_files(location: str, project: str, settings: Settings) -> tuple[index.File, ...]:
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


def _family(origin: _Origin, settings: Settings) -> frozenset[str]:
    """Projects of torch's family that the origin has; only these come from it."""
    if not origin.location:
        return frozenset()
    if origin.flat:
        return frozenset(name for name in backend.TORCH_FAMILY if _wheelhouse_files(Path(origin.location), name))
    return frozenset(
        name for name in backend.TORCH_FAMILY if name in origin.files or _has_page(origin.location, name, settings)
    )


def _has_page(location: str, project: str, settings: Settings) -> bool:
    try:
        return bool(_index_files(location, project, settings))
    except CannotBuildError as error:
        if error.outcome == "not_published":
            return False
        raise


def _needs(definition: spec.Definition, origin: _Origin, family: frozenset[str]) -> list[str]:
    """Direct requirements: an index of its own works for direct ones only, so triton becomes one.

    Which triton torch wants is in its metadata; the request leaves the version open.
    """
    version = definition.torch
    files = _of_variant(origin.files.get("torch", ()), definition.cuda)
    exact = [file for file in files if index.matches(file.version, Version(version))]
    local = {file.version.local for file in exact}
    pin = f"torch=={version}+{definition.cuda}" if definition.cuda in local else f"torch=={version}"
    named = {str(requirement).split("=")[0] for requirement in definition.requirements}
    triton = [name for name in ("triton",) if name in family - named]
    return [pin, *triton, *definition.requirements]


def _project_file(definition: spec.Definition, origin: _Origin, family: frozenset[str]) -> str:
    """A pyproject.toml, the only place where uv lets one package come from one index."""
    needs = ", ".join(json.dumps(need) for need in _needs(definition, origin, family))
    minimum = min(definition.pythons, key=Version)
    lines = [
        "[project]",
        'name = "environment"',
        'version = "0"',
        f'requires-python = ">={minimum}"',
        f"dependencies = [{needs}]",
    ]
    if family:
        lines += ["[[tool.uv.index]]", 'name = "torch"', f"url = {json.dumps(origin.location)}", "explicit = true"]
        lines += ['format = "flat"'] if origin.flat else []
        lines += ["[tool.uv.sources]"]
        lines += [f'{name} = {{ index = "torch" }}' for name in sorted(family)]
    return "\n".join(lines) + "\n"


def _compile(
    definition: spec.Definition,
    settings: Settings,
    *,
    origin: _Origin,
    pythons: tuple[str, ...],
    architectures: tuple[str, ...],
    platform: list[str],
) -> lock.Lock:
    """Let uv resolve; with a wheelhouse and no reachable index, from the wheelhouse alone."""
    family = _family(origin, settings)
    attempts = [uv.index_arguments(settings)]
    if settings.wheelhouse is not None:
        attempts.append(uv.index_arguments(settings, only_wheelhouse=True))
    with tempfile.TemporaryDirectory(prefix="envs-lock-") as scratch:
        directory = Path(scratch)
        project = directory / "pyproject.toml"
        project.write_text(_project_file(definition, origin, family), encoding="utf-8")
        output = directory / "pylock.toml"
        arguments = [
            *("pip", "compile", str(project), "--format", "pylock.toml", "--output-file", str(output)),
            *("--only-binary", ":all:", "--no-header", "--quiet", *platform),
            *_cutoff_arguments(definition, settings, family),
        ]
        error = None
        for number, indexes in enumerate(attempts):
            code, log = uv.run([*arguments, *indexes], log=directory / f"uv-{number}.log")
            if code == 0:
                break
            error = error or uvlog.explain(log, subject=f"cannot resolve {definition.name}")
        else:
            assert error is not None
            raise error
        text = output.read_text(encoding="utf-8")
    resolved = lock.from_uv(
        text,
        name=definition.name,
        request=request_digest(definition),
        pythons=pythons,
        architectures=architectures,
        exclude_newer=definition.exclude_newer,
        torch_names=family,
    )
    return _with_sizes(resolved, text)


def _cutoff_arguments(definition: spec.Definition, settings: Settings, family: frozenset[str]) -> list[str]:
    """The cut-off, from which files without an upload time are exempt: torch's index and a wheelhouse."""
    if not definition.exclude_newer:
        return []
    exempt = set(family)
    if settings.wheelhouse is not None:
        names = index.from_filenames((path.name for path in settings.wheelhouse.glob("*.whl")), url="")
        exempt |= {file.name for file in names}
    arguments = ["--exclude-newer", definition.exclude_newer]
    for name in sorted(exempt):
        arguments += ["--exclude-newer-package", f"{name}=false"]
    return arguments


def _with_sizes(resolved: lock.Lock, text: str) -> lock.Lock:
    """Ask for the sizes that the index did not say, so that a download can be estimated."""
    locations = lock.locations(text)
    distributions = tuple(
        replace(
            item,
            wheels=tuple(
                wheel if wheel.size else replace(wheel, size=_size(locations.get(wheel.filename, "")))
                for wheel in item.wheels
            ),
        )
        for item in resolved.distributions
    )
    return replace(resolved, distributions=distributions)


def _size(location: str) -> int:
    if location.startswith("file://"):
        path = Path(location.removeprefix("file://"))
        return path.stat().st_size if path.exists() else 0
    return fetch.size(location) if location.startswith("http") else 0
