"""What a command that makes runs in one environment is about to do: is it built, its size, the runs, the time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING

from envs import machine
from envs.outlook import entry_of, rehearse_build

from .builds import changed_since
from .commands.search_options import RUN_S
from .plan import BUILD_S, BYTES_S
from .probe import RunKind

if TYPE_CHECKING:
    from envs.room import Estimate
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
    image: str = ""
    changed: str = ""

    def lines(self) -> list[str]:
        """The plan for a person."""
        size = "built already" if self.built else "to be built, size unknown"
        if not self.built and self.disk_bytes is not None:
            download = f"{(self.download_bytes or 0) / 1e9:.1f} GB to download"
            size = f"to be built: at most {download}, about {self.disk_bytes / 1e9:.1f} GB of disk"
        image = f"{size}; {self.image}" if self.image else size
        found = [f"plan: {self.environment} is {image}", f"      {self.runs} runs, about {self.seconds / 60:.0f} min"]
        if (self.disk_bytes or 0) > self.free_bytes:
            found.append(
                f"      warning: {self.free_bytes / 1e9:.1f} GB are free: give another --store, or prune first"
            )
        if self.changed:
            found.append(
                f"      warning: it was changed after it was built, so this would be no answer about it: {self.changed}"
            )
        return found


def show_plan(
    definition: Definition,
    settings: Settings,
    *,
    num_runs: int,
    as_json: bool,
    stdout: IO[str],
    needs_compiler: bool = False,
    builds_here: bool = True,
) -> int:
    """Print the plan; exit code 0. Builds nothing, and raises what the build would, as far as that can be known."""
    plan = make_plan(definition, settings, num_runs=num_runs, needs_compiler=needs_compiler, builds_here=builds_here)
    text = json.dumps({"schema": 1, "kind": "plan", **asdict(plan)}, indent=1) if as_json else "\n".join(plan.lines())
    print(text, file=stdout)
    return 0


def make_plan(
    definition: Definition, settings: Settings, *, num_runs: int, needs_compiler: bool = False, builds_here: bool = True
) -> RunPlan:
    """Ask the store, the lock and the index; of an environment that nodes build for themselves nothing is known."""
    entry = entry_of(definition, settings) if builds_here else None
    built = entry is not None
    changed = changed_since(entry.name, entry.digest, settings.store) if entry else None
    needs = None
    if builds_here and not built and not definition.as_it_is:  # what an image holds is known only once it is there
        needs = rehearse_build(definition, settings, require_compiler=needs_compiler)
    download, disk = (0, 0) if built else _sizes(needs)
    building = 0.0 if built else BUILD_S + (download or 0) / BYTES_S
    return RunPlan(
        environment=definition.name,
        built=built,
        download_bytes=download,
        disk_bytes=disk,
        free_bytes=machine.free_bytes(settings.store),
        runs=num_runs,
        seconds=building + num_runs * RUN_S[RunKind.TRAIN],
        image=needs.image_told if needs else "",
        changed=changed.what if changed else "",
    )


def _sizes(needs: Estimate | None) -> tuple[int | None, int | None]:
    return (None, None) if needs is None else (needs.download_bytes, needs.disk_bytes)
