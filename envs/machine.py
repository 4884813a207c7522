"""What this machine is: driver, GPUs, C library, compiler, free disk. Asks; decides nothing."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import backend, process
from .errors import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    return any(command.startswith(prefix) for _, command in _commands())


def end_orphans(directory: Path, *, patience_s: float = 30.0) -> None:
    """End what a killed process of this tool left working in a directory: its children lead sessions of their own.

    They are asked first, and clear up behind themselves; whoever has not ended after `patience_s` is killed.
    """
    leaders = [pid for pid, command in _commands() if os.fsencode(directory) in command and _leads(pid)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in leaders:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        deadline = time.monotonic() + patience_s
        while leaders and time.monotonic() < deadline:
            leaders = [pid for pid in leaders if process_name(pid)]
            time.sleep(0.05)
        if not leaders:
            return


def end_strays(home: Path) -> None:
    """End what a run left behind that led a session of its own: every process whose HOME is that of the run.

    As far as Linux lets it: one that gave itself another HOME, or another user, lives on.
    """
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(int(environ.parent.name))  # the id of one that ends may be another's at once
            try:
                if mark in b"\0" + environ.read_bytes() + b"\0":
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _commands() -> Iterator[tuple[int, bytes]]:
    """Every process of this machine with its command line."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield int(command.parent.name), command.read_bytes()


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def process_name(pid: int) -> str:
    """A name for a process that no later one has: machine, boot, id and start time; empty when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else f"{platform.node()} {boot} {pid} {fields[19]}"


def may_live(name: str) -> bool:
    """Whether the process of a `process_name` may be running; of one on another machine it is not known."""
    node, _, rest = name.partition(" ")
    if not rest or node != platform.node():
        return bool(rest)
    return process_name(int(rest.split()[1])) == name


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
