"""Where things come from and go to: the store, the indexes, offline or not. Flags win over the environment.

One documented setting, `ENVS_INDEX` (or `--index`), replaces where torch comes from: the URL of a mirror, or
a directory of wheels. Everything else comes from the default index, which `ENVS_DEFAULT_INDEX` replaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

BACKENDS = ("venv", "container")
BASE_IMAGE = "torch-upgrade-bisect/base:bookworm"
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[KMGT]?)B?\Z")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
TORCH_INDEX = "https://download.pytorch.org/whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every command of the tool is told about its surroundings.

    Attributes:
        store: directory that holds the built environments.
        index: URL that replaces the root of a variant's index (`INDEX/torch/` is torch's simple page).
        wheelhouse: directory of wheels that is looked at before any index.
        default_index: URL of the index for everything else; empty for uv's own default.
        torch_index: root of PyTorch's wheel indexes, `/cu130/torch/` below it.
        offline: use only what is cached or in the wheelhouse.
        any_driver: build for a driver that is too old all the same; for machines with forward-compatibility
            libraries, which a definition names in its environment.
        backend: `venv` on this machine, or `container`.
        base_image: image that container environments are built in.
        shm_bytes: size of /dev/shm in a container.
    """

    store: Path
    index: str = ""
    wheelhouse: Path | None = None
    default_index: str = ""
    torch_index: str = TORCH_INDEX
    offline: bool = False
    any_driver: bool = False
    backend: str = "venv"
    base_image: str = BASE_IMAGE
    shm_bytes: int = 2 * 2**30


def from_environ(environ: Mapping[str, str]) -> Settings:
    """Read the variables named ENVS_ and the flag: ENVS_STORE, ENVS_INDEX, ENVS_WHEELHOUSE, ENVS_OFFLINE, ..."""
    settings = Settings(
        store=_store(environ),
        default_index=environ.get("ENVS_DEFAULT_INDEX", ""),
        torch_index=environ.get("ENVS_TORCH_INDEX", TORCH_INDEX).rstrip("/"),
        offline=_flag(environ, "ENVS_OFFLINE"),
        any_driver=_flag(environ, "ENVS_ANY_DRIVER"),
        backend=_backend(environ.get("ENVS_BACKEND") or "venv"),
        base_image=environ.get("ENVS_BASE_IMAGE") or BASE_IMAGE,
    )
    if environ.get("ENVS_SHM_SIZE"):
        settings = replace(settings, shm_bytes=parse_size(environ["ENVS_SHM_SIZE"]))
    if environ.get("ENVS_WHEELHOUSE"):
        settings = replace(settings, wheelhouse=_directory(environ["ENVS_WHEELHOUSE"], "ENVS_WHEELHOUSE"))
    return _with_index(settings, environ.get("ENVS_INDEX", ""), "ENVS_INDEX")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command with environments has."""
    group = parser.add_argument_group("environments")
    group.add_argument("--store", metavar="DIR", help="where built environments are kept (ENVS_STORE)")
    group.add_argument(
        "--index",
        metavar="URL",
        help="index that replaces PyTorch's for torch, or a directory of wheels (ENVS_INDEX)",
    )
    group.add_argument("--wheelhouse", metavar="DIR", help="directory of wheels to look at first (ENVS_WHEELHOUSE)")
    group.add_argument("--default-index", metavar="URL", help="index for everything but torch (ENVS_DEFAULT_INDEX)")
    group.add_argument("--backend", choices=BACKENDS, help="where environments are built and run (ENVS_BACKEND)")
    group.add_argument("--base-image", metavar="REF", help="image for --backend container (ENVS_BASE_IMAGE)")
    group.add_argument("--offline", action="store_true", help="use only the cache and the wheelhouse (ENVS_OFFLINE=1)")


def from_arguments(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Combine the flags of `add_arguments` with the environment; a flag wins."""
    settings = from_environ(environ)
    if arguments.store:
        settings = replace(settings, store=Path(arguments.store).expanduser().absolute())
    if arguments.wheelhouse:
        settings = replace(settings, wheelhouse=_directory(arguments.wheelhouse, "--wheelhouse"))
    if arguments.default_index:
        settings = replace(settings, default_index=arguments.default_index)
    if arguments.backend:
        settings = replace(settings, backend=arguments.backend)
    if arguments.base_image:
        settings = replace(settings, base_image=arguments.base_image)
    if arguments.offline:
        settings = replace(settings, offline=True)
    return _with_index(settings, arguments.index or "", "--index")


def spell_out(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Take what ENVS_BACKEND and ENVS_BASE_IMAGE say as if it had been given with the flags, and tell the flags.

    A command line that is kept, to be given again in another shell, must not mean the host there.
    """
    words: list[str] = []
    if not arguments.backend and environ.get("ENVS_BACKEND") == "container":
        arguments.backend = "container"
        words += ["--backend", "container"]
    if arguments.backend == "container" and not arguments.base_image and environ.get("ENVS_BASE_IMAGE"):
        arguments.base_image = environ["ENVS_BASE_IMAGE"]
        words += ["--base-image", arguments.base_image]
    return tuple(words)


def parse_size(text: str) -> int:
    """`50G` -> 50000000000."""
    match = _SIZE.match(text.upper())
    if match is None:
        raise UsageError(f"{text!r} is not a size", hint="write it like 50G")
    return int(float(match["number"]) * _UNITS[match["unit"]])


def _flag(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() not in ("", "0", "false", "no")


def _backend(text: str) -> str:
    if text not in BACKENDS:
        raise UsageError(f"ENVS_BACKEND: {text} is not a backend", hint=f"one of {', '.join(BACKENDS)}")
    return text


def _store(environ: Mapping[str, str]) -> Path:
    if environ.get("ENVS_STORE"):
        return Path(environ["ENVS_STORE"]).expanduser().absolute()
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".cache")
    return Path(cache).absolute() / "torch-upgrade-bisect"


def _with_index(settings: Settings, text: str, origin: str) -> Settings:
    """An index given as a directory is a wheelhouse; given as a URL it replaces the variant's index."""
    if not text:
        return settings
    if text.startswith("file://"):
        return replace(settings, wheelhouse=_directory(text.removeprefix("file://"), origin))
    if "://" in text:
        return replace(settings, index=text.rstrip("/"))
    return replace(settings, wheelhouse=_directory(text, origin))


def _directory(text: str, origin: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_dir():
        raise UsageError(f"{origin}: {text} is not a directory", hint="give a URL, or a directory that holds wheels")
    if not any(path.glob("*.whl")):
        raise UsageError(f"{origin}: there are no wheels in {text}", hint="give a directory that holds *.whl files")
    return path
