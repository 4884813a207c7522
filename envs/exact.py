"""An exact lock for a list of pins: nothing is resolved, every version is looked up with its hash.

What an index no longer has (or has only as source) is left out and returned by name: a list of packages from a
cluster must not fail as a whole because of one line.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from . import backend, interpreter, lock, pylock, resolve, uv, uvlog
from .lock import Lock
from .spec import Channel, Definition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .settings import Settings

_MAX_LEFT_OUT = 40
_NAMED = re.compile(
    r"(?:no version of |Because |and )([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s?(?:==|was not|has no)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A lock, and the pins that no wheel was found for, with the reason."""

    lock: Lock
    left_out: tuple[tuple[str, str], ...]


def variant_of(torch: str) -> str:
    """The CUDA tag of a torch version: its local tag, else what the default index serves for the release."""
    local = Version(torch).local or ""
    return local if local.startswith("cu") else backend.default_variant(torch)


def definition_of(name: str, packages: Mapping[str, str], base: Definition) -> Definition:
    """The definition of an environment that holds exactly these versions."""
    torch = packages.get("torch", base.torch)
    version = Version(torch)
    return replace(
        base,
        name=name,
        summary=f"{len(packages)} exact packages",
        torch=version.public,
        cuda=variant_of(torch) or base.cuda,
        channel=Channel.NIGHTLY if version.is_devrelease else Channel.RELEASE,
        requirements=tuple(f"{each}=={packages[each]}" for each in sorted(packages) if each != "torch"),
        exclude_newer="",
        history=(),
    )


def exact_lock(definition: Definition, packages: Mapping[str, str], settings: Settings) -> Exact:
    """Look every pin up on the index it belongs to."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    target = python.target()
    own = {name for name, version in packages.items() if _is_torchs(name, version)}
    groups = [(frozenset[str](), {n: _public(n, v) for n, v in packages.items() if n not in own})]
    if own:
        groups.append((frozenset(own), {name: packages[name] for name in own}))
    distributions: list[lock.Distribution] = []
    left_out: list[tuple[str, str]] = []
    for names, pins in groups:
        location = _torch_index(definition, settings) if names else ""
        text = _compile(pins, settings, str(python.path), location, left_out)
        found = pylock.from_uv(
            text,
            name=definition.name,
            request=resolve.request_digest(definition),
            pythons=(target.python,),
            architectures=(target.architecture,),
            exclude_newer="",
            torch_names=names,
        )
        distributions += found.distributions
    whole = Lock(
        name=definition.name,
        request=resolve.request_digest(definition),
        pythons=(target.python,),
        exclude_newer="",
        distributions=tuple(sorted(distributions, key=lambda item: item.name)),
    )
    return Exact(lock=whole, left_out=tuple(left_out))


def _is_torchs(name: str, version: str) -> bool:
    """Whether only PyTorch's index has this version: a nightly, or a build that is not the default one."""
    if name not in backend.TORCH_FAMILY:
        return False
    parsed = Version(version)
    if parsed.is_devrelease:
        return True
    return bool(parsed.local) and not (name == "torch" and backend.default_variant(version) == parsed.local)


def _public(name: str, version: str) -> str:
    """Torch of the default index calls itself 2.11.0+cu130 and is published as 2.11.0."""
    return Version(version).public if name == "torch" else version


def _torch_index(definition: Definition, settings: Settings) -> str:
    nightly = definition.channel is Channel.NIGHTLY
    return settings.index or f"{settings.torch_index}/{backend.index_path(definition.cuda, nightly=nightly)}"


def _compile(
    pins: Mapping[str, str], settings: Settings, python: str, location: str, left_out: list[tuple[str, str]]
) -> str:
    """Ask uv for the files of every pin; one that is not there is left out and uv is asked again."""
    remaining = dict(pins)
    with tempfile.TemporaryDirectory(prefix="envs-exact-") as scratch:
        wanted, output = Path(scratch) / "wanted.txt", Path(scratch) / "pylock.toml"
        while True:
            wanted.write_text("".join(f"{name}=={version}\n" for name, version in remaining.items()), encoding="utf-8")
            arguments = ["pip", "compile", str(wanted), "--no-deps", "--format", "pylock.toml", "--output-file"]
            arguments += [str(output), "--only-binary", ":all:", "--no-header", "--quiet", "--python", python]
            arguments += uv.index_arguments(settings, torch_index=location)
            code, log = uv.run(arguments, log=Path(scratch) / "uv.log")
            if code == 0:
                return output.read_text(encoding="utf-8")
            gone = _named_in(log, remaining)
            if not gone or len(left_out) >= _MAX_LEFT_OUT:
                raise uvlog.explain(log, subject="cannot look the packages up")
            left_out.append((gone, f"{remaining.pop(gone)} has no wheel on the index any more"))


def _named_in(log: str, remaining: Mapping[str, str]) -> str:
    """The pin that uv says is not there; empty when the trouble is another one (no network, a full disk)."""
    if "No solution found" not in log and "was not found" not in log:
        return ""
    names: Sequence[str] = [canonicalize_name(name) for name in _NAMED.findall(log)]
    return next((name for name in names if name in remaining), "")
