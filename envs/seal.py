"""Which of the promises of a sealed run an engine keeps, from what a container of it says of itself. Pure.

An engine may accept a field and ignore it: podman drops GPU requests, and without its own control group it can hold
nothing to a limit. Nothing of that may look like a sealed run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .sandbox import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A promise that is not kept; `outcome` is set when no run may be believed without it."""

    what: str
    outcome: str = ""


def broken(facts: Mapping[str, Any], limits: Limits, *, gpus: str, user: int, owner: int) -> tuple[Broken, ...]:
    """Everything that was asked for and is not so.

    Args:
        facts: what `inside/seal.py` answered.
        limits: what was asked.
        gpus: what was asked, as in `sandbox.Sandbox`.
        user: id of the user who runs this tool.
        owner: id of the owner of a file that the container wrote.
    """
    return (*_fatal(facts, gpus, user, owner), *_limits(facts, limits))


def _fatal(facts: Mapping[str, Any], gpus: str, user: int, owner: int) -> Iterator[Broken]:
    if facts["interfaces"]:
        yield Broken(what=f"no network (there is {', '.join(facts['interfaces'])})", outcome="harness_error(engine)")
    if not facts["root_read_only"]:
        yield Broken(what="a read-only root", outcome="harness_error(engine)")
    if facts["pid"] == 1:
        yield Broken(what="an init (a crash of process 1 may exit with 0)", outcome="harness_error(engine)")
    if gpus and not facts["gpus"]:
        yield Broken(what="GPUs (none is inside)", outcome="no_gpu")
    if owner != user:
        yield Broken(what=f"files owned by the user (they belong to {owner})", outcome="harness_error(engine)")


def _limits(facts: Mapping[str, Any], limits: Limits) -> Iterator[Broken]:
    if facts["capabilities"]:
        yield Broken(what="no capabilities")
    if not facts["no_new_privileges"]:
        yield Broken(what="no new privileges")
    if facts["core_bytes"]:
        yield Broken(what="no core dumps")
    for name, asked in (("memory_bytes", limits.memory_bytes), ("num_processes", limits.num_processes)):
        held = facts[name]
        word = name.partition("_")[0] if name == "memory_bytes" else "process"
        if asked and held is None:
            yield Broken(what=f"the {word} limit (it cannot be read inside)")
        elif asked and not 0 < held <= asked:
            yield Broken(what=f"the {word} limit")
    if not facts["memory_kill_told"]:
        yield Broken(what="saying that a kill was for memory (any 137 may be one)")
    if abs(facts["shm_bytes"] - limits.shm_bytes) > limits.shm_bytes // 100:
        yield Broken(what=f"the size of /dev/shm (it has {facts['shm_bytes'] >> 20} MiB)")
