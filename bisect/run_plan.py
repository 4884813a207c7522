"""What a command that makes runs in one environment is about to do: is it built, its size, the runs, the time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING

from envs import machine
from envs.build import estimate, is_built
from envs.errors import ToolError
from envs.resolve import lock_for, pinned

from .commands.search_options import RUN_S
from .plan import BUILD_S, BYTES_S
from .probe import RunKind

if TYPE_CHECKING:
    from envs.settings import Settings
    from envs.spec import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Runs in one environment; sizes are 0 where it is built already, None where nothing says them."""

    environment: str
    built: bool
    download_bytes: int | None
    disk_bytes: int | None
    free_bytes: int
    runs: int
    seconds: float

    def lines(self) -> list[str]:
        """The plan for a person."""
        size = "built already" if self.built else "to be built, size unknown"
        if not self.built and self.disk_bytes is not None:
            download = f"{(self.download_bytes or 0) / 1e9:.1f} GB to download"
            size = f"to be built: at most {download}, about {self.disk_bytes / 1e9:.1f} GB of disk"
        found = [f"plan: {self.environment} is {size}", f"      {self.runs} runs, about {self.seconds / 60:.0f} min"]
        if (self.disk_bytes or 0) > self.free_bytes:
            found.append(
                f"      warning: {self.free_bytes / 1e9:.1f} GB are free: give another --store, or prune first"
            )
        return found


def show_plan(definition: Definition, settings: Settings, *, num_runs: int, as_json: bool, stdout: IO[str]) -> int:
    """Print the plan; exit code 0. Builds nothing."""
    plan = make_plan(definition, settings, num_runs=num_runs)
    text = json.dumps({"schema": 1, "kind": "plan", **asdict(plan)}, indent=1) if as_json else "\n".join(plan.lines())
    print(text, file=stdout)
    return 0


def make_plan(definition: Definition, settings: Settings, *, num_runs: int) -> RunPlan:
    """Ask the store and the lock."""
    built = is_built(definition, settings)
    download, disk = (0, 0) if built else _sizes(definition, settings)
    building = 0.0 if built else BUILD_S + (download or 0) / BYTES_S
    return RunPlan(
        environment=definition.name,
        built=built,
        download_bytes=download,
        disk_bytes=disk,
        free_bytes=machine.free_bytes(settings.store),
        runs=num_runs,
        seconds=building + num_runs * RUN_S[RunKind.TRAIN],
    )


def _sizes(definition: Definition, settings: Settings) -> tuple[int | None, int | None]:
    if definition.as_it_is:  # what an image holds is known only once it is there
        return None, None
    try:
        found = estimate(lock_for(pinned(definition, settings), settings), settings)
    except ToolError:
        return None, None
    return found.download_bytes, found.disk_bytes
