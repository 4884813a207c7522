"""Compile caches kept as one archive with a manifest, so that nobody loses the work of a cold start again.

An archive is a gzipped tar whose first member, `manifest.json`, says which build, triton, Python, GPU architecture and
configuration made the cache, and how many files and bytes each of its folders holds. Saving and restoring appear by
one rename: a killed call leaves nothing that looks finished. A cache that does not fit a build is refused: at best
torch would ignore it, at worst a stale kernel would be believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .fingerprint import Fingerprint

SCHEMA = 1
SUFFIX = ".tar.gz"
FOLDERS = ("inductor", "triton", "cuda", "flashinfer", "torch_extensions", "tvm-ffi")
"""Folders of a run's `caches` directory that hold compiled code; the rest is downloads and scratch."""
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One kind of cache in an archive; `sha256` is over the names and bytes of its files, in name order."""

    name: str
    files: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a cache was made by, and what is in it.

    Attributes:
        environment: name of the environment's definition.
        digest: its identity in the store.
        torch: version with its local tag.
        git_version: commit of the build; this, not the version, is what must be equal.
        cuda: `torch.version.cuda`.
        triton: version of triton.
        python: version of the interpreter.
        gpus: name and compute capability of every GPU; compiled kernels are for these.
        configuration: what the cache was compiled for, as told by whoever saved it.
        folders: what is in it.
        created_at: seconds since the epoch.
    """

    environment: str
    digest: str
    torch: str
    git_version: str
    cuda: str
    triton: str
    python: str
    gpus: tuple[str, ...]
    configuration: tuple[tuple[str, str], ...]
    folders: tuple[Folder, ...]
    created_at: float

    @property
    def bytes(self) -> int:
        """Size of all files, unpacked."""
        return sum(folder.bytes for folder in self.folders)


def sources(directory: Path | None, named: Mapping[str, Path]) -> dict[str, Path]:
    """Folder name -> directory with compiled code: those below `directory`, and the ones named one by one."""
    if unknown := sorted(set(named) - set(FOLDERS)):
        raise UsageError(f"no kind of cache is named {', '.join(unknown)}", hint=f"one of {', '.join(FOLDERS)}")
    below = {name: directory / name for name in FOLDERS} if directory else {}
    found = {name: path for name, path in {**below, **named}.items() if any(_files(path))}
    if not found:
        where = str(directory) if directory else ", ".join(str(path) for path in named.values())
        raise UsageError(
            f"no compiled code in {where or 'nothing'}",
            hint=f"give a directory with {' or '.join(FOLDERS[:2])} in it, or --folder inductor=DIR",
        )
    return found


def describe(
    found: Mapping[str, Path],
    said: Fingerprint,
    *,
    environment: str,
    digest: str,
    configuration: Mapping[str, str],
    now: float,
) -> Manifest:
    """The manifest of these folders as made by the environment that said this of itself."""
    return Manifest(
        environment=environment,
        digest=digest,
        torch=said.torch,
        git_version=said.git_version,
        cuda=said.cuda,
        triton=said.triton,
        python=said.python,
        gpus=tuple(sorted(set(said.gpus))),
        configuration=tuple(sorted(configuration.items())),
        folders=tuple(_measure(name, path) for name, path in sorted(found.items())),
        created_at=now,
    )


def save(found: Mapping[str, Path], manifest: Manifest, archive: Path) -> None:
    """Write the archive in one step; an archive that exists is never written over."""
    if archive.exists():
        raise UsageError(f"{archive} exists already", hint="give another --archive, or remove it")
    archive.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=archive.parent, prefix=".saving-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
                _add_text(tar, _MANIFEST, json.dumps({"schema": SCHEMA, **asdict(manifest)}, indent=1) + "\n")
                for name, path in sorted(found.items()):
                    for each in sorted(_files(path)):
                        tar.add(each, arcname=f"{name}/{each.relative_to(path).as_posix()}", recursive=False)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).rename(archive)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(archive: Path) -> Manifest:
    """The manifest of an archive; UsageError for a file that is no such archive or a newer one."""
    with _opened(archive) as tar:
        first = tar.next()
        member = tar.extractfile(first) if first is not None and first.name == _MANIFEST else None
        if member is None:
            raise UsageError(f"{archive} is not a saved compile cache", hint="python -m envs cache list")
        return _from_json(json.load(member), archive)


def restore(archive: Path, target: Path, said: Fingerprint, *, anyway: bool = False) -> Manifest:
    """Unpack into `target`, which must not hold anything, if the cache fits the environment that said this."""
    manifest = read(archive)
    if not anyway and (found := misfits(manifest, said)):
        raise UsageError(f"{archive.name} does not fit: {'; '.join(found)}", hint="--anyway restores it nevertheless")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} exists already and holds something", hint="give a directory that does not exist")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".restoring-"))
    try:
        _unpack(archive, temporary, manifest)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return manifest


def _unpack(archive: Path, directory: Path, manifest: Manifest) -> None:
    """Unpack everything but the manifest; UsageError when that is not what the manifest says."""
    with _opened(archive) as tar:
        _extract(tar, directory)
    (directory / _MANIFEST).unlink()
    if manifest.folders != tuple(_measure(folder.name, directory / folder.name) for folder in manifest.folders):
        raise UsageError(f"{archive} holds other files than its manifest says", hint="it is damaged; save it again")


def _extract(tar: tarfile.TarFile, directory: Path) -> None:
    """Extract plain files and directories only, and nothing outside the directory.

    Python before 3.11.4 has no extraction filters, and Debian 12 ships 3.11.2.
    """
    for member in tar:
        target = (directory / member.name).resolve()
        if not target.is_relative_to(directory.resolve()) or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is no plain file inside the archive")
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(member)
        assert content is not None
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o755)


def misfits(manifest: Manifest, said: Fingerprint) -> tuple[str, ...]:
    """What about the environment differs so that the cache is of no use to it, or dangerous."""
    pairs = (
        ("torch build", f"{manifest.torch} ({manifest.git_version[:11]})", f"{said.torch} ({said.git_version[:11]})"),
        ("CUDA", manifest.cuda, said.cuda),
        ("triton", manifest.triton, said.triton),
        ("Python", _minor(manifest.python), _minor(said.python)),
        ("GPU", ", ".join(manifest.gpus) or "none", ", ".join(sorted(set(said.gpus))) or "none"),
    )
    return tuple(f"{name} {theirs} made it, {ours} is here" for name, theirs, ours in pairs if theirs != ours)


def listing(directory: Path) -> tuple[tuple[Path, Manifest], ...]:
    """Every archive in a directory, the newest last; files that are none are left out."""
    found = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with contextlib.suppress(UsageError):
            found.append((path, read(path)))
    return tuple(sorted(found, key=lambda pair: pair[1].created_at))


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _files(path: Path) -> Iterator[Path]:
    """Regular files below a directory; locks of running processes mean nothing later."""
    return (each for each in path.rglob("*") if each.is_file() and not each.is_symlink() and each.suffix != ".lock")


def _measure(name: str, path: Path) -> Folder:
    total, files, size = hashlib.sha256(), 0, 0
    for each in sorted(_files(path)):
        content = each.read_bytes()
        total.update(f"{each.relative_to(path).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
        files, size = files + 1, size + len(content)
    return Folder(name=name, files=files, bytes=size, sha256=total.hexdigest())


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            yield tar
    except FileNotFoundError as error:
        raise UsageError(f"{archive} is not there", hint="python -m envs cache list") from error
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise UsageError(f"{archive} cannot be read as a saved compile cache: {error}") from error


def _from_json(content: Any, archive: Path) -> Manifest:  # noqa: ANN401  (what JSON holds)
    if content.get("schema") != SCHEMA:
        raise UsageError(f"{archive} has schema {content.get('schema')}, this version reads {SCHEMA}")
    try:
        fields = {name: content[name] for name in Manifest.__dataclass_fields__}
        fields["folders"] = tuple(Folder(**folder) for folder in fields["folders"])
        fields["gpus"] = tuple(fields["gpus"])
        fields["configuration"] = tuple((str(key), str(value)) for key, value in fields["configuration"])
        return Manifest(**fields)
    except (KeyError, TypeError) as error:
        raise UsageError(f"{archive} has a manifest that cannot be read: {error}") from error
