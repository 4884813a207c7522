"""What an environment is asked to be: one small TOML file per definition, parsed into one frozen noun.

Knows the file format and which combinations of torch and CUDA can exist. Refuses to know how anything is
resolved, downloaded or built. An unknown key is an error, never ignored: a mistyped `exlude_newer` would
otherwise let an old environment drift.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from . import backend
from .errors import UsageError
from .step import HistoryStep, parse_step
from .table import Table

DIRECTORY = Path(__file__).parent / "definitions"

_NAME = re.compile(r"[a-z0-9][a-z0-9+._-]*\Z")
_PYTHON = re.compile(r"3\.\d+\Z")
_PYTHONS = ("3.11", "3.12", "3.13")
_PYTHON_WANTED = 'a version like "3.11" or a list of them, best first'
_KEYS = (
    "summary",
    "torch",
    "cuda",
    "channel",
    "python",
    "requirements",
    "exclude_newer",
    "environment",
    "history",
    "image",
)


class Channel(StrEnum):
    """Which of PyTorch's indexes a build belongs to."""

    RELEASE = "release"
    NIGHTLY = "nightly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One environment as asked for.

    Attributes:
        name: identifier, used in session names, paths, logs and reports.
        summary: one line for `nox -l`.
        torch: exact version without the local tag; empty means the newest of the channel.
        cuda: CUDA tag of the variant, `cu130`.
        channel: release or nightly.
        pythons: acceptable interpreters as `3.11`, best first; the first one the machine has is used.
        requirements: what is installed beside torch.
        exclude_newer: upload-time cut-off of the resolution; empty means none (nightlies).
        environment: variables every process in this environment gets.
        history: what is done to the environment after it is built.
        image: a container image that is the environment as it is: a reference or an archive; empty for none. With one,
            `torch`, `cuda` and `pythons` may be empty: whatever it holds.
        own_torch: another torch than the image's was asked for: it gets an environment of its own inside the image.
    """

    name: str
    summary: str
    torch: str
    cuda: str
    channel: Channel = Channel.RELEASE
    pythons: tuple[str, ...] = _PYTHONS
    requirements: tuple[str, ...] = ()
    exclude_newer: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    history: tuple[HistoryStep, ...] = ()
    image: str = ""
    own_torch: bool = False

    @property
    def python(self) -> str:
        """The preferred interpreter, `3.11`."""
        return self.pythons[0]

    @property
    def as_it_is(self) -> bool:
        """Whether the environment is the image itself, with nothing built."""
        return bool(self.image) and not self.own_torch


def shipped() -> tuple[Definition, ...]:
    """Every definition in `envs/definitions`, by name."""
    return tuple(load(str(path)) for path in sorted(DIRECTORY.glob("*.toml")))


def load(name_or_path: str) -> Definition:
    """Read a shipped definition by name, one with a history (`cu128+sglang`), or any TOML file by path."""
    base, plus, history_name = name_or_path.partition("+")
    if plus and not name_or_path.endswith(".toml"):
        from . import history  # noqa: PLC0415  (it builds on this module)

        return history.compose(load(base), history.load(history_name))
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = DIRECTORY / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if name_or_path.endswith(".toml"):
            raise UsageError(f"no such file: {name_or_path}", hint="give the path of a definition, or a name") from None
        raise _unknown_definition(name_or_path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the definition {path}: {error}") from error
    definition = parse(text, name=path.stem, origin=str(path))
    archive = path.parent / definition.image
    return replace(definition, image=str(archive.absolute())) if archive.is_file() else definition


def parse(text: str, *, name: str, origin: str) -> Definition:
    """Turn the text of a definition into a Definition; UsageError says which key of which file is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is not TOML: {error}") from error
    definition = _definition(Table(table, origin=origin, known=_KEYS), name)
    _check_torch(definition, origin)
    return definition


def with_torch(definition: Definition, *, version: str, cuda: str = "") -> Definition:
    """The same environment around another build of torch, for a bisection.

    Without `cuda` the variant stays, unless that release was never built for it: then the variant that the
    default index serves for the release is taken. The cut-off stays for a release and is dropped for a
    nightly, whose index does not always say when a file was uploaded. An image keeps its own torch: the other one
    is built beside it, in an environment inside the image.
    """
    parsed = _version(version, origin=f"torch {version!r}")
    public, local = parsed.public, parsed.local or ""
    nightly = parsed.is_devrelease
    chosen = cuda or local or definition.cuda
    variants = backend.variants(public)
    if not (cuda or local or nightly) and variants and chosen not in variants:
        chosen = backend.default_variant(public) or variants[-1]
    pythons = definition.pythons or _PYTHONS
    derived = replace(
        definition,
        name=f"torch-{public}-{chosen}-py{pythons[0].replace('.', '')}",
        summary=f"torch {public} for {chosen}, otherwise as {definition.name}",
        torch=public,
        cuda=chosen,
        channel=Channel.NIGHTLY if nightly else Channel.RELEASE,
        pythons=pythons,
        exclude_newer="" if nightly else definition.exclude_newer,
        own_torch=bool(definition.image),
    )
    _check_torch(derived, f"torch {version}")
    return derived


def _unknown_definition(name: str) -> UsageError:
    from . import history  # noqa: PLC0415  (it builds on this module)

    names = sorted(path.stem for path in DIRECTORY.glob("*.toml"))
    grown = history.names()
    near = difflib.get_close_matches(name, (*names, *grown), n=2, cutoff=0.5)
    known = f"{', '.join(names)}; with a history: {', '.join(grown)}"
    return UsageError(
        f"no environment definition named {name!r}",
        hint=f"did you mean {' or '.join(near)}?" if near else f"there are: {known}; or give the path of a TOML file",
    )


def _version(text: str, *, origin: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(
            f"{origin}: {text!r} is not a version of torch", hint="write it like 2.11.0 or 2.12.0.dev20260215"
        ) from None


def _check_torch(definition: Definition, origin: str) -> None:
    """A CUDA tag nobody ever built, or a release never built for it, is told before anything is asked."""
    tag = definition.cuda
    if definition.as_it_is and not tag:
        return
    if tag not in backend.CUDA_TAGS:
        raise UsageError(
            f"{origin}: there is no wheel index for {tag!r}",
            hint=f"near ones: {', '.join(backend.near_tags(tag))}",
        )
    variants = backend.variants(definition.torch) if definition.channel is Channel.RELEASE else ()
    if variants and tag not in variants:
        releases = ", ".join(backend.releases_with(tag))
        raise UsageError(
            f"{origin}: torch {definition.torch} was never built for {tag}, only for {', '.join(variants)}",
            hint=f"use one of these, or a release that has {tag}: {releases}",
        )


def _definition(table: Table, name: str) -> Definition:
    if not _NAME.match(name):
        raise UsageError(
            f"{table.origin}: {name!r} cannot be the name of an environment", hint="use a-z, 0-9 and - + . _"
        )
    channel = table.choice("channel", Channel, Channel.RELEASE)
    image = table.text("image")
    return Definition(
        name=name,
        summary=table.text("summary", required=True),
        torch=_torch(table, required=channel is Channel.RELEASE and not image),
        cuda=table.text("cuda", required=not image),
        channel=channel,
        pythons=() if image and "python" not in table.values else _pythons(table),
        requirements=_requirements(table),
        exclude_newer=table.moment("exclude_newer"),
        environment=table.pairs("environment"),
        history=tuple(
            parse_step(step, origin=f"{table.origin}: history step {number}")
            for number, step in enumerate(table.tables("history"), start=1)
        ),
        image=image,
    )


def _torch(table: Table, *, required: bool) -> str:
    text = table.text("torch", required=required)
    if text:
        parsed = _version(text, origin=f"{table.origin}: torch")
        if parsed.local:
            raise UsageError(
                f"{table.origin}: torch = {text!r} repeats the CUDA tag",
                hint=f'write torch = "{parsed.public}" and cuda = "{parsed.local}"',
            )
    return text


def _pythons(table: Table) -> tuple[str, ...]:
    value = table.values.get("python", list(_PYTHONS))
    versions = [value] if isinstance(value, str) else value
    if not isinstance(versions, list) or not versions:
        raise table.wrong("python", _PYTHON_WANTED)
    if not all(isinstance(item, str) and _PYTHON.match(item) for item in versions):
        raise table.wrong("python", _PYTHON_WANTED)
    return tuple(versions)


def _requirements(table: Table) -> tuple[str, ...]:
    texts = table.texts("requirements")
    for text in texts:
        try:
            name = Requirement(text).name
        except InvalidRequirement as error:
            raise UsageError(f"{table.origin}: {text!r} is not a requirement: {error}") from None
        if canonicalize_name(name) == "torch":
            raise UsageError(f"{table.origin}: torch is among the requirements", hint="its version is the key 'torch'")
    return texts
