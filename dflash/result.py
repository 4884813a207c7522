"""The result file: the only thing that leaves a run, rewritten whole and atomically at every phase.

A run that is killed therefore leaves its last phase behind, with `finished` false. `tests/golden/train.json` pins the
keys. Holds no torch, so the first one is on disk before torch is imported.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .config import TrainConfig

SCHEMA = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asked for."""

    argv: tuple[str, ...]
    output: Path
    progress: Path | None
    profile: str
    workaround: str
    amplify: bool
    force: str
    imports: tuple[str, ...]


class WorkerRecord(Protocol):
    """What is read of a worker thread."""

    name: str
    role: str
    device: str
    steps: int
    completed: bool
    phase: str
    losses: list[float]
    accuracies: list[float]
    acceptances: list[float]
    step_times_s: list[float]
    step_tokens: list[int]
    step_anchors: list[int]
    step_compiles: list[int]
    tokens: int
    queue_wait_s: float
    lock_wait_s: float
    average_wait_s: float
    failures: list[Any]


class ResultFile:
    """The document of one run. `update` and `write` may be called by any thread."""

    def __init__(self, request: Request, config: TrainConfig, *, clock: float) -> None:
        self._path = request.output
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._document = initial_document(request, config, started_at=clock)

    def configure(self, profile: str, config: TrainConfig) -> None:
        """Set the profile and configuration that will run, once the machine is known."""
        with self._lock:
            self._document |= {"profile": profile, "config": dataclasses.asdict(config)}

    def write(self, phase: str, **parts: Any) -> None:
        """Set top-level parts and put the whole document on disk."""
        with self._lock:
            self._document |= {"phase": phase, "wall_s": time.monotonic() - self._started, **parts}
            write_atomically(self._path, json.dumps(plain(self._document), indent=1))


def initial_document(request: Request, config: TrainConfig, *, started_at: float) -> dict[str, Any]:
    """The document before anything is known; every key of the contract is there."""
    return {
        "schema": SCHEMA,
        "kind": "train",
        "finished": False,
        "phase": "starting",
        "started_at": started_at,
        "wall_s": 0.0,
        "argv": list(request.argv),
        "profile": request.profile,
        "amplified": request.amplify,
        "workaround": {"name": request.workaround, "safe_argument": "", "closes": [], "applied": []},
        "force": request.force,
        "config": dataclasses.asdict(config),
        "environment": None,
        "threads": [],
        "replicas": None,
        "process": None,
        "throughput": None,
        "hang": None,
        "error": None,
    }


def thread_document(worker: WorkerRecord) -> dict[str, Any]:
    """One worker as the file spells it."""
    names = (
        "name role device steps completed phase losses accuracies acceptances step_times_s step_tokens step_anchors "
        "step_compiles tokens queue_wait_s lock_wait_s average_wait_s"
    )
    document = {name: getattr(worker, name) for name in names.split()}
    return document | {"exceptions": [dataclasses.asdict(failure) for failure in worker.failures]}


def error_document(error: Exception) -> dict[str, str]:
    """An exception of the main thread, which ended the run before its threads could report."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def replicas_document(workers: Sequence[WorkerRecord], group_sizes: Sequence[int]) -> dict[str, Any]:
    """Which replicas finished, and how many met at each averaging."""
    drafters = [worker for worker in workers if worker.role == "drafter"]
    return {
        "finished": [worker.name for worker in drafters if worker.completed],
        "dead": [worker.name for worker in drafters if worker.failures],
        "averages": len(group_sizes),
        "smallest_group": min(group_sizes, default=0),
    }


def plain(value: Any) -> Any:
    """The value as JSON can hold it: a float that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content at once: a reader sees the old or the new document, never half of one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


class Progress:
    """A JSON-lines file appended as steps finish: the parent's heartbeat, and the last step after a segfault."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", buffering=1) if path else None
        self._lock = threading.Lock()

    def note(self, *, phase: str, thread: str, step: int, steps: int) -> None:
        """Append one line and hand it to the system at once."""
        if self._file is None:
            return
        line = json.dumps({"t": time.time(), "phase": phase, "thread": thread, "step": step, "steps": steps})
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        """No more lines will come."""
        if self._file is not None:
            self._file.close()
