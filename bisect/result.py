"""What the benchmark and the hazard probes wrote: their result files, read into frozen records.

The file is the whole interface between `dflash` and `bisect` (`tests/golden/train.json`, `hazards.json`). A run that
was killed leaves `finished: false` and the phase it died in; what it had not measured is absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003  (decode reads the hints at run time)
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another thread at a moment; `tracing` when its stack was inside an FX trace."""

    thread: str
    phase: str = ""
    step: int | None = None
    tracing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One exception of one thread, with the state of the FX flag when it was caught."""

    type: str
    message: str
    traceback: str = ""
    step: int | None = None
    phase: str = ""
    at_s: float = math.nan
    fx_flag: bool | None = None
    is_compiling: bool | None = None
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRecord:
    """One worker thread; `role` is `drafter` (the ones that compile) or `target`."""

    name: str
    role: str
    device: str = ""
    steps: int = 0
    completed: bool = False
    losses: tuple[float, ...] = ()
    step_times_s: tuple[float, ...] = ()
    step_tokens: tuple[int, ...] = ()
    step_anchors: tuple[int, ...] = ()
    step_compiles: tuple[int, ...] = ()
    tokens: int = 0
    queue_wait_s: float = 0.0
    lock_wait_s: float = 0.0
    average_wait_s: float = 0.0
    exceptions: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileReason:
    """Why a function was compiled again, and how often."""

    function: str
    reason: str
    count: int = 1
    thread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileLimitHit:
    """The recompile limit that a thread ran into, as read in that thread."""

    thread: str = ""
    limit: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseCall:
    """The first attention call that ran unfused, with the bytes of its score matrix."""

    thread: str = ""
    step: int | None = None
    score_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningRecord:
    """A warning that matters, with how often it was seen."""

    text: str
    count: int = 1
    thread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRecord:
    """The compile cache of the run."""

    mode: str = ""
    entries_before: int = 0
    entries_after: int = 0
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    autograd_hits: int = 0
    autograd_misses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What was counted for the whole process."""

    warmed_in_main: bool = False
    warmed_reason: str = ""
    compiles: int | None = None
    recompiles: int = 0
    recompile_reasons: tuple[RecompileReason, ...] = ()
    recompile_limit_hits: tuple[RecompileLimitHit, ...] = ()
    dense_calls: int = 0
    dense_first: DenseCall | None = None
    graph_breaks: int = 0
    warnings: tuple[WarningRecord, ...] = ()
    fx_flag_end: bool | None = None
    fx_flag_global: bool | None = None
    compiles_by_thread: Mapping[str, int] = field(default_factory=lambda: _NO_COUNTS)
    peak_rss_bytes: int = 0
    peak_gpu_bytes: tuple[int, ...] = ()
    gpu_utilization: tuple[float, ...] = ()
    cache: CacheRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasRecord:
    """Which replicas finished, and how many met at the averagings of gradients."""

    finished: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    averages: int = 0
    smallest_group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRecord:
    """Warm-up and compilation apart from the steady part; `ktok_s` is thousands of context tokens a second."""

    warmup_steps: int = 0
    warmup_s: float = math.nan
    compile_s: float = math.nan
    steady_s: float = math.nan
    steady_tokens: int = 0
    steady_steps: int = 0
    steady_includes_compiles: bool = False
    ktok_s: float = math.nan
    steps_s: float = math.nan
    block_tokens_s: float = math.nan
    mean_context: float = math.nan
    anchors_per_token: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecord:
    """What the environment said of itself from inside the run."""

    torch: str
    git_version: str = ""
    cuda: str | None = None
    triton: str | None = None
    cudnn: int | None = None
    nccl: str | None = None
    driver: str | None = None
    python: str = ""
    platform: str = ""
    glibc: str = ""
    gpus: tuple[object, ...] = ()
    num_cpus: int | None = None
    torch_file: str = ""
    prefix: str = ""
    sys_path_outside: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    loaded_libraries: tuple[object, ...] = ()
    native_overrides: tuple[object, ...] = ()
    imported: tuple[object, ...] = ()
    import_changes: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkaroundRecord:
    """The workaround the run used, and the argument for its safety."""

    name: str = "none"
    summary: str = ""
    safe_argument: str = ""
    builds: str = ""
    closes: tuple[object, ...] = ()
    applied: tuple[object, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """One run of the training benchmark.

    Attributes:
        config: every configuration value, by name.
        error: what ended the main thread before its workers could report; with phase `refused`, why it did not start.
        hang: the silence that the benchmark itself ended.
        replicas: which replicas finished and died, and how many met at each averaging.
    """

    schema: int
    kind: str
    finished: bool
    phase: str
    config: Mapping[str, object]
    environment: EnvironmentRecord | None = None
    threads: tuple[ThreadRecord, ...] = ()
    replicas: ReplicasRecord | None = None
    process: ProcessRecord | None = None
    throughput: ThroughputRecord | None = None
    hang: Mapping[str, object] | None = None
    error: Failure | None = None
    started_at: float = math.nan
    wall_s: float = math.nan
    argv: tuple[str, ...] = ()
    profile: str = ""
    amplified: bool = False
    workaround: WorkaroundRecord = field(default_factory=WorkaroundRecord)
    force: str = ""

    @property
    def drafters(self) -> tuple[ThreadRecord, ...]:
        """The threads that compile and train; races are between these."""
        return tuple(thread for thread in self.threads if thread.role == "drafter")

    @property
    def num_drafters(self) -> int:
        """Drafter threads that ran; the configured number when the run died before they were recorded."""
        configured = self.config.get("num_drafters", 0)
        return len(self.drafters) or (configured if isinstance(configured, int) else 0)

    @property
    def went_on(self) -> bool:
        """Whether failures were survived (amplified runs only): two drafters or more did most of their steps."""
        steps = self.config.get("steps", 0)
        far = [thread for thread in self.drafters if isinstance(steps, int) and 0 < steps < 2 * thread.steps]
        return self.amplified and self.finished and len(far) >= 2


class Answer(StrEnum):
    """What a hazard probe found."""

    LEAKS = "leaks"
    SAFE = "safe"
    NOT_APPLICABLE = "not-applicable"
    COULD_NOT_TEST = "could-not-test"


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardRecord:
    """One hazard probe; `answer` is one of `Answer`."""

    name: str
    answer: Answer
    title: str = ""
    evidence: tuple[str, ...] = ()
    meaning: str = ""
    seconds: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardsResult:
    """The hazard probes of one build."""

    schema: int
    kind: str
    finished: bool
    environment: EnvironmentRecord | None = None
    hazards: tuple[HazardRecord, ...] = ()
    workaround: str = "none"
    wall_s: float = math.nan

    def answer(self, name: str) -> Answer | None:
        """What the probe of this name found; None when it did not run, which is never the same as `safe`."""
        return next((hazard.answer for hazard in self.hazards if hazard.name == name), None)
