"""The nouns of the search: what happened, what we conclude, what was observed, and what to do next.

Knows no environment, no process, no clock. What happened in a run (`Outcome`) and what a search concludes from
it for the question asked (`Conclusion`) are two types, and `not tested` is a value of neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class OutcomeName(StrEnum):
    """What happened in a run, by its root cause. Spelled `name` or `name(kind)` in every file and report."""

    OK = "ok"
    FX_FLAG_RACE = "fx_flag_race"
    OTHER_THREAD_RACE = "other_thread_race"
    NESTED_FX = "nested_fx"
    COMPILE_ERROR = "compile_error"
    RECOMPILE_LIMIT = "recompile_limit"
    DENSE_FALLBACK = "dense_fallback"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    NUMERIC_MISMATCH = "numeric_mismatch"
    NAN_LOSS = "nan_loss"
    OUT_OF_MEMORY = "out_of_memory"
    CUDA_ERROR = "cuda_error"
    SEGFAULT = "segfault"
    ABORT = "abort"
    HANG = "hang"
    IMPORT_BROKEN = "import_broken"
    LIBRARY_MIX = "library_mix"
    WRONG_BUILD = "wrong_build"
    INCONSISTENT_ENV = "inconsistent_env"
    ENV_NOT_ISOLATED = "env_not_isolated"
    DRIVER_TOO_OLD = "driver_too_old"
    ARCH_UNSUPPORTED = "arch_unsupported"
    NO_GPU = "no_gpu"
    HARDWARE_FAULT = "hardware_fault"
    DISK_FULL = "disk_full"
    DOWNLOAD_FAILED = "download_failed"
    BUILD_FAILED = "build_failed"
    NOT_PUBLISHED = "not_published"
    RESOLUTION_CONFLICT = "resolution_conflict"
    TOOL_TOO_OLD = "tool_too_old"
    COMPILE_DISABLED = "compile_disabled"
    NOTHING_COMPILED = "nothing_compiled"
    TOO_FEW_THREADS = "too_few_threads"
    HARNESS_ERROR = "harness_error"
    UNKNOWN = "unknown"


_OUTCOME = re.compile(r"(?P<name>[a-z_]+)(?:\((?P<kind>[^()]*)\))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One outcome with an optional kind: `out_of_memory(triton_smem)`, `other_thread_race(fx_patcher)`."""

    name: OutcomeName
    kind: str = ""

    @classmethod
    def parse(cls, text: str) -> Outcome:
        """Read the spelled form; ValueError for a name that is not an outcome."""
        match = _OUTCOME.match(text)
        if match is None:
            raise ValueError(f"not an outcome: {text!r}")
        return cls(name=OutcomeName(match["name"]), kind=match["kind"] or "")

    def matches(self, hunted: Outcome) -> bool:
        """Whether this is the hunted failure: the same name, and the same kind where the hunt names one."""
        return self.name is hunted.name and hunted.kind in ("", self.kind)

    def __str__(self) -> str:
        return f"{self.name.value}({self.kind})" if self.kind else self.name.value


class Conclusion(StrEnum):
    """What a search concludes from a run for the question asked."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    RETRY = "retry"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One finished run of one candidate.

    Attributes:
        candidate: the candidate's identifier.
        conclusion: GOOD, BAD or SKIP as the engine counts it (RETRY and ABORT never reach the engine).
        outcome: what happened, spelled (`fx_flag_race`), for reports.
        run: the run directory's name, the evidence behind this observation.
        seconds: wall time of the run, build excluded.
        value: log(candidate/baseline) throughput of one interleaved pair, for a throughput question.
        drift: relative change of the rate within the runs of that pair, where they were long enough to say.
        stalled: part of its time after warm-up that the candidate's run stood still, less the baseline's.
        node: the machine that ran it.
    """

    candidate: str
    conclusion: Conclusion
    outcome: str = ""
    run: str = ""
    seconds: float = 0.0
    value: float | None = None
    drift: float | None = None
    stalled: float = 0.0
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An ordered search: find where the failure begins (or ends) between two endpoints.

    Attributes:
        candidates: identifiers, oldest first; the endpoints are among them.
        good: the endpoint claimed to be without the failure.
        bad: the endpoint claimed to show it. It may be older than `good`: then the question is what fixed it.
        confidence: posterior probability at which the search may stop and claim.
        max_runs: runs after which the search stops with what it knows. Where one side fails half as often as the other
            (.1 and .05), an honest claim takes about 2,000 runs: the few that fewer runs allow there are lucky ones.
        run_cost: cost of one run, the unit of the other costs.
        build_cost: cost of an environment that is not built yet, in runs.
        cached: candidates whose environment is built already.
        equal: groups of candidates that are the same code (equal `git_version`); each is one candidate.
    """

    candidates: tuple[str, ...]
    good: str
    bad: str
    confidence: float = 0.95
    max_runs: int = 3000
    run_cost: float = 1.0
    build_cost: float = 10.0
    cached: frozenset[str] = field(default_factory=frozenset)
    equal: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Probability of each candidate being the first one on the other side, and of no change in the range."""

    by_candidate: tuple[tuple[str, float], ...]
    none: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Run these candidates next, best together first; one run each (a worker takes one)."""

    candidate: str
    also: tuple[str, ...] = ()
    reason: str = ""
    posterior: Posterior


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The change lies between two neighbours. `direction` is `regression` or `fix`."""

    last_good: str
    first_bad: str
    direction: str
    confidence: float
    posterior: Posterior
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The change lies in `suspects`, which no run so far (or no possible run) tells apart."""

    last_good: str
    first_bad: str
    suspects: tuple[str, ...]
    direction: str
    confidence: float
    posterior: Posterior
    reason: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRegression:
    """Both ends behave alike; `allowed_rate` is the failure rate that the clean runs still allow (95 %)."""

    confidence: float
    allowed_rate: float
    posterior: Posterior
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """An endpoint does not do what was claimed of it, or an island makes one change point the wrong question."""

    endpoint: str
    reason: str
    posterior: Posterior


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """`max_runs` was reached, or nothing is left to run, before the confidence was."""

    suspects: tuple[str, ...]
    confidence: float
    posterior: Posterior
    reason: str


Step: TypeAlias = Probe | Found | Narrowed | NoRegression | Contradiction | Exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing is worth asking until one of the runs under way has answered. No step of a search without such runs."""

    posterior: Posterior
