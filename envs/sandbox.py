"""A sealed container, decided: what is asked of the engine, and what its answers mean.

Calls no engine. A run is sealed by default: no network, read-only root, no capabilities, no new privileges, its
own init (without one, PID 1 ignores a signal it sends itself and a segfault would exit 0), limits on memory,
processes and shared memory, and exactly the mounts that are named. Paths are the same inside and outside, so that
argv, variables and evidence mean the same in both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LABEL = "torch-upgrade-bisect"
DRIVER_LABEL = f"{LABEL}.driver"
STORE_LABEL = f"{LABEL}.store"
GIB = 2**30
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOADED = re.compile(r"Loaded image(?: ID|\(s\))?: (\S+?),?$", re.MULTILINE)
ABORT_PROGRAM = "for pid in $(cat /proc/1/task/1/children); do kill -ABRT $pid; done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image as an engine holds it.

    Attributes:
        id: sha256 of its configuration; two images with one id hold the same bytes.
        digests: what registries call it, `name@sha256:...`; empty when it came from none.
        variables: what it sets for every process in it.
    """

    id: str
    digests: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """Where its programs are."""
        return dict(self.variables).get("PATH") or SYSTEM_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory or file of the host at the same path inside."""

    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a container may use; `memory_bytes` 0 means no limit. The deadline ends it even if this tool is gone.

    `num_files` and `num_tasks` are rlimits, 0 for the engine's own; those may lie above what its user may set.
    """

    memory_bytes: int = 0
    shm_bytes: int = 2 * GIB
    num_processes: int = 4096
    num_files: int = 0
    num_tasks: int = 0
    deadline_s: float = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """One container to run.

    Attributes:
        image: image reference or id.
        argv: program and arguments.
        cwd: working directory inside.
        environment: the whole environment of the program.
        mounts: what it sees of the host.
        output: file, below a writable mount, that gets stdout and stderr; empty for none.
        user: `uid:gid` that owns what it writes.
        network: the host's network (building) or none at all (running).
        gpus: `all`, device ids joined by commas, or empty for none.
        limits: see `Limits`.
        owner: the store this container belongs to, so that pruning one store leaves another's containers alone.
        driver: the process it belongs to, so that pruning leaves a run alone whose driver lives.
    """

    image: str
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    output: str = ""
    user: str = "0:0"
    network: bool = False
    gpus: str = ""
    limits: Limits = field(default_factory=Limits)
    owner: str = ""
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a container ended; `note` is one line for the log when the exit code alone would mislead."""

    returncode: int
    out_of_memory: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the engine did not run it: an outcome as `bisect.model` spells it, and what to do."""

    outcome: str
    message: str
    hint: str
    machine: bool = True


def create_body(sandbox: Sandbox) -> dict[str, Any]:
    """The body of the engine API's `POST /containers/create` (Docker Engine API 1.40 and newer)."""
    limits = sandbox.limits
    host: dict[str, Any] = {
        "Init": True,
        "AutoRemove": False,
        "ReadonlyRootfs": True,
        "NetworkMode": "host" if sandbox.network else "none",
        "CapDrop": ["ALL"],
        "CapAdd": ["DAC_OVERRIDE", "FOWNER", "CHOWN"] if sandbox.network else [],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": limits.num_processes,
        "ShmSize": limits.shm_bytes,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value}
            for name, value in (("core", 0), ("nofile", limits.num_files), ("nproc", limits.num_tasks))
            if name == "core" or value
        ],
        "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},  # noqa: S108  (inside the container)
        "Mounts": [
            {"Type": "bind", "Source": mount.path, "Target": mount.path, "ReadOnly": mount.read_only}
            for mount in sandbox.mounts
        ],
    }
    if sandbox.gpus:
        host["DeviceRequests"] = [_device_request(sandbox.gpus)]
    return {
        "Image": sandbox.image,
        "Cmd": list(_command(sandbox)),
        "Entrypoint": [],
        "Env": [f"{name}={value}" for name, value in sorted(sandbox.environment.items())],
        "WorkingDir": sandbox.cwd,
        "User": sandbox.user,
        "Labels": {LABEL: sandbox.owner or "any", DRIVER_LABEL: sandbox.driver},
        "HostConfig": host,
    }


def image_of(inspected: Mapping[str, Any]) -> Image:
    """Read the engine's `GET /images/NAME/json`."""
    pairs = (line.partition("=") for line in (inspected.get("Config") or {}).get("Env") or ())
    return Image(
        id=str(inspected["Id"]),
        digests=tuple(sorted(inspected.get("RepoDigests") or ())),
        variables=tuple((name, value) for name, _, value in pairs),
    )


def engine_name(headers: Mapping[str, str]) -> str:
    """`docker 28.2.2` or `podman 4.3.1`, from the headers of a ping."""
    match = re.match(r"(\w+)/(\S+)", headers.get("Server", ""))
    kind = match[1].lower() if match else "engine"
    return f"{'podman' if kind == 'libpod' else kind} {match[2] if match else '?'}"


def loaded_names(told: str) -> tuple[str, ...]:
    """What `POST /images/load` says it loaded: a name for an image that has one, else its id."""
    return tuple(dict.fromkeys(_LOADED.findall(told)))


LITTLE_SHM_BYTES = 1 << 30
"""Below this a bus error is put down to shared memory; above it, nothing says that it was not the build's own."""


def ending(state: Mapping[str, Any], limits: Limits) -> Ending:
    """Read the engine's `State` of an exited container."""
    code = int(state.get("ExitCode", 0))
    if state.get("OOMKilled"):
        return Ending(
            returncode=137,
            out_of_memory=True,
            note="container: killed by its memory limit (OOMKilled), out of host memory",
        )
    if code == 137:
        return Ending(
            returncode=code,
            note="container: killed with SIGKILL; the engine does not say that a memory limit was reached",
        )
    if code == 135:
        size = f"{limits.shm_bytes >> 20} MiB of /dev/shm"
        why = "most often insufficient shared memory: " if limits.shm_bytes < LITTLE_SHM_BYTES else ""
        return Ending(returncode=code, note=f"container: bus error, {why}it had {size}")
    if code == 0 and state.get("Error"):
        return Ending(returncode=125, note=f"container: {state['Error']}")
    return Ending(returncode=code)


_REFUSALS: tuple[tuple[str, str, str, bool], ...] = (
    # pattern, outcome, hint, whether it is this machine's fault (exit 6) rather than the environment's (exit 5)
    (r"container-init binary not found", "harness_error(engine)", "install catatonit, podman's init", True),
    (
        r"setting rlimit",
        "harness_error(engine)",
        "the engine may not raise its own limits: give its service a higher `ulimit -n` and `ulimit -u`",
        True,
    ),
    (
        r"could not select device driver|nvidia-container-runtime.*not found|unknown runtime.*nvidia",
        "no_gpu",
        "install the NVIDIA container toolkit and restart the engine, or run without a GPU profile",
        True,
    ),
    (
        r"unsatisfied condition: cuda|driver version is insufficient|nvidia-container-cli: requirement error",
        "driver_too_old",
        "update the driver, or choose a build of an older CUDA; NVIDIA_DISABLE_REQUIRE only hides the check",
        True,
    ),
    (r"nvidia-container-cli|nvidia-smi|no such device", "no_gpu", "check the driver with nvidia-smi on the host", True),
    (r"no space left on device", "disk_full", "free space where the engine keeps its data, or prune", True),
    (
        r"no such image|pull access denied|manifest unknown|not found: manifest|repository .* not found",
        "not_published",
        "make one with `python -m envs base-image`, or load the image into the engine",
        False,
    ),
    (r"shm|shared memory", "harness_error(shm)", "choose another size with ENVS_SHM_SIZE", True),
    (r"permission denied", "harness_error(engine)", "may this user talk to the engine?", True),
)


def refusal(message: str) -> Refusal:
    """What an engine's error message means."""
    for pattern, outcome, hint, machine in _REFUSALS:
        if re.search(pattern, message, re.IGNORECASE):
            return Refusal(outcome=outcome, message=message, hint=hint, machine=machine)
    return Refusal(
        outcome="harness_error(engine)", message=message, hint="the engine refused it; see its own log", machine=True
    )


# The program replaces the shell, so signals that the init forwards reach it (SIGABRT makes faulthandler dump stacks);
# beside it a sleeper ends it at the deadline even when this tool is gone. The program writes its output by itself.
_SHELL = (
    'out="$1"; limit="$2"; shift 2; '
    '(sleep "$limit"; kill -TERM "$$"; sleep 10; kill -KILL "$$") >/dev/null 2>&1 & '
    'exec "$@" >>"$out" 2>&1'
)


def _command(sandbox: Sandbox) -> tuple[str, ...]:
    output = sandbox.output or "/dev/null"
    return ("sh", "-c", _SHELL, "sh", output, f"{sandbox.limits.deadline_s:.0f}", *sandbox.argv)


def _device_request(gpus: str) -> dict[str, Any]:
    if gpus == "all":
        return {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}
    return {"Driver": "", "DeviceIDs": gpus.split(","), "Capabilities": [["gpu"]]}
