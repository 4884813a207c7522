"""What a cluster wants to be told of a job: a small TOML file, and the job's parameters from it. Pure."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST = {"time_min": 1, "pending_min": 0, "gpus": 0, "cpus": 1, "grace_s": 0}
"""The least that each number may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The file's keys.

    Attributes:
        partition: where jobs go; empty for the default.
        account: who pays; empty for the default.
        time_min: time limit of a job in minutes.
        pending_min: minutes that all jobs may wait in the queue, none of them starting, before it is given up.
        gpus: GPUs of a job.
        cpus: CPUs of a job.
        exclude: nodes that get no job.
        setup: shell lines run before the job (module loads).
        extra: further `#SBATCH` options by name (container options of a plugin); true for one without a value.
        store: directory on a node's own disk where the node builds what it runs; empty: built once, shared.
        grace_s: seconds a job may be gone from the queue before its record is given up: shared file systems show
            files late.
    """

    partition: str = ""
    account: str = ""
    time_min: int = 60
    pending_min: int = 1440
    gpus: int = 0
    cpus: int = 1
    exclude: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    extra: tuple[tuple[str, str | int | bool], ...] = ()
    store: str = ""
    grace_s: int = 30


def load_profile(text: str, *, origin: str) -> Profile:
    """Read a profile; UsageError names the key that is unknown or of another type."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is not TOML: {error}") from error
    defaults = {item.name: getattr(Profile(), item.name) for item in dataclasses.fields(Profile)}
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in defaults:
            raise UsageError(f"{origin}: unknown key {key!r}", hint=f"the keys are: {', '.join(defaults)}")
        wanted = {"extra": dict, "exclude": list, "setup": list}.get(key, type(defaults[key]))
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(f"{origin}: {key} must be a {wanted.__name__}, not {value!r}")
        if isinstance(value, int) and value < LEAST[key]:
            raise UsageError(f"{origin}: {key} must be at least {LEAST[key]}, not {value}")
        if key == "store" and not str(value).startswith("/"):
            raise UsageError(f"{origin}: store must be an absolute path on the nodes, not {value!r}")
        values[key] = tuple(sorted(value.items())) if isinstance(value, dict) else value
        values[key] = tuple(value) if isinstance(value, list) else values[key]
    return Profile(**values)  # type: ignore[arg-type]  # checked against the defaults' types above


def job_parameters(
    profile: Profile, *, name: str, root: str, avoid: Iterable[str], exclusive: bool
) -> dict[str, object]:
    """What submitit writes into the job's script. `root`: this repository, from which the job is run."""
    extra = {option: value for option, value in profile.extra if value is not False}
    extra |= {"account": profile.account} if profile.account else {}
    excluded = [*profile.exclude, *avoid]
    return {
        "job_name": name,
        "time": profile.time_min,
        "cpus_per_task": profile.cpus,
        "setup": [f"export PYTHONPATH={root}", "unset PYTHONSAFEPATH", *profile.setup],
        "additional_parameters": extra,
        "use_srun": False,
        **({"partition": profile.partition} if profile.partition else {}),
        **({"gpus_per_node": profile.gpus} if profile.gpus else {}),
        **({"exclude": ",".join(dict.fromkeys(excluded))} if excluded else {}),
        **({"exclusive": True} if exclusive else {}),
    }
