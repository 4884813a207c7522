"""Where an environment's processes run: on this machine, or sealed in a container of a known image.

Both places see the same paths, so everything above (building, asking, running, verifying) is written once. A
container place never falls back to the host: without an engine it is an error.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from . import interpreter, machine, process, sandbox, uv
from .errors import CannotBuildError, CannotRunError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from . import container
    from .process import Completed
    from .run_line import Sealed
    from .settings import Settings


class Place(Protocol):
    """Runs processes of an environment.

    `image` is the image's id, `digests` what registries call it; both are empty on the host.
    """

    @property
    def image(self) -> str: ...
    @property
    def digests(self) -> tuple[str, ...]: ...
    @property
    def engine_name(self) -> str: ...

    def sealed(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        writable: Sequence[Path],
        readable: Sequence[Path],
    ) -> Sealed | None:
        """The container that `run` makes of this; None where it makes none."""

    def shortcomings(self) -> tuple[str, ...]:
        """One line on what the place does not hold a run to, or none."""

    def find_python(self, pythons: tuple[str, ...], *, offline: bool) -> interpreter.Interpreter:
        """The interpreter to build on."""

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        writable: Sequence[Path],
        readable: Sequence[Path] = (),
        output: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        watch: Callable[[float], bool] | None = None,
        warn_signal: signal.Signals = signal.SIGTERM,
        network: bool = False,
    ) -> Completed:
        """Run to the end; see `process.run`. `writable` and `readable` are all that it needs of the file system."""


@dataclass(frozen=True, slots=True)
class HostPlace:
    """This machine itself."""

    image: str = ""
    digests: tuple[str, ...] = ()
    engine_name: str = ""

    def sealed(
        self,
        argv: Sequence[str],  # noqa: ARG002
        *,
        cwd: Path,  # noqa: ARG002
        env: Mapping[str, str],  # noqa: ARG002
        writable: Sequence[Path],  # noqa: ARG002
        readable: Sequence[Path],  # noqa: ARG002
    ) -> None:
        """There is none on the host."""
        return

    def shortcomings(self) -> tuple[str, ...]:
        """Nothing is promised of a run on the host."""
        return ()

    def find_python(self, pythons: tuple[str, ...], *, offline: bool) -> interpreter.Interpreter:
        """The best interpreter that this machine has, else one that uv downloads."""
        return interpreter.find(pythons, uv=uv.program(), offline=offline)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        writable: Sequence[Path],  # noqa: ARG002  (a process of the host may write anywhere)
        readable: Sequence[Path] = (),  # noqa: ARG002
        output: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        watch: Callable[[float], bool] | None = None,
        warn_signal: signal.Signals = signal.SIGTERM,
        network: bool = False,  # noqa: ARG002
    ) -> Completed:
        """Run it as a child process."""
        return process.run(
            argv,
            cwd=cwd,
            env=env,
            output=output,
            timeout_s=timeout_s,
            on_line=on_line,
            watch=watch,
            warn_signal=warn_signal,
        )


HOST = HostPlace()


def place_of(
    settings: Settings, image: str = "", environ: Mapping[str, str] = os.environ, *, may_fetch: bool = True
) -> Place:
    """The place that the settings ask for; with `image` (a definition's) a container of that image.

    CannotRunError (exit 6) when a container is asked for and no engine answers; CannotBuildError when there is no such
    image, or where it may not be fetched and the engine does not hold it.
    """
    if not image and settings.backend == "venv":
        return HOST
    from . import container  # noqa: PLC0415  (the SDK takes half of the time a cached environment may take)
    from .contained import Container  # noqa: PLC0415

    engine = container.connect(environ)
    answers = settings.store / "images"
    reference = image or settings.base_image
    try:
        held = _image(engine, reference, own=not image, may_fetch=may_fetch, answers=answers)
    except ToolError:
        engine.close()
        raise
    return Container(
        engine=engine,
        engine_name=engine.name,
        held=held,
        owner=owner_of(settings.store),
        user="0:0" if os.getuid() and engine.rootless() else f"{os.getuid()}:{os.getgid()}",
        gpus="all" if machine.driver_version() else "",
        limits=sandbox.Limits(
            memory_bytes=int(_memory_bytes() * 0.9) >> 20 << 20,
            shm_bytes=settings.shm_bytes,
            num_files=_at_most(resource.RLIMIT_NOFILE, 65536),
            num_tasks=_at_most(resource.RLIMIT_NPROC, 32768),
        ),
        answers=answers,
    )


def refuse_unavailable(
    settings: Settings, image: str = "", environ: Mapping[str, str] = os.environ, *, builds_here: bool = True
) -> None:
    """What a container needs and is not there, as far as that can be known without fetching an image.

    CannotRunError (exit 6) when no engine answers; CannotBuildError (exit 5) when environments are built here, and the
    image is neither held by the engine nor something that it could fetch.
    """
    _to_fetch(settings, image, environ, looks=builds_here)


def image_to_fetch(settings: Settings, image: str = "", environ: Mapping[str, str] = os.environ) -> str:
    """The image that `place_of` would fetch, '' for none. Raises what `refuse_unavailable` does, and fetches nothing.

    How large it is, the engine does not say before it has it: what it tells of a registry's image is the manifest's
    own size.
    """
    return _to_fetch(settings, image, environ, looks=True)


def _to_fetch(settings: Settings, image: str, environ: Mapping[str, str], *, looks: bool) -> str:
    if not image and settings.backend == "venv":
        return ""
    from . import container  # noqa: PLC0415

    reference = image or settings.base_image
    engine = container.connect(environ)
    try:
        return reference if looks and _is_elsewhere(engine, reference, own=not image) else ""
    finally:
        engine.close()


def owner_of(store: Path) -> str:
    """The label that containers of a store carry."""
    return hashlib.sha256(str(store).encode()).hexdigest()[:16]


def remove_leftovers(store: Path, *, used: frozenset[str], environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Remove containers that a kill left, and base images that a later one replaced; how many of each.

    Nothing when no engine answers or this Python has no client for one, and no image of `used`: environments live in
    them.
    """
    try:
        from . import container  # noqa: PLC0415
    except ModuleNotFoundError:
        return 0, 0
    try:
        engine = container.connect(environ)
    except CannotRunError:
        return 0, 0
    owner = owner_of(store)
    try:
        containers = engine.remove_leftovers(owner, alive=machine.may_live)
        return len(containers), len(engine.remove_old_images(owner, used=used))
    finally:
        engine.close()


def _image(engine: container.Engine, reference: str, *, own: bool, may_fetch: bool, answers: Path) -> sandbox.Image:
    """An image: one the engine holds, an archive on disk, or one its registry has."""
    if _is_elsewhere(engine, reference, own=own):
        if not may_fetch:
            raise CannotBuildError(f"the engine does not hold {reference} yet", outcome="not_published")
        engine.pull(reference)
    return _loaded(engine, Path(reference), answers) if Path(reference).is_file() else engine.image(reference)


def _is_elsewhere(engine: container.Engine, reference: str, *, own: bool) -> bool:
    """Whether the image must be fetched first; CannotBuildError where it cannot be: it is local, and not there.

    Args:
        engine: asked what it holds, and for nothing else.
        reference: the image's name, digest or id, or an archive.
        own: whether it is the base image of this tool, which by its name alone is on no registry.
    """
    if Path(reference).is_file():
        return False
    if reference.startswith((".", "/")):
        raise CannotBuildError(f"there is no image archive {reference}", outcome="not_published")
    if engine.has_image(reference):
        return False
    if reference.startswith("sha256:"):
        raise CannotBuildError(
            f"the engine holds no image {reference[:19]} any more",
            hint="load or pull it again by the name or digest it had",
            outcome="not_published",
        )
    if own and "@" not in reference:
        raise CannotBuildError(
            f"the engine has no image {reference}",
            hint="make it with `python -m envs base-image`, or name another with ENVS_BASE_IMAGE",
            outcome="not_published",
        )
    return True


def _loaded(engine: container.Engine, archive: Path, answers: Path) -> sandbox.Image:
    """Load an archive unless the engine still holds what was loaded from that very file."""
    status = archive.stat()
    key = hashlib.sha256(f"{archive} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:24]
    kept = answers / f"{key}.loaded"
    if kept.exists() and engine.has_image(kept.read_text(encoding="utf-8")):
        return engine.image(kept.read_text(encoding="utf-8"))
    image = engine.load_image(archive)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(image.id, encoding="utf-8")
    return image


def _at_most(limit: int, wanted: int) -> int:
    """A limit that this user may set, as the engine's user most likely may too."""
    hard = resource.getrlimit(limit)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
