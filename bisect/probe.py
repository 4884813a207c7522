"""One run in one built environment: stage the workload, scrub the child, run it, keep the evidence.

Knows how to start `dflash`, `dflash.hazards` or a person's own command inside an environment and where to put what
came out of it. It does not judge: whether a run was good is `bisect.classify`'s business.

A run directory holds everything needed to believe the run or to repeat it: `record.json` (argv, variables, digest
of the staged code), `staged/` (the code that ran), `lock.toml`, `log.txt`, `result.json`, `progress.jsonl`.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envs import machine, scrub
from envs.errors import CannotRunError

from .again import SCRIPT, script_again
from .files import write_atomically
from .heartbeat import Heartbeat
from .log_limit import LIMIT_BYTES, LogLimit
from .record_file import NAME, record_in
from .redaction import without_credentials, without_secrets
from .workload import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from envs.place import Place

SCHEMA = 1
CHUNK = 1 << 20


class EvidenceGoneError(CannotRunError):
    """What a run left was removed before it could be judged."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"the run removed its own directory or log, {directory}: nothing shows what it did",
            hint="let the command leave alone what lies above its HOME",
        )


class RunKind(StrEnum):
    """What is run inside the environment."""

    TRAIN = "train"
    HAZARDS = "hazards"
    COMMAND = "command"


class Environment(Protocol):
    """What a run needs to know of a built environment; `envs.build.Built` is one."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def python(self) -> Path: ...
    @property
    def environment(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def place(self) -> Place: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run, the same for every candidate of a search.

    Attributes:
        kind: the workload, its hazards, or a person's command.
        arguments: given to the workload after its own `--output` and `--progress`.
        environment: variables added to the scrubbed environment of the child, after those of its definition.
        unset: variables that the child does not take over from the surroundings, where it would.
        timeout_s: seconds without a sign of life (a line in the progress file) after which the run is ended; for
            hazards and commands, which give none, seconds from the start.
        command: argv of a `COMMAND` run; the environment's Python is first on its PATH.
        signature: regular expression whose match in the output means bad (COMMAND only); empty: the exit code decides.
        cwd: where a command runs; the run directory itself when empty.
        cache: compile caches copied into the run before it starts (a warm start); none: a cold one.
    """

    kind: RunKind
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()
    timeout_s: float = 300.0
    command: tuple[str, ...] = ()
    signature: str = ""
    cwd: str = ""
    cache: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What one run left behind. `result_path` may not exist: a crashed run writes none.

    `cut`: why the run was ended for its log, see `log_limit`; empty for every other end.
    """

    directory: Path
    returncode: int
    timed_out: bool
    seconds: float
    result_path: Path
    log_path: Path
    node: str = ""
    last_progress: Mapping[str, object] = field(default_factory=dict)
    cut: str = ""

    def log(self) -> str:
        """The child's whole output."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def chunks(self) -> Iterator[str]:
        """The same in pieces, for a log of any size."""
        with self.log_path.open(encoding="utf-8", errors="replace", newline="") as log:
            while chunk := log.read(CHUNK):
                yield chunk

    def last_lines(self, number: int) -> tuple[str, ...]:
        """The last lines of it that say something, read from its end."""
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - CHUNK))
            lines = log.read().decode(errors="replace").splitlines()
        return tuple(line for line in lines if line.strip())[-number:]


def run_once(
    built: Environment,
    request: RunRequest,
    directory: Path,
    *,
    on_progress: Callable[[Mapping[str, object]], None] | None = None,
    stop: threading.Event | None = None,
    log_bytes: int = LIMIT_BYTES,
) -> RunRecord:
    """Run the request once in a fresh `directory`; what the child did, never an exception for it.

    A run that is ended because `stop` was set has not ended in the record's sense: KeyboardInterrupt. EvidenceGoneError
    where the child removed the directory or its log. `log_bytes`: a run that writes more is ended.
    """
    directory.mkdir(parents=True)
    digest = "" if request.kind is RunKind.COMMAND else stage(directory / "staged")
    caches = directory / "caches"
    if request.cache is not None:
        shutil.copytree(request.cache, caches)
    argv = _argv(built, request, directory)
    variables = _variables(built, request, directory)
    _keep_lock(built, directory)
    here, cwd = directory.resolve(), _cwd(request, directory).resolve()
    readable = (built.path, here / "staged", cwd)
    record = _record(built, request, argv=argv, code=digest, variables=variables)
    _write_record(directory, record)
    stop = stop or threading.Event()
    heartbeat = Heartbeat(
        path=directory / "progress.jsonl", report=on_progress, patience_s=request.timeout_s, stop=stop
    )
    log = LogLimit(path=directory / "log.txt", limit_bytes=log_bytes)
    try:
        completed = built.place.run(
            argv,
            cwd=cwd,
            env=variables,
            writable=(here,),
            readable=readable,
            output=here / "log.txt",
            watch=lambda elapsed_s: heartbeat.is_dead(elapsed_s) or log.is_passed(),
            warn_signal=signal.SIGABRT if request.kind is RunKind.TRAIN else signal.SIGTERM,
        )
    finally:
        machine.end_strays(directory.resolve() / "home")
    if stop.is_set():
        raise KeyboardInterrupt
    if not (directory / "log.txt").exists():
        raise EvidenceGoneError(directory)
    heartbeat.beat()
    ended = {
        "returncode": completed.returncode,
        "timed_out": completed.timed_out and not log.why,
        "cut": log.why,
        "seconds": round(completed.seconds, 3),
        "last_progress": heartbeat.last,
    }
    sealed = built.place.sealed(argv, cwd=cwd, env=variables, writable=(here,), readable=readable)
    if sealed is not None:  # written after the run, which may write here too: it is started outside of the container
        write_atomically(directory / SCRIPT, script_again(sealed, here, cache=request.cache))
    _write_record(directory, {**record, "ended": ended})
    return RunRecord(
        directory=directory,
        returncode=completed.returncode,
        timed_out=completed.timed_out and not log.why,
        seconds=completed.seconds,
        result_path=directory / "result.json",
        log_path=directory / "log.txt",
        node=str(record["node"]),
        last_progress=heartbeat.last,
        cut=log.why,
    )


def load_record(directory: Path) -> RunRecord | None:
    """The record of a run that ended, read back from its directory; None when it never ended."""
    record = record_in(directory) or {}
    ended = record.get("ended")
    if ended is None:
        return None
    return RunRecord(
        directory=directory,
        returncode=ended["returncode"],
        timed_out=ended["timed_out"],
        seconds=ended["seconds"],
        result_path=directory / "result.json",
        log_path=directory / "log.txt",
        node=record.get("node", ""),
        last_progress=ended["last_progress"],
        cut=ended.get("cut", ""),
    )


def _argv(built: Environment, request: RunRequest, directory: Path) -> tuple[str, ...]:
    python, result = str(built.python), str(directory.resolve() / "result.json")
    match request.kind:
        case RunKind.COMMAND:
            return request.command
        case RunKind.HAZARDS:
            return (python, "-m", "dflash.hazards", "--output", result, *request.arguments)
        case RunKind.TRAIN:
            progress = str(directory.resolve() / "progress.jsonl")
            return (python, "-m", "dflash", "--output", result, "--progress", progress, *request.arguments)


def _variables(built: Environment, request: RunRequest, directory: Path) -> dict[str, str]:
    """The scrubbed environment; a workload is found through its cwd, which a safe path would hide."""
    variables = scrub.child_environment(
        os.environ,
        python=built.python,
        home=directory.resolve() / "home",
        caches=directory.resolve() / "caches",
        without=request.unset,
        extra=(*built.environment, *request.environment),
    )
    if request.kind is not RunKind.COMMAND:
        variables.pop("PYTHONSAFEPATH", None)
    return variables


def _cwd(request: RunRequest, directory: Path) -> Path:
    if request.kind is not RunKind.COMMAND:
        return directory / "staged"
    return Path(request.cwd) if request.cwd else directory


def _keep_lock(built: Environment, directory: Path) -> None:
    for lock in sorted(built.path.glob("pylock*.toml")):
        shutil.copy(lock, directory / "lock.toml")


def _record(
    built: Environment, request: RunRequest, *, argv: tuple[str, ...], code: str, variables: Mapping[str, str]
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "kind": request.kind.value,
        "node": os.environ.get("SLURMD_NODENAME") or platform.node(),
        "environment": built.name,
        "digest": built.digest,
        "engine": built.place.engine_name,
        "not_kept": built.place.shortcomings(),
        "image": built.place.image,
        "image_digests": list(built.place.digests),
        "argv": [without_credentials(word) for word in argv],
        "timeout_s": request.timeout_s,
        "signature": request.signature,
        "code_sha256": code,
        "variables": without_secrets(variables),
        "scrubbed": scrub.dropped(os.environ, variables),
    }


def _write_record(directory: Path, record: Mapping[str, object]) -> None:
    write_atomically(directory / NAME, json.dumps(record, indent=1) + "\n")
