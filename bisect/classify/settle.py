"""From findings to what they mean together: race or not a race, survived or fatal, the installer's last word."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..model import Conclusion, Outcome, OutcomeName
from ..signatures import Role
from ..signatures.advice import PRESUMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.findings import Finding
    from ..logs.workers import Worker

_SURVIVABLE = frozenset(
    {
        OutcomeName.IMPORT_BROKEN, OutcomeName.DOWNLOAD_FAILED, OutcomeName.BUILD_FAILED, OutcomeName.INCONSISTENT_ENV,
        OutcomeName.LIBRARY_MIX, OutcomeName.NOT_PUBLISHED, OutcomeName.RESOLUTION_CONFLICT, OutcomeName.HARNESS_ERROR,
        OutcomeName.TOOL_TOO_OLD, OutcomeName.HANG,
    }
)  # fmt: skip
"""Failures that, followed by training steps, did not stop anything: an optional package, a retried download."""

_ANYBODYS = frozenset({"mask_metadata", "shared_state"})
"""Kinds of race whose message any code can raise: only a traceback inside the compiler is one."""
_OF_THE_SYSTEM = re.compile(
    r"(?:[\w.]+\.)?(?:BrokenPipeError|Connection\w*Error|EOFError|TimeoutError|OSError|FileNotFoundError|PermissionError|Empty|Full"
    r"|KeyboardInterrupt|SystemExit|\w*HTTP\w*Error|\w*SSL\w*Error|gaierror)\b"
)
"""Exceptions that a file, a peer or a signal brings about, in however many threads."""
OPEN_QUESTIONS = frozenset({"worker_died", "worker_silent", "told_or_happened", "ended_in_trouble"})
"""Kinds of `unknown` that forbid a clean verdict and explain nothing: they count only where nothing else is found."""
MISSING_FOR_ANY = frozenset({"no_c_compiler", "unsupported"})
"""Kinds of compiler error that no thread count changes."""
_NEEDS_A_GPU = frozenset({OutcomeName.NO_GPU, OutcomeName.DRIVER_TOO_OLD})

_OUT_OF_TIME = "It was still making steps when its time was over: give it more time, or fewer steps."
_DEADLINE_ALONE = (
    "Its time was over, and nothing shows whether it still made progress: run again with more time or fewer steps, and "
    "with time stamps in the log, which tell a slow run from a hung one."
)

_COMPILER_PATHS = (
    "torch/_dynamo",
    "torch/_inductor",
    "torch/_functorch",
    "torch/fx",
    "torch/_subclasses",
    "torch/_higher_order_ops",
    "triton/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of the run beside its findings.

    Attributes:
        num_threads: worker threads, where known.
        workers: those that reported steps under their names.
        control_phase: the lines between which the log shows that control itself.
        control: `clean` or `failed`, what one thread did; empty when nobody looked.
        went_on_until: line of the last step of training, or the end of a log that says the work was done.
        thread_evidence: whether threads other than the main one spoke.
        compiled: whether at least one compilation was counted.
        compiles_nothing: whether what a compilation needs is missing, so that it fails in any thread.
        in_compiler: whether the compiler of torch raised, so that a C compiler's error is its own.
        was_moving: whether steps were still being made shortly before the run was ended from outside; None if unknown.
        little_shm: whether something says that shared memory was short: a bus error is only how that ended.
        time_limit: whether a scheduler says that the run's time was over.
        completed: whether a result file says that every thread did its work.
        completed_on_cpu: the same, on a CPU: then a missing GPU was not needed.
    """

    num_threads: int | None
    workers: tuple[Worker, ...]
    control: str
    control_phase: tuple[int, int]
    went_on_until: int
    thread_evidence: bool
    compiled: bool
    compiles_nothing: bool
    in_compiler: bool
    completed_on_cpu: bool
    completed: bool
    was_moving: bool | None
    time_limit: bool
    little_shm: bool

    @property
    def single(self) -> bool:
        """Whether one thread is enough to show the failure: then it is no race."""
        if self.control:
            return self.control == "failed"
        return self.num_threads == 1

    def ran_alone(self, finding: Finding) -> bool:
        """Whether it needed no second thread: one is enough, or it stands in the control."""
        first, last = self.control_phase
        return self.single or first < finding.line < last


def settle(findings: Sequence[Finding], circumstances: Circumstances) -> tuple[Finding, ...]:
    """Every finding in its final form; those that mean nothing are gone."""
    recomputed = _only_in_recomputation(findings, circumstances)
    answers = [finding for finding in findings if finding.detail not in OPEN_QUESTIONS]
    questions = [finding for finding in findings if finding.detail in OPEN_QUESTIONS]
    settled = (_settle_one(finding, circumstances, recomputed=recomputed) for finding in answers)
    kept = tuple(
        replace(final, role=finding.role) if _ended_its_thread(finding, questions) else final
        for finding, final in zip(answers, settled, strict=True)
        if final is not None
    )
    if any(finding.role is not Role.REMARK for finding in kept):
        return kept
    return (*kept, *questions)


def _ended_its_thread(finding: Finding, questions: Sequence[Finding]) -> bool:
    """Whether a worker that died, died of it: others may have gone on, and it has a name all the same."""
    return (
        bool(finding.thread)
        and not _in_a_package(finding)
        and any(question.detail == "worker_died" and finding.thread in question.text for question in questions)
    )


def _settle_one(finding: Finding, circumstances: Circumstances, *, recomputed: bool) -> Finding | None:
    match finding.outcome.name:
        case OutcomeName.OK:
            return None
        case OutcomeName.SEGFAULT if circumstances.little_shm and finding.detail == "bus_error":
            return None
        case OutcomeName.NOTHING_COMPILED:
            return None if circumstances.compiled else finding
        case OutcomeName.COMPILE_DISABLED if circumstances.compiled and finding.detail == "said_disabled":
            settled = replace(finding, role=Role.REMARK)
        case OutcomeName.FX_FLAG_RACE:
            settled = _settle_fx(finding, circumstances, recomputed=recomputed)
        case OutcomeName.OTHER_THREAD_RACE:
            settled = _settle_other_race(finding, circumstances)
        case OutcomeName.HANG:
            settled = _settle_hang(finding, circumstances)
        case OutcomeName.BUILD_FAILED if circumstances.in_compiler and not finding.detail:
            settled = replace(finding, outcome=Outcome(name=OutcomeName.COMPILE_ERROR))
        case OutcomeName.COMPILE_ERROR | OutcomeName.UNKNOWN:
            settled = _thread_compile(finding, circumstances)
        case _:
            settled = finding
    return replace(settled, role=Role.REMARK) if _is_survived(settled, circumstances) else settled


def _settle_fx(finding: Finding, circumstances: Circumstances, *, recomputed: bool) -> Finding:
    if circumstances.ran_alone(finding) or recomputed or _traces_itself(finding, circumstances):
        detail = "recompute" if recomputed else finding.detail
        return replace(finding, outcome=Outcome(name=OutcomeName.NESTED_FX), detail=detail)
    return finding


def _settle_other_race(finding: Finding, circumstances: Circumstances) -> Finding:
    if circumstances.ran_alone(finding):
        return replace(finding, outcome=Outcome(name=OutcomeName.COMPILE_ERROR), detail=finding.outcome.kind)
    if finding.outcome.kind in _ANYBODYS and finding.frames and not _in_compiler(finding):
        return replace(finding, outcome=Outcome(name=OutcomeName.HARNESS_ERROR), detail="exception")
    return finding


def _settle_hang(finding: Finding, circumstances: Circumstances) -> Finding:
    """A deadline is a hang only where progress had stopped; of a scheduler's time limit the log has to show it."""
    if finding.outcome.kind != "deadline":
        return finding
    if circumstances.was_moving is False:
        return replace(finding, detail="", advice="", conclusion=None) if finding.detail in PRESUMED else finding
    ended_by_it = finding.detail == "time_limit" or (circumstances.time_limit and finding.role >= Role.ENDING)
    if circumstances.was_moving is None and not ended_by_it:
        return finding
    out_of_time = Outcome(name=OutcomeName.HARNESS_ERROR)
    advice = _OUT_OF_TIME if circumstances.was_moving else _DEADLINE_ALONE
    if finding.detail in PRESUMED and not ended_by_it:
        return replace(finding, outcome=out_of_time, conclusion=Conclusion.RETRY)
    return replace(finding, outcome=out_of_time, detail="time_limit", advice=advice, conclusion=Conclusion.RETRY)


def _is_survived(finding: Finding, circumstances: Circumstances) -> bool:
    """Whether the run went on to do its work after it."""
    if not finding.line or finding.role is Role.REMARK:
        return False
    if finding.detail == "killed":
        return False
    if finding.outcome.name in _NEEDS_A_GPU:
        return circumstances.completed_on_cpu
    if (
        not circumstances.completed
        and finding.detail == "exception"
        and not _its_worker_went_on(finding, circumstances)
    ):
        return False
    logged = finding.outcome.name is OutcomeName.UNKNOWN and not finding.thread
    went_on = circumstances.completed or finding.line < circumstances.went_on_until
    return went_on and (logged or finding.outcome.name in _SURVIVABLE)


def _its_worker_went_on(finding: Finding, circumstances: Circumstances) -> bool:
    """Whether the worker that an exception without a name of its own came from made steps after it."""
    went_on = {worker.name for worker in circumstances.workers if worker.steps[-1].line > finding.line}
    if finding.worker in {worker.name for worker in circumstances.workers}:
        return finding.worker in went_on
    if circumstances.workers:
        threads = circumstances.num_threads or 0 if circumstances.workers[0].is_thread else 0
        return len(went_on) >= max(len(circumstances.workers), threads)
    return (circumstances.num_threads or 1) < 2 or _in_a_package(finding)


def _in_a_package(finding: Finding) -> bool:
    """Whether it was raised in a package beside torch: one that reports or uploads."""
    place = finding.frames[-1] if finding.frames else ""
    return "-packages/" in place and not any(part in place for part in ("torch/", "triton/"))


def _in_compiler(finding: Finding) -> bool:
    return any(path in frame for frame in finding.frames for path in (*_COMPILER_PATHS, "flex_attention"))


def _traces_itself(finding: Finding, circumstances: Circumstances) -> bool:
    """Whether the thread that raised was itself inside an FX trace, and nothing says that there were others.

    Of several threads that compile at once each is inside a trace of its own when another one's flag reaches it, so
    its frames tell the two apart only in a run of one thread.
    """
    tracers = ("torch/fx/_symbolic_trace.py", "torch/fx/experimental/proxy_tensor.py")
    own = any(tracer in frame for frame in finding.frames for tracer in tracers)
    return own and circumstances.control != "clean" and (circumstances.num_threads or 0) < 2


def _only_in_recomputation(findings: Sequence[Finding], circumstances: Circumstances) -> bool:
    """Whether the FX message came only out of a checkpoint's recomputation, with no sign of a second thread.

    Threads that die there while others live are the race as well; without them, and without a clean control, the
    same message is what a single thread shows too (pytorch/pytorch#179614).
    """
    fx = [finding for finding in findings if finding.outcome.name is OutcomeName.FX_FLAG_RACE]
    several = circumstances.thread_evidence or (circumstances.num_threads or 0) > 1 or any(f.thread for f in fx)
    if not fx or circumstances.control or several:
        return False
    return all(any("torch/utils/checkpoint" in frame for frame in finding.frames) for finding in fx)


def _thread_compile(finding: Finding, circumstances: Circumstances) -> Finding:
    """A compiler error in one of several threads, where one thread alone is clean, is a race without a name yet."""
    several = (circumstances.num_threads or 0) > 1 or circumstances.thread_evidence
    in_compiler = finding.outcome.name is OutcomeName.COMPILE_ERROR or _in_compiler(finding)
    if finding.outcome.name is OutcomeName.UNKNOWN and _OF_THE_SYSTEM.match(finding.text):
        return finding
    if finding.outcome.name is OutcomeName.UNKNOWN and finding.thread and several and circumstances.control == "clean":
        kind = _kind_by_place(finding.frames[-1]) if _in_compiler(finding) else "unnamed"
        return replace(finding, outcome=Outcome(name=OutcomeName.OTHER_THREAD_RACE, kind=kind), role=Role.CAUSE)
    suspicious = circumstances.control == "clean" or (finding.thread and finding.outcome.name is OutcomeName.UNKNOWN)
    alone_too = circumstances.single or circumstances.compiles_nothing or finding.detail == "jit_trace"
    if several and in_compiler and suspicious and not alone_too:
        kind = _kind_by_place(finding.frames[-1] if finding.frames else "")
        return replace(finding, outcome=Outcome(name=OutcomeName.OTHER_THREAD_RACE, kind=kind), role=Role.CAUSE)
    if finding.outcome.name is OutcomeName.UNKNOWN and in_compiler:
        return replace(finding, outcome=Outcome(name=OutcomeName.COMPILE_ERROR), role=Role.WRAPPER)
    return finding


def _kind_by_place(frame: str) -> str:
    if "triton/" in frame:
        return "triton_autotune" if "autotuner" in frame else "triton_jit"
    return "compile"
