"""The engine's own command line for a sealed container: what a person pastes to run it once more, sealed alike.

Pure, and the counterpart of `sandbox.create_body`: the same seal, mounts and limits, as options of `docker run`, which
podman takes too. What only this tool needs is left out: the output file, the deadline and the labels, by which a prune
would take a person's container for one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from .sandbox import Limits, Mount, Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A container as it is run, and the words that begin a client's command line for its engine."""

    client: tuple[str, ...]
    box: Sandbox


def run_line(sealed: Sealed, *, hidden: Container[str] = ()) -> tuple[str, ...]:
    """`docker run ...` for a container without a network.

    Args:
        sealed: the container.
        hidden: variables whose values nobody may write down: the shell that the line is pasted into supplies them.
    """
    box, limits, variables = sealed.box, sealed.box.limits, sorted(sealed.box.environment.items())
    options = [
        *("--rm", "--init", "--read-only", "--network", "none", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--pids-limit", str(limits.num_processes)),
        *("--shm-size", str(limits.shm_bytes), "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777"),  # noqa: S108
        *_memory(limits.memory_bytes),
        *_ulimits(limits),
        *(["--gpus", box.gpus if box.gpus == "all" else f'"device={box.gpus}"'] if box.gpus else []),
        *("--user", box.user, "--workdir", box.cwd),
        *(word for mount in box.mounts for word in ("--mount", _mount(mount))),
        *(word for name, value in variables for word in ("--env", name if name in hidden else f"{name}={value}")),
    ]
    return (*sealed.client, "run", *options, "--entrypoint", "", box.image, *box.argv)


def client_of(engine_name: str, address: str) -> tuple[str, ...]:
    """The client's program and the engine it is to ask: `docker --host unix:///var/run/docker.sock`."""
    if engine_name.startswith("podman"):
        return ("podman", "--url", address)
    return ("docker", "--host", address)


def _memory(size: int) -> tuple[str, ...]:
    return ("--memory", str(size), "--memory-swap", str(size)) if size else ()


def _ulimits(limits: Limits) -> tuple[str, ...]:
    given = (("core", 0), ("nofile", limits.num_files), ("nproc", limits.num_tasks))
    return tuple(
        word for name, value in given if name == "core" or value for word in ("--ulimit", f"{name}={value}:{value}")
    )


def _mount(mount: Mount) -> str:
    """Fields of a line of CSV, which a path with a comma or a quote would end."""
    fields = ["type=bind", f"source={mount.path}", f"target={mount.path}", *(["readonly"] if mount.read_only else [])]
    return ",".join(_quoted(field) if set(field) & set(',"\n') else field for field in fields)


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'
