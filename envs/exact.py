"""An exact lock for a list of pins: nothing is resolved, every version is looked up with its hash.

What an index no longer has (or has only as source, or only as another build, `1.0+cu130` for `1.0`) is left out and
returned by name: a list of packages from a cluster must not fail as a whole because of one line.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from . import backend, interpreter, lock, pylock, resolve, uv, uvlog
from .lock import Lock
from .spec import Channel, Definition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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


def exact_lock(
    definition: Definition,
    packages: Mapping[str, str],
    settings: Settings,
    *,
    hashes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Exact:
    """Look every pin up on the index it belongs to.

    Args:
        definition: the environment that the lock is for.
        packages: version by name.
        settings: where the indexes are.
        hashes: `sha256:...` of the only files that may be taken, by name; any file of a name that is not there.
    """
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    asking = _Asking(definition=definition, settings=settings, python=python, packages=packages, hashes=hashes)
    own = frozenset(name for name, version in packages.items() if _is_torchs(name, version))
    found, left_out = asking.index_of(packages.keys() - own, torchs=False)
    if "torch" in left_out and "torch" in hashes and Version(packages["torch"]).local:
        own |= {"torch"}  # the default index has the release with other bytes than the build of PyTorch's index
        del left_out["torch"]
    if own:
        more, gone = asking.index_of(own, torchs=True)
        found, left_out = [*found, *more], {**left_out, **gone}
    whole = Lock(
        name=definition.name,
        request=resolve.request_digest(definition),
        pythons=(python.minor,),
        exclude_newer="",
        distributions=tuple(sorted(found, key=lambda item: item.name)),
    )
    return Exact(lock=whole, left_out=tuple(left_out.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """The pins of one list, asked of one index after the other."""

    definition: Definition
    settings: Settings
    python: interpreter.Interpreter
    packages: Mapping[str, str]
    hashes: Mapping[str, Sequence[str]]

    def index_of(self, names: Collection[str], *, torchs: bool) -> tuple[list[lock.Distribution], dict[str, str]]:
        """What PyTorch's or the default index has of these pins, and why the others are left out."""
        place = _PackageIndex(
            settings=self.settings,
            python=str(self.python.path),
            location=_torch_index(self.definition, self.settings) if torchs else "",
        )
        pins = {name: self.packages[name] for name in sorted(names)}
        text, gone = place.files({name: spellings(name, pins[name], self.definition.cuda) for name in pins})
        others = place.builds({name: Version(pins[name]).public for name in gone})
        left_out = {name: _reason(pins[name], others.get(name, "")) for name in gone}
        read = pylock.from_uv(
            text,
            name=self.definition.name,
            request="",
            pythons=(self.python.minor,),
            architectures=(self.python.target().architecture,),
            exclude_newer="",
            torch_names=frozenset(pins) if torchs else frozenset(),
        )
        found = [_listed(item, self.hashes.get(item.name, ())) for item in read.distributions]
        for item in found:
            if not item.wheels:
                left_out[item.name] = f"no wheel of {item.version} on the index has a hash that is listed for it"
        return [item for item in found if item.wheels], left_out


def _listed(item: lock.Distribution, hashes: Sequence[str]) -> lock.Distribution:
    """The distribution with those of its wheels whose hash is listed; all of them where none is."""
    wanted = {each.lower() for each in hashes}
    return replace(item, wheels=tuple(each for each in item.wheels if not wanted or f"sha256:{each.sha256}" in wanted))


def lacking(definition: Definition, packages: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """What the torch of a list requires and the list does not name; nothing where no index can say."""
    python = interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline)
    torch = packages["torch"]
    location = _torch_index(definition, settings) if _is_torchs("torch", torch) else ""
    wanted = torch if location else Version(torch).public
    with tempfile.TemporaryDirectory(prefix="envs-lacking-") as scratch:
        asked, output = Path(scratch) / "wanted.txt", Path(scratch) / "found.txt"
        asked.write_text(f"torch=={wanted}\n", encoding="utf-8")
        arguments = ["pip", "compile", str(asked), "--output-file", str(output), "--no-header", "--no-annotate"]
        arguments += ["--quiet", "--only-binary", ":all:", "--python", str(python.path)]
        arguments += uv.index_arguments(settings, torch_index=location)
        code, _ = uv.run(arguments, log=Path(scratch) / "uv.log")
        lines = output.read_text(encoding="utf-8").splitlines() if code == 0 else []
    required = {canonicalize_name(line.partition("==")[0].strip()) for line in lines if "==" in line}
    return tuple(sorted(required - packages.keys()))


def _is_torchs(name: str, version: str) -> bool:
    """Whether only PyTorch's index has this version: a nightly, or a build that is not the default one."""
    if name not in backend.TORCH_FAMILY:
        return False
    parsed = Version(version)
    if parsed.is_devrelease:
        return True
    return bool(parsed.local) and not (name == "torch" and backend.default_variant(version) == parsed.local)


def spellings(name: str, version: str, cuda: str) -> tuple[str, ...]:
    """The specifiers under which an index may have exactly this build, best first.

    `==1.0` would take 1.0+cu130 as well, and the build would be lost: `===` takes nothing but what is written. Torch
    alone has two spellings: the default index publishes as 2.11.0 what calls itself 2.11.0+cu130.

    Worked example: of torch 2.11.0+cu130 first `===2.11.0+cu130` is asked for, then `===2.11.0`.
    """
    parsed = Version(version)
    same = [version]
    if name == "torch" and parsed.local in (None, cuda):
        same += [f"{parsed.public}+{cuda}", parsed.public]
    return tuple(f"==={each}" for each in dict.fromkeys(same))


def _reason(version: str, other: str) -> str:
    elsewhere = f", only another build of it, {other}" if other else ""
    return f"{version} has no wheel on the index{elsewhere}"


def _torch_index(definition: Definition, settings: Settings) -> str:
    nightly = definition.channel is Channel.NIGHTLY
    return settings.index or f"{settings.torch_index}/{backend.index_path(definition.cuda, nightly=nightly)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PackageIndex:
    """One index as uv sees it: `location` is the place of PyTorch's own, empty for the default one."""

    settings: Settings
    python: str
    location: str

    def files(self, wanted: Mapping[str, Sequence[str]]) -> tuple[str, tuple[str, ...]]:
        """The pylock of uv with the files of every distribution, and the names of those that are not there.

        Of the specifiers of a name the first that the index has counts.
        """
        remaining = {name: list(specifiers) for name, specifiers in wanted.items()}
        gone: list[str] = []
        with tempfile.TemporaryDirectory(prefix="envs-exact-") as scratch:
            while True:
                lines = "".join(f"{name}{specifiers[0]}\n" for name, specifiers in remaining.items())
                code, text = self._compile(lines, Path(scratch))
                if code == 0:
                    return text, tuple(gone)
                name = _named_in(text, remaining)
                if not name or len(gone) >= _MAX_LEFT_OUT:
                    raise uvlog.explain(text, subject="cannot look the packages up")
                remaining[name].pop(0)
                if not remaining[name]:
                    gone.append(name)
                    del remaining[name]

    def builds(self, releases: Mapping[str, str]) -> dict[str, str]:
        """Which build of a release the index has, for those of which it has one."""
        if not releases:
            return {}
        text, _ = self.files({name: (f"=={version}",) for name, version in releases.items()})
        return {package["name"]: package["version"] for package in tomllib.loads(text).get("packages", [])}

    def _compile(self, requirements: str, scratch: Path) -> tuple[int, str]:
        """Return code of uv, and what it found or what it complains of."""
        wanted, output = scratch / "wanted.txt", scratch / "pylock.toml"
        wanted.write_text(requirements, encoding="utf-8")
        arguments = ["pip", "compile", str(wanted), "--no-deps", "--format", "pylock.toml", "--output-file"]
        arguments += [str(output), "--only-binary", ":all:", "--no-header", "--quiet", "--python", self.python]
        arguments += uv.index_arguments(self.settings, torch_index=self.location)
        code, log = uv.run(arguments, log=scratch / "uv.log")
        return code, log if code else output.read_text(encoding="utf-8")


def _named_in(log: str, remaining: Collection[str]) -> str:
    """The pin that uv says is not there; empty when the trouble is another one (no network, a full disk)."""
    if "No solution found" not in log and "was not found" not in log:
        return ""
    names: Sequence[str] = [canonicalize_name(name) for name in _NAMED.findall(log)]
    return next((name for name in names if name in remaining), "")
