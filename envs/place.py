"""Where an environment's processes run: on this machine, or sealed in a container of a known image.

Both places see the same paths, so everything above (building, asking, running, verifying) is written once. A
container place never falls back to the host: without an engine it is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from . import interpreter, machine, process, sandbox, uv
from .errors import CannotBuildError, CannotRunError
from .process import NETWORK, Completed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from . import container
    from .settings import Settings

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TAIL_EVERY_S = 0.5
_ASK = (
    "import json, os, platform, sys, sysconfig\n"
    "print(json.dumps([sys.executable, platform.python_version(), sys.implementation.name,"
    " os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')), platform.libc_ver()[1]]))"
)


class Place(Protocol):
    """Runs processes of an environment; `image` is the image's id, or '' on the host."""

    @property
    def image(self) -> str: ...

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
class Host:
    """This machine itself."""

    image: str = ""

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


HOST = Host()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of `image` on the engine; every run is a fresh one."""

    engine: container.Engine
    image: str
    owner: str
    gpus: str
    limits: sandbox.Limits
    answers: Path

    def find_python(self, pythons: tuple[str, ...], *, offline: bool) -> interpreter.Interpreter:  # noqa: ARG002
        """The first of `pythons` that the image has; what it answered is kept, an image never changes."""
        kept = self.answers / f"{self.image.partition(':')[2][:24]}.json"
        try:
            answered = json.loads(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            answered = self._ask_pythons()
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(answered), encoding="utf-8")
        for python in pythons:
            for path, version, implementation, headers, glibc in answered:
                if implementation == "cpython" and version.startswith(f"{python}."):
                    return interpreter.Interpreter(
                        path=Path(path), version=version, headers=headers, image=self.image, libc=glibc
                    )
        raise CannotBuildError(
            f"the image {self.image[:19]} has no Python {' or '.join(pythons)}",
            hint=f"it has {', '.join(row[1] for row in answered) or 'none'}; make another base image",
            outcome="not_published",
        )

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
        """Run it in a fresh container, as this user, with only these directories; without a network unless building."""
        tail = _Tail(path=output, on_line=on_line) if output is not None and on_line is not None else None

        def look(elapsed: float) -> bool:
            if tail is not None:
                tail.read()
            return watch is not None and watch(elapsed)

        finished = self.engine.run(
            sandbox.Sandbox(
                image=self.image,
                argv=tuple(argv),
                cwd=str(cwd),
                environment=_inside(env, network=network),
                mounts=_mounts(writable, readable),
                output=str(output) if output is not None else "",
                user=f"{os.getuid()}:{os.getgid()}",
                network=network,
                gpus="" if network else self.gpus,
                limits=self.limits,
                owner=self.owner,
            ),
            timeout_s=timeout_s,
            watch=look,
            warn_signal=warn_signal,
        )
        if finished.note and output is not None:
            with output.open("a", encoding="utf-8") as log:
                log.write(f"\n{finished.note}\n")
        if tail is not None:
            tail.read()
        return finished.completed

    def _ask_pythons(self) -> list[list[str]]:
        """Ask every interpreter of the image what it is, in one container."""
        scratch = self.answers / "asked"
        scratch.mkdir(parents=True, exist_ok=True)
        output = scratch / "pythons.txt"
        output.unlink(missing_ok=True)
        names = ["python", "python3", *(f"python3.{minor}" for minor in range(10, 16))]
        script = f'for name in {" ".join(names)}; do command -v $name >/dev/null && $name -c "$1"; done; true'
        self.run(
            ["sh", "-c", script, "sh", _ASK],
            cwd=Path("/"),
            env={"PATH": f"/opt/conda/bin:{_SYSTEM_PATH}"},
            writable=(scratch,),
            output=output,
            timeout_s=120.0,
        )
        rows = []
        for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
        return rows


@dataclass(slots=True, kw_only=True)
class _Tail:
    """Gives new whole lines of a growing file to `on_line`."""

    path: Path
    on_line: Callable[[str], None]
    offset: int = 0

    def read(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                fresh = file.read()
        except FileNotFoundError:
            return
        whole, newline, _ = fresh.rpartition(b"\n")
        self.offset += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            self.on_line(line)


def place_of(settings: Settings, image: str = "", environ: Mapping[str, str] = os.environ) -> Place:
    """The place that the settings ask for; with `image` (a definition's) a container of that image.

    CannotRunError (exit 6) when a container is asked for and no engine answers.
    """
    if not image and settings.backend == "venv":
        return HOST
    from . import container  # noqa: PLC0415  (the SDK takes half of the time a cached environment may take)

    engine = container.connect(environ)
    reference = image or settings.base_image
    identifier = _image_id(engine, reference, own=not image)
    return Container(
        engine=engine,
        image=identifier,
        owner=owner_of(settings.store),
        gpus="all" if machine.driver_version() else "",
        limits=sandbox.Limits(memory_bytes=int(_memory_bytes() * 0.9)),
        answers=settings.store / "images",
    )


def owner_of(store: Path) -> str:
    """The label that containers of a store carry."""
    return hashlib.sha256(str(store).encode()).hexdigest()[:16]


def remove_leftovers(store: Path, environ: Mapping[str, str] = os.environ) -> int:
    """Remove containers of ours that a kill left; 0 when no engine answers."""
    from . import container  # noqa: PLC0415

    try:
        engine = container.connect(environ)
    except CannotRunError:
        return 0
    try:
        return len(engine.remove_leftovers(owner_of(store)))
    finally:
        engine.close()


def _image_id(engine: container.Engine, reference: str, *, own: bool) -> str:
    """Id of an image: one the engine holds, a tarball on disk, or one its registry has."""
    if Path(reference).is_file():
        return engine.load_image(Path(reference))
    if not engine.has_image(reference):
        if own and "@" not in reference:
            raise CannotBuildError(
                f"the engine has no image {reference}",
                hint="make it with `python -m envs base-image`, or name another with ENVS_BASE_IMAGE",
                outcome="not_published",
            )
        engine.pull(reference)
    return str(engine.image(reference)["id"])


def _inside(env: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """The environment as it makes sense in the image: its own PATH behind the environment's first directory."""
    own, _, rest = env.get("PATH", "").partition(os.pathsep)
    system = rest == _SYSTEM_PATH or not own or own in _SYSTEM_PATH.split(os.pathsep)
    inside = {**env, "PATH": env.get("PATH", _SYSTEM_PATH) if system else f"{own}{os.pathsep}{_SYSTEM_PATH}"}
    return inside if network else {name: value for name, value in inside.items() if name.upper() not in NETWORK}


def _mounts(writable: Sequence[Path], readable: Sequence[Path]) -> tuple[sandbox.Mount, ...]:
    """Mounts by path, so that one inside another comes after it."""
    wanted = {str(path): True for path in readable if path.exists()}
    wanted |= {str(path): False for path in writable}
    return tuple(sandbox.Mount(path=path, read_only=wanted[path]) for path in sorted(wanted))


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
