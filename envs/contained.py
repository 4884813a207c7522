"""A sealed container of an image as the place where an environment's processes run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import interpreter, machine, sandbox, seal
from .errors import CannotBuildError, CannotRunError
from .run_line import Sealed, client_of
from .sandbox import SYSTEM_PATH
from .scrub import NETWORK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from . import container
    from .process import Completed

_TIGHT = 64 * 2**20
_SEAL = Path(__file__).parent / "inside" / "seal.py"
_ASK = (
    "import json, os, platform, sys, sysconfig\n"
    "print(json.dumps([sys.executable, platform.python_version(), sys.implementation.name,"
    " os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')), platform.libc_ver()[1]]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of an image on the engine; every run is a fresh one."""

    engine: container.Engine
    engine_name: str
    held: sandbox.Image
    owner: str
    user: str
    gpus: str
    limits: sandbox.Limits
    answers: Path

    @property
    def image(self) -> str:
        """The image's id."""
        return self.held.id

    @property
    def digests(self) -> tuple[str, ...]:
        """What registries call the image."""
        return self.held.digests

    def find_python(self, pythons: tuple[str, ...], *, offline: bool) -> interpreter.Interpreter:  # noqa: ARG002
        """The first of `pythons` that the image has, without any its own `python`; what it answered is kept."""
        kept = self.answers / f"{self.image.partition(':')[2][:24]}.json"
        try:
            answered = json.loads(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            answered = self._ask_pythons()
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(answered), encoding="utf-8")
        for python in pythons or ("3",):
            for path, version, implementation, headers, glibc in answered:
                if implementation == "cpython" and version.startswith(f"{python}."):
                    return interpreter.Interpreter(
                        path=Path(path), version=version, headers=headers, image=self.image, libc=glibc
                    )
        raise CannotBuildError(
            f"the image {self.image[:19]} has no Python {' or '.join(pythons)}".rstrip(),
            hint=f"it has {', '.join(row[1] for row in answered) or 'none'}; make another base image",
            outcome="not_published",
        )

    def sealed(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        writable: Sequence[Path],
        readable: Sequence[Path],
    ) -> Sealed:
        """The container that `run` makes of this, and the client that makes it once more."""
        box = self._box(argv, cwd=cwd, env=env, mounts=_mounts(writable, readable))
        return Sealed(client=client_of(self.engine_name, self.engine.address), box=box)

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
        box = self._box(argv, cwd=cwd, env=env, mounts=_mounts(writable, readable), output=output, network=network)
        tail = _Tail(path=output, on_line=on_line) if output is not None and on_line is not None else None

        def look(elapsed: float) -> bool:
            if tail is not None:
                tail.read()
            return watch is not None and watch(elapsed)

        finished = self.engine.run(box, timeout_s=timeout_s, watch=look, warn_signal=warn_signal)
        if finished.note and output is not None:
            with output.open("a", encoding="utf-8") as log:
                log.write(f"\n{finished.note}\n")
        if tail is not None:
            tail.read()
        return finished.completed

    def _box(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        mounts: tuple[sandbox.Mount, ...] = (),
        output: Path | None = None,
        network: bool = False,
    ) -> sandbox.Sandbox:
        return sandbox.Sandbox(
            image=self.image,
            argv=tuple(argv),
            cwd=str(cwd),
            environment=_inside(env, network=network, path=self.held.path),
            mounts=mounts,
            output=str(output) if output is not None else "",
            user=self.user,
            network=network,
            gpus="" if network else self.gpus,
            limits=self.limits,
            owner=self.owner,
            driver=machine.process_name(os.getpid()),
        )

    def shortcomings(self) -> tuple[str, ...]:
        """What the engine does not hold a run to, in one line; asked once per engine and image.

        CannotRunError when no run in it may be believed.
        """
        facts = self._sealed()
        found = seal.broken(facts, self.limits, gpus=self.gpus, user=int(facts["user"]), owner=int(facts["owner"]))
        fatal = [item for item in found if item.outcome]
        if fatal:
            raise CannotRunError(
                f"{self.engine_name} cannot be relied on for: {', '.join(item.what for item in fatal)}",
                hint="runs in it would not mean what they say; use another engine, or mend this one",
                outcome=fatal[0].outcome,
            )
        told = ", ".join(item.what for item in found)
        return (f"{self.engine_name} cannot be relied on for: {told}",) if told else ()

    def _sealed(self) -> Mapping[str, Any]:
        """What a container of this engine is really held to; as long as no GPU is inside it is asked again."""
        asked = hashlib.sha256(f"{self.engine_name} {self.image} {self.limits} {self.user}".encode()).hexdigest()
        kept = self.answers / f"{asked[:24]}.seal.json"
        with contextlib.suppress(OSError, ValueError):
            answered: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            if answered["gpus"] or not self.gpus:
                return answered
        facts = {**self._ask_seal(), "user": os.getuid(), "memory_kill_told": self._memory_kill_is_told()}
        kept.write_text(json.dumps(facts), encoding="utf-8")
        return facts

    def _ask_seal(self) -> dict[str, Any]:
        python = self.find_python((), offline=True).path
        with tempfile.TemporaryDirectory(prefix="seal.", dir=self.answers) as directory:
            scratch = Path(directory)
            answer, log = scratch / "facts.json", scratch / "log.txt"
            argv = [str(python), str(_SEAL), str(answer)]
            self.run(
                argv, cwd=scratch, env={}, writable=(scratch,), readable=(_SEAL.parent,), output=log, timeout_s=120.0
            )
            if not answer.exists():
                said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
                raise CannotRunError(
                    f"a container of {self.engine_name} cannot say what it is: {said[-1] if said else 'no answer'}",
                    hint="does the engine mount directories of this machine, and can they be written inside?",
                    outcome="harness_error(engine)",
                )
            return {**json.loads(answer.read_text(encoding="utf-8")), "owner": answer.stat().st_uid}

    def _memory_kill_is_told(self) -> bool:
        """Whether the engine says of a container that ran into its memory limit that it did."""
        python = self.find_python((), offline=True).path
        box = self._box([str(python), "-c", "bytearray(2**30)"], cwd=Path("/"), env={})
        tight = replace(box, gpus="", limits=replace(self.limits, memory_bytes=_TIGHT))
        return self.engine.run(tight, timeout_s=120.0).out_of_memory

    def _ask_pythons(self) -> list[list[str]]:
        """Ask every interpreter of the image what it is, in one container."""
        scratch = self.answers / "asked"
        scratch.mkdir(parents=True, exist_ok=True)
        output = scratch / "pythons.txt"
        output.unlink(missing_ok=True)
        names = ["python", "python3", *(f"python3.{minor}" for minor in range(10, 16))]
        loop = f'for name in {" ".join(names)}; do command -v $name >/dev/null && $name -c "$1"; done; true'
        self.run(
            ["sh", "-c", f"PATH=$PATH:/opt/conda/bin:{SYSTEM_PATH}; {loop}", "sh", _ASK],
            cwd=Path("/"),
            env={},
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


def _inside(env: Mapping[str, str], *, network: bool, path: str) -> dict[str, str]:
    """The environment as it makes sense in the image: its own PATH behind the environment's first directory."""
    own = env.get("PATH", "").partition(os.pathsep)[0]
    inside = {"USER": "user", **env, "PATH": path if own in ("", *path.split(os.pathsep)) else f"{own}:{path}"}
    return inside if network else {name: value for name, value in inside.items() if name.upper() not in NETWORK}


def _mounts(writable: Sequence[Path], readable: Sequence[Path]) -> tuple[sandbox.Mount, ...]:
    """Mounts by path, so that one inside another comes after it."""
    wanted = {str(path): True for path in readable if path.exists()}
    wanted |= {str(path): False for path in writable}
    return tuple(sandbox.Mount(path=path, read_only=wanted[path]) for path in sorted(wanted))
