"""What this machine is: driver, GPUs, C library, compiler, free disk. Asks; decides nothing."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from . import backend, process
from .errors import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DRIVER = re.compile(r"\b(\d+\.\d+(?:\.\d+)?)\b")
_VERSION_FILES = (Path("/sys/module/nvidia/version"), Path("/proc/driver/nvidia/version"))


def ask(environ: Mapping[str, str] = os.environ) -> backend.Machine:
    """Ask this machine what it is; nvidia-smi is asked only when there is a driver."""
    driver = driver_version(environ)
    return backend.Machine(
        architecture=platform.machine(),
        glibc=glibc(),
        driver=driver,
        gpus=parse_gpus(_smi("name,compute_cap", environ)) if driver else (),
    )


def driver_version(environ: Mapping[str, str] = os.environ) -> str:
    """Version of the loaded NVIDIA driver; empty without one.

    The kernel's own files come first; where they are hidden (WSL, some containers) nvidia-smi is asked.
    """
    for path in _VERSION_FILES:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        match = _DRIVER.search(text)
        if match:
            return match[1]
    match = _DRIVER.match(_smi("driver_version", environ).strip())
    return match[1] if match else ""


def glibc() -> str:
    """Version of glibc; empty on another C library."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""
    return name.removeprefix("glibc ")


def require_compiler(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse with one line when torch.compile could not work for want of a C++ compiler."""
    refusal = backend.compiler_missing(environ, lambda name: shutil.which(name, path=environ.get("PATH")))
    if refusal is not None:
        raise CannotRunError(refusal.message, hint=refusal.hint, outcome=refusal.outcome)


def free_bytes(path: Path) -> int:
    """Bytes that can still be written below `path`, which need not exist yet."""
    return shutil.disk_usage(_existing(path)).free


def is_in_use(directory: Path) -> bool:
    """Whether a process of this machine was started with the interpreter of an environment in the directory."""
    prefix = f"{directory}/".encode()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command.read_bytes().startswith(prefix):
                return True
        except OSError:
            continue
    return False


def same_filesystem(one: Path, other: Path) -> bool:
    """Whether two directories, which need not exist yet, share their free space."""
    return _existing(one).stat().st_dev == _existing(other).stat().st_dev


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _smi(query: str, environ: Mapping[str, str]) -> str:
    """What nvidia-smi answers; empty when it is not there or does not work."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return ""
    arguments = [program, f"--query-gpu={query}", "--format=csv,noheader"]
    asked = process.capture(arguments, cwd=Path("/"), env=environ, timeout_s=30.0)
    return asked.stdout if asked.returncode == 0 else ""


def parse_gpus(text: str) -> tuple[backend.Gpu, ...]:
    """Read `nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader`."""
    found = (re.match(r"(?P<name>.+),\s*(?P<major>\d+)\.(?P<minor>\d+)\s*\Z", line) for line in text.splitlines())
    return tuple(
        backend.Gpu(name=match["name"].strip(), capability=(int(match["major"]), int(match["minor"])))
        for match in found
        if match
    )
