"""What is known about CUDA variants of torch: drivers, architectures, releases. Tables and pure rules.

Sources, read in November 2026: NVIDIA's minor-version compatibility page (drivers), PyTorch's RELEASE.md and
pull requests 172663, 175253, 178665, 182849, 187075 and 194367 (variants and architectures), the wheels'
own `torch/version.py` (which variant the default index serves). A release younger than the tables is not
refused: for it nothing is known, and the index is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CUDA_TAGS = ("cu118", "cu121", "cu124", "cu126", "cu128", "cu129", "cu130", "cu132", "cu134")

# release: (variant that the default package index serves, every variant on PyTorch's own index)
_RELEASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "2.5": ("cu124", ("cu118", "cu121", "cu124")),
    "2.6": ("cu124", ("cu118", "cu124", "cu126")),
    "2.7": ("cu126", ("cu118", "cu126", "cu128")),
    "2.8": ("cu128", ("cu126", "cu128", "cu129")),
    "2.9": ("cu128", ("cu126", "cu128", "cu130")),
    "2.10": ("cu128", ("cu126", "cu128", "cu130")),
    "2.11": ("cu130", ("cu126", "cu128", "cu130")),
    "2.12": ("cu130", ("cu126", "cu130", "cu132")),
    "2.13": ("cu130", ("cu126", "cu130", "cu132")),
    "2.14": ("cu130", ("cu126", "cu130", "cu132")),
    "2.15": ("cu132", ("cu130", "cu132")),
}

# Distributions that PyTorch publishes on its own index and that must match torch; nothing else may come from
# there, because it also mirrors old copies of common packages.
TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton")

_CUDA_VERSION = re.compile(r"cu(\d\d)(\d)\Z")

Capability: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the driver names it, with its compute capability as (major, minor)."""

    name: str
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What an environment has to live with on this machine.

    Attributes:
        architecture: `x86_64` or `aarch64`.
        glibc: version of the C library, empty when it is another one.
        driver: version of the NVIDIA driver, empty without one.
        gpus: the GPUs, empty without one.
    """

    architecture: str
    glibc: str
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a build cannot work here; `outcome` as in the list of outcomes."""

    outcome: str
    message: str
    hint: str


def cuda_version(tag: str) -> str:
    """`cu130` -> `13.0`; ValueError for another spelling."""
    match = _CUDA_VERSION.match(tag)
    if match is None:
        raise ValueError(f"not a CUDA tag: {tag!r}")
    return f"{match[1]}.{match[2]}"


def near_tags(tag: str) -> tuple[str, ...]:
    """The two known tags nearest to `tag` by number, or the newest ones for nonsense."""
    digits = re.sub(r"\D", "", tag)
    if not digits:
        return CUDA_TAGS[-3:]
    ranked = sorted(CUDA_TAGS, key=lambda known: (abs(int(known[2:]) - int(digits)), known))
    return tuple(sorted(ranked[:2]))


def default_variant(torch_version: str, *, architecture: str = "x86_64") -> str:
    """The CUDA tag under which the default package index serves this release; empty when not known.

    Its aarch64 wheels before 2.11 were built without CUDA.
    """
    if architecture != "x86_64" and torch_version and _series(torch_version) < (2, 11):
        return ""
    return _row(torch_version)[0]


def variants(torch_version: str) -> tuple[str, ...]:
    """Every CUDA tag this release was built for; empty when not known."""
    return _row(torch_version)[1]


def releases_with(tag: str) -> tuple[str, ...]:
    """The release series that have the variant, oldest first."""
    return tuple(series for series, (_, tags) in _RELEASES.items() if tag in tags)


def index_path(tag: str, *, nightly: bool) -> str:
    """Path of the variant's index below the root of PyTorch's wheel indexes."""
    return f"nightly/{tag}" if nightly else tag


def driver_minimum(tag: str) -> str:
    """Oldest Linux driver for the variant (minor-version compatibility within a CUDA major)."""
    major = int(cuda_version(tag).split(".")[0])
    if major >= 13:
        return "580.65.06"
    return "525.60.13" if major == 12 else "450.80.02"


def architectures(tag: str, torch_version: str, *, architecture: str) -> tuple[Capability, ...]:
    """Compute capabilities the wheel carries code for; the last one also as PTX, so newer GPUs work too."""
    series = _series(torch_version)
    if cuda_version(tag) >= "13":
        if architecture == "aarch64":
            return ((8, 0), (9, 0), (10, 0), (11, 0), (12, 0))
        return ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
    if tag in ("cu128", "cu129"):
        oldest: tuple[Capability, ...] = ((7, 0), (7, 5)) if series <= (2, 10) else ((7, 5),)
        return (*oldest, (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
    return ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0))


def preflight(tag: str, torch_version: str, machine: Machine) -> tuple[Refusal, ...]:
    """Everything that makes the build useless on this machine, known before a byte is downloaded.

    Without a GPU the variant does not matter: the CPU part of every variant runs.
    """
    found = []
    if machine.glibc and Version(machine.glibc) < Version("2.28"):
        found.append(
            Refusal(
                outcome="build_failed",
                message=f"torch {torch_version} needs glibc 2.28 or newer, this machine has {machine.glibc}",
                hint="use a container image with a newer system",
            )
        )
    if machine.driver and _numbers(machine.driver) < _numbers(driver_minimum(tag)):
        older = [known for known in CUDA_TAGS if _numbers(driver_minimum(known)) <= _numbers(machine.driver)]
        found.append(
            Refusal(
                outcome="driver_too_old",
                message=f"{tag} needs an NVIDIA driver of at least {driver_minimum(tag)}, "
                f"this machine has {machine.driver}",
                hint=(f"this driver can run {', '.join(older[-2:])}" if older else "install a newer driver")
                + "; with forward-compatibility libraries set ENVS_ANY_DRIVER=1",
            )
        )
    carried = architectures(tag, torch_version, architecture=machine.architecture)
    for gpu in machine.gpus:
        if not _runs_on(gpu.capability, carried):
            found.append(
                Refusal(
                    outcome="arch_unsupported",
                    message=f"{tag} wheels of torch {torch_version} have no code for {gpu.name} "
                    f"(compute capability {gpu.capability[0]}.{gpu.capability[1]})",
                    hint=f"they cover {', '.join(f'{major}.{minor}' for major, minor in carried)}",
                )
            )
            break
    return tuple(found)


def compiler(environ: Mapping[str, str], which: Callable[[str], str | None]) -> str:
    """The C++ compiler torch will use for CPU kernels: CXX, then g++, then clang++; empty without one."""
    for name in (environ.get("CXX", ""), "g++", "clang++"):
        found = which(name) if name else None
        if found:
            return found
    return ""


def compiler_missing(environ: Mapping[str, str], which: Callable[[str], str | None]) -> Refusal | None:
    """The refusal when no C++ compiler is there: torch.compile would fail in the middle of a run."""
    if compiler(environ, which):
        return None
    return Refusal(
        outcome="build_failed",
        message="there is no C++ compiler (looked for $CXX, g++ and clang++), and torch.compile needs one",
        hint="install one, for instance `apt-get install g++` or `dnf install gcc-c++`, or set CXX",
    )


def _runs_on(capability: Capability, carried: tuple[Capability, ...]) -> bool:
    """Code for a lower minor of the same major runs, and the newest one's PTX runs on everything above."""
    same_major = any(capability[0] == major and capability[1] >= minor for major, minor in carried)
    return same_major or capability > max(carried)


def _row(torch_version: str) -> tuple[str, tuple[str, ...]]:
    if not torch_version:
        return "", ()
    major, minor = _series(torch_version)
    return _RELEASES.get(f"{major}.{minor}", ("", ()))


def _series(torch_version: str) -> tuple[int, int]:
    """(major, minor); a build whose version is not known yet counts as newer than every table."""
    if not torch_version:
        return (999, 0)
    version = Version(torch_version)
    return (version.major, version.minor)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
