"""How two environments differ, the differences most likely to matter first, each with the reason.

Pure: compares two `Snapshot`s, refuses to know how one is taken. What makes a package likely to matter is in
`suspicion`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from .suspicion import REACHES_TORCH, suspicion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Kind(StrEnum):
    """What differs."""

    TORCH = "torch"
    OVERRIDE = "override"
    LIBRARY = "library"
    FILE = "file"
    ENTRY_POINT = "entry_point"
    STARTUP = "startup"
    PACKAGE = "package"
    BYTES = "bytes"
    VARIABLE = "variable"
    MACHINE = "machine"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What an environment is, as far as it can matter.

    Attributes:
        name: how it is called in a report.
        torch: identity by field: version, cuda, git_version, torch file.
        machine: python, glibc, driver, gpus.
        packages: version by canonical name.
        records: digest of the recorded content of each distribution, by name.
        libraries: path of every CUDA library really loaded, by file name.
        overrides: kernels that importing torch replaced.
        entry_points: hooks that torch loads by itself.
        files: (kind, path) -> owners and detail, for changed, missing, doubly-owned and unowned files.
        startup: text of every .pth, sitecustomize and usercustomize, by path.
        variables: what every process in it gets.
        caches: compile caches that outlive a run, by path, with their owner.
    """

    name: str
    torch: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    files: Mapping[tuple[str, str], str] = field(default_factory=dict)
    startup: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs.

    Attributes:
        kind: what sort of thing.
        name: which one.
        before: in the first environment; empty when it is not there.
        after: in the second.
        weight: how likely it matters, 0 to 100; a rank, not a probability.
        why: the mechanism.
    """

    kind: Kind
    name: str
    before: str
    after: str
    weight: int
    why: str


_COMPILE_VARIABLES = re.compile(
    r"(TORCH|TORCHINDUCTOR|TORCHDYNAMO|TRITON|PYTORCH|CUDA|CUBLAS|CUDNN|NCCL|NVIDIA|OMP|MKL|LD|PYTHON)_?\w*\Z"
)


def compare(before: Snapshot, after: Snapshot) -> tuple[Difference, ...]:
    """Every difference, the likeliest to matter first."""
    found = [
        *_torch(before, after),
        *_packages(before, after),
        *_bytes(before, after),
        *_sets(Kind.OVERRIDE, before.overrides, after.overrides, 95, "a kernel that importing torch replaced"),
        *_libraries(before, after),
        *_files(before, after),
        *_sets(Kind.ENTRY_POINT, before.entry_points, after.entry_points, 85, "torch loads it by itself"),
        *_startup(before, after),
        *_variables(before, after),
        *_mappings(Kind.MACHINE, before.machine, after.machine, 50, "not the environment, the machine"),
        *_mappings(Kind.CACHE, before.caches, after.caches, 35, "outlives every uninstall; a run can find it"),
    ]
    return tuple(sorted(found, key=lambda each: (-each.weight, each.kind, each.name)))


def summary(differences: Iterable[Difference]) -> tuple[str, ...]:
    """Five lines that answer what a history did; `none` is an answer too."""
    found = tuple(differences)

    def listed(kinds: set[Kind], *, least: int = 0, most: int = 8) -> str:
        wanted = [each for each in found if each.kind in kinds and each.weight >= least]
        names = [_short(each) for each in wanted]
        return "; ".join(names[:most]) + (f"; and {len(names) - most} more" if len(names) > most else "") or "none"

    return (
        f"torch itself: {listed({Kind.TORCH}) if any(each.kind is Kind.TORCH for each in found) else 'unchanged'}",
        f"kernels replaced by importing torch: {listed({Kind.OVERRIDE})}",
        f"files owned twice, changed, gone or nobody's: {listed({Kind.FILE, Kind.BYTES, Kind.LIBRARY})}",
        f"packages that can reach torch: {listed({Kind.PACKAGE}, least=REACHES_TORCH, most=20)}",
        f"runs at every start, or loaded by torch itself: {listed({Kind.STARTUP, Kind.ENTRY_POINT})}",
    )


def _short(each: Difference) -> str:
    """`topk/CUDA by cutedsl`, `libnccl.so.2 (missing)`, `triton (3.6.0 -> 3.7.1)`."""
    if each.kind in (Kind.OVERRIDE, Kind.ENTRY_POINT):
        return each.name if each.after else f"{each.name} (gone)"
    name = each.name.rpartition("/")[2]
    return f"{name} ({each.after})" if not each.before else f"{name} ({each.before} -> {each.after or 'gone'})"


def only_outside_packages(differences: Iterable[Difference]) -> bool:
    """Whether the Python packages are equal and something else differs: not `no difference`."""
    kinds = {each.kind for each in differences}
    return bool(kinds) and not kinds & {Kind.TORCH, Kind.PACKAGE}


def _torch(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    why = "torch itself is another one, whatever the version says"
    yield from _mappings(Kind.TORCH, before.torch, after.torch, 100, why)


def _packages(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for name in sorted(before.packages.keys() | after.packages.keys()):
        old, new = before.packages.get(name, ""), after.packages.get(name, "")
        if old != new:
            torch = after.torch.get("version", "") or after.packages.get("torch", "")
            weight, why = suspicion(name, version=new or old, torch=torch, importable=after.packages)
            yield Difference(kind=Kind.PACKAGE, name=name, before=old, after=new, weight=weight, why=why)


def _bytes(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    """The same version with other content: a re-upload, another index, another build."""
    for name in sorted(before.records.keys() & after.records.keys()):
        old, new = before.records[name], after.records[name]
        if old != new and before.packages.get(name) == after.packages.get(name):
            weight, _ = suspicion(name)
            yield Difference(
                kind=Kind.BYTES, name=name, before=old[:12], after=new[:12], weight=max(60, weight),
                why=f"both call themselves {before.packages.get(name, '')}, and their files differ",
            )  # fmt: skip


def _libraries(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    """Libraries really loaded: by the part of the path that tells packages and versions apart."""
    old = {name: _inside(path) for name, path in before.libraries.items()}
    new = {name: _inside(path) for name, path in after.libraries.items()}
    yield from _mappings(Kind.LIBRARY, old, new, 85, "the process really loads another library")


def _inside(path: str) -> str:
    """`site-packages/nvidia/cudnn/lib/libcudnn.so.9` for a library of the environment, else the whole path."""
    head, mark, tail = path.partition("site-packages/")
    return mark + tail if mark else head


_FILE_KINDS: Mapping[str, tuple[int, str]] = {
    "changed": (90, "edited or overwritten after it was installed"),
    "missing": (85, "its distribution is listed as installed, and the file is gone"),
    "doubly_owned": (85, "two distributions own it; which content is there depends on the order of installs"),
    "mixed": (85, "two CUDA majors of one library; removing one breaks the other"),
    "no_record": (50, "nobody can say what belongs to this distribution"),
    "unowned": (40, "no installed distribution put it there"),
}
_CODE = re.compile(r".*(\.so(\.[\d.]+)?|\.py|\.pth|/torch/.*|nvidia-[a-z-]+)\Z")


def _files(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for key in sorted(before.files.keys() ^ after.files.keys()):
        (kind, path), here = key, key in after.files
        weight, why = _FILE_KINDS.get(kind, (30, kind))
        owners = (after if here else before).files[key]
        text = f"{kind} ({owners})" if owners else kind
        yield Difference(
            kind=Kind.FILE,
            name=path,
            before="" if here else text,
            after=text if here else "",
            weight=weight if _CODE.match(path) else min(weight, 25),
            why=why,
        )


def _startup(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for each in _mappings(Kind.STARTUP, before.startup, after.startup, 65, "runs at every start of the interpreter"):
        quiet = all(re.fullmatch(r"[\w./-]*", text) for text in (each.before, each.after))
        why = "adds a directory to sys.path at every start" if quiet else each.why
        yield Difference(
            kind=each.kind, name=each.name, before=each.before[:80], after=each.after[:80], weight=each.weight, why=why
        )


def _variables(before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    for each in _mappings(Kind.VARIABLE, before.variables, after.variables, 60, "torch or a CUDA library reads it"):
        if _COMPILE_VARIABLES.match(each.name):
            yield each
        else:
            yield Difference(
                kind=each.kind, name=each.name, before=each.before, after=each.after, weight=20,
                why="no known reader in torch",
            )  # fmt: skip


def _mappings(
    kind: Kind, before: Mapping[str, str], after: Mapping[str, str], weight: int, why: str
) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield Difference(kind=kind, name=name, before=old, after=new, weight=weight, why=why)


def _sets(kind: Kind, before: Iterable[str], after: Iterable[str], weight: int, why: str) -> Iterator[Difference]:
    old, new = set(before), set(after)
    for name in sorted(old ^ new):
        there = name in new
        yield Difference(
            kind=kind, name=name, before="" if there else "present", after="present" if there else "", weight=weight,
            why=why,
        )  # fmt: skip
