"""Which Python an environment is built on: the best one the machine has, else one that uv downloads.

An interpreter counts only with its C headers: torch compiles extension code against `Python.h` at run time,
and a system Python often comes without.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import machine, process, scrub
from .errors import CannotRunError
from .index import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ASK = (
    "import json, os, platform, sys, sysconfig\n"
    "print(json.dumps([getattr(sys, '_base_executable', sys.executable), platform.python_version(),"
    " sys.implementation.name, bool(sysconfig.get_config_var('Py_GIL_DISABLED')),"
    " os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h'))]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One usable CPython.

    Attributes:
        path: the executable, outside any virtual environment.
        version: full version, `3.11.7`.
        headers: whether `Python.h` is there.
        image: id of the container image it lies in; empty on this machine.
        libc: version of glibc there; empty for this machine's.
    """

    path: Path
    version: str
    headers: bool
    image: str = ""
    libc: str = ""

    @property
    def minor(self) -> str:
        """`3.11`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def identity(self) -> str:
        """What of it belongs to an environment's identity."""
        where = f"@{self.image[:19]}" if self.image else ""
        return f"cpython-{self.version}-{platform.machine()}{where}"

    def require_headers(self) -> None:
        """Refuse an interpreter against which torch could not compile native code."""
        if not self.headers:
            raise CannotRunError(
                f"Python {self.version} at {self.path} has no C headers (Python.h), which torch.compile needs here",
                hint=f"install them, for instance `apt-get install python{self.minor}-dev`",
                outcome="build_failed",
            )

    def target(self) -> Target:
        """What wheels must fit."""
        libc = self.libc or machine.glibc() or "2.17"
        return Target(python=self.minor, architecture=platform.machine(), glibc=libc, full=self.version)


def find(pythons: tuple[str, ...], *, uv: str, offline: bool, environ: Mapping[str, str] = os.environ) -> Interpreter:
    """The first of `pythons` the machine has with headers, else one without, else one that uv downloads.

    Only what compiles C needs the headers: Triton does, so beside a GPU a download comes before one without them.
    """
    bare: list[Interpreter] = []
    for python in pythons:
        for found in _candidates(python, uv, environ):
            if found.minor == python and found.headers:
                return found
            bare.append(found)
    usable = [item for item in bare if item.minor in pythons]
    if usable and not machine.driver_version():
        return usable[0]
    if not offline:
        downloaded = _download(pythons[0], uv, environ)
        if downloaded is not None:
            return downloaded
    if usable:
        return usable[0]
    raise _none_usable(pythons, offline=offline)


def _candidates(python: str, uv: str, environ: Mapping[str, str]) -> Iterator[Interpreter]:
    """Interpreters of one minor version, the cheapest to find first: the running one costs no process."""
    if python == ".".join(map(str, sys.version_info[:2])):
        running = _running()
        if running is not None:
            yield running
    env = scrub.installer_environment(environ)
    asked = process.capture(
        [uv, "python", "find", "--no-config", "--no-project", "--system", "--no-python-downloads", python],
        cwd=Path("/"),
        env=env,
    )
    paths = [asked.stdout.strip(), f"/usr/local/bin/python{python}", f"/usr/bin/python{python}"]
    for path in dict.fromkeys(path for path in paths if path):
        found = _ask(Path(path), env)
        if found is not None:
            yield found


def _running() -> Interpreter | None:
    """The interpreter this process runs on, without its virtual environment."""
    base = Path(getattr(sys, "_base_executable", "") or sys.executable)
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or not base.exists():
        return None
    headers = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    return Interpreter(path=base, version=platform.python_version(), headers=headers)


def _ask(path: Path, env: Mapping[str, str]) -> Interpreter | None:
    if not path.exists():
        return None
    try:
        asked = process.capture([str(path), "-I", "-S", "-c", _ASK], cwd=Path("/"), env=env, timeout_s=30.0)
        base, version, implementation, free_threaded, headers = json.loads(asked.stdout)
    except (CannotRunError, ValueError):
        return None
    if implementation != "cpython" or free_threaded:
        return None
    return Interpreter(path=Path(base), version=version, headers=headers)


def _download(python: str, uv: str, environ: Mapping[str, str]) -> Interpreter | None:
    env = scrub.installer_environment(environ)
    fetched = process.capture(
        [uv, "python", "install", "--no-config", "--no-bin", python], cwd=Path("/"), env=env, timeout_s=600.0
    )
    if fetched.returncode != 0:
        return None
    asked = process.capture(
        [uv, "python", "find", "--no-config", "--no-project", "--managed-python", python], cwd=Path("/"), env=env
    )
    return _ask(Path(asked.stdout.strip() or "/nonexistent"), env)


def _none_usable(pythons: tuple[str, ...], *, offline: bool) -> CannotRunError:
    wanted = " or ".join(pythons)
    downloads = "offline" if offline else "and uv could not download one"
    return CannotRunError(
        f"there is no Python {wanted} on this machine, {downloads}",
        hint=f"install one, for instance `uv python install {pythons[0]}`, or add yours to the definition's `python`",
        outcome="build_failed",
    )
