"""One resolution: the request as uv understands it, and the lock that comes back."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from . import fetch, index, lock, pylock, uv, uvlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .errors import ToolError
    from .origin import Origin
    from .settings import Settings
    from .spec import Definition


def compile_lock(
    definition: Definition,
    settings: Settings,
    *,
    origin: Origin,
    request: str,
    pythons: tuple[str, ...],
    architectures: tuple[str, ...],
    platform: list[str],
    again: bool = False,
) -> lock.Lock:
    """Let uv resolve.

    Args:
        definition: what is asked for, with an exact torch.
        settings: the indexes.
        origin: where torch comes from.
        request: digest of the request, to be written into the lock.
        pythons: interpreters the lock is to serve.
        architectures: machines it is to serve.
        platform: uv's arguments for that.
        again: take nothing that uv kept of the place of torch at its word.
    """
    with tempfile.TemporaryDirectory(prefix="envs-lock-") as scratch:
        directory = Path(scratch)
        project, output = directory / "pyproject.toml", directory / "pylock.toml"
        first: ToolError | None = None
        for number, (chosen, indexes) in enumerate(_attempts(origin, settings)):
            if first is not None and not _worth_another(first, chosen, origin):
                continue
            project.write_text(project_file(definition, chosen), encoding="utf-8")
            arguments = [
                *("pip", "compile", str(project), "--format", "pylock.toml", "--output-file", str(output)),
                *("--only-binary", ":all:", "--no-header", "--quiet", *platform, *indexes),
                *_cutoff_arguments(definition, settings, chosen),
                *(part for name in sorted(chosen.family) if again for part in ("--refresh-package", name)),
            ]
            code, log = uv.run(arguments, log=directory / f"uv-{number}.log")
            if code == 0:
                return _with_sizes(
                    pylock.from_uv(
                        output.read_text(encoding="utf-8"),
                        name=definition.name,
                        request=request,
                        pythons=pythons,
                        architectures=architectures,
                        exclude_newer=definition.exclude_newer,
                        torch_names=chosen.family,
                    ),
                    pylock.locations(output.read_text(encoding="utf-8")),
                )
            first = first or uvlog.explain(log, subject=f"cannot resolve {definition.name}")
    assert first is not None
    raise first


def project_file(definition: Definition, origin: Origin) -> str:
    """A pyproject.toml, the only place where uv lets one package come from one index."""
    needs = ", ".join(json.dumps(need) for need in (origin.pin, *origin.direct, *definition.requirements))
    lines = [
        "[project]",
        'name = "environment"',
        'version = "0"',
        f'requires-python = ">={min(definition.pythons, key=Version)}"',
        f"dependencies = [{needs}]",
    ]
    if origin.family:
        lines += ["[[tool.uv.index]]", 'name = "torch"', f"url = {json.dumps(origin.location)}", "explicit = true"]
        lines += ['format = "flat"'] if origin.flat else []
        lines += ["[tool.uv.sources]"]
        lines += [f'{name} = {{ index = "torch" }}' for name in sorted(origin.family)]
    return "\n".join(lines) + "\n"


def _attempts(origin: Origin, settings: Settings) -> Iterator[tuple[Origin, list[str]]]:
    """As asked; then from the wheelhouse alone; then with the CUDA libraries from torch's own place too."""
    indexes = uv.index_arguments(settings)
    yield origin, indexes
    if settings.wheelhouse is not None:
        yield origin, uv.index_arguments(settings, only_wheelhouse=True)
    if origin.fallback:
        names = tuple(sorted(origin.fallback))
        widened = replace(origin, direct=(*origin.direct, *names), family=origin.family | origin.fallback)
        yield widened, indexes


def _worth_another(error: ToolError, chosen: Origin, origin: Origin) -> bool:
    """CUDA libraries that the default index lacks are a conflict; a network that is down is not."""
    return error.outcome == "resolution_conflict" if chosen != origin else error.outcome != "disk_full"


def _cutoff_arguments(definition: Definition, settings: Settings, origin: Origin) -> list[str]:
    """The cut-off, from which files without an upload time are exempt: torch's index and a wheelhouse."""
    if not definition.exclude_newer:
        return []
    exempt = set(origin.family)
    if settings.wheelhouse is not None:
        names = index.from_filenames((path.name for path in settings.wheelhouse.glob("*.whl")), url="")
        exempt |= {file.name for file in names}
    arguments = ["--exclude-newer", definition.exclude_newer]
    for name in sorted(exempt):
        arguments += ["--exclude-newer-package", f"{name}=false"]
    return arguments


def _with_sizes(resolved: lock.Lock, locations: dict[str, str]) -> lock.Lock:
    """The lock with the sizes that the index did not say, so that a download can be estimated."""
    distributions = tuple(
        replace(item, wheels=tuple(_with_size(wheel, locations) for wheel in item.wheels))
        for item in resolved.distributions
    )
    return replace(resolved, distributions=distributions)


def _with_size(wheel: lock.Wheel, locations: dict[str, str]) -> lock.Wheel:
    return wheel if wheel.size else replace(wheel, size=_size(locations.get(wheel.filename, "")))


def _size(location: str) -> int:
    if location.startswith("file://"):
        path = Path(location.removeprefix("file://"))
        return path.stat().st_size if path.exists() else 0
    return fetch.look(location).size if location.startswith("http") else 0
