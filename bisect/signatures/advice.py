"""One sentence of what to do next for every outcome, and one of what it means for a search."""

from __future__ import annotations

from ..model import Conclusion, Outcome, OutcomeName

ADVICE: dict[OutcomeName, str] = {
    OutcomeName.OK: "Nothing to do; a single clean run is weak evidence, so repeat it from a cold compile cache.",
    OutcomeName.FX_FLAG_RACE: "Take torch 2.14 or newer (the flag is per thread there), or hold one lock around mask building, "
    "forward and backward.",
    OutcomeName.OTHER_THREAD_RACE: "Hold one process-wide lock around compilation and mask building, or compile once in the main "
    "thread before the workers start.",
    OutcomeName.NESTED_FX: "It fails with one thread too: compile outside the traced or checkpointed region, or use reentrant "
    "checkpointing; a lock or another torch build for thread safety will not help.",
    OutcomeName.COMPILE_ERROR: "Reproduce in one thread with TORCHDYNAMO_VERBOSE=1 and a cold cache; try backend='aot_eager' to see "
    "which layer fails.",
    OutcomeName.RECOMPILE_LIMIT: "Raise the limit in the thread that compiles (from torch 2.12 the setting is per thread), or stop the "
    "recompiles: mark sizes dynamic, keep shapes fixed.",
    OutcomeName.DENSE_FALLBACK: "Attention ran unfused: do not use this run's throughput; look for the recompile limit or a disabled "
    "compiler before it.",
    OutcomeName.CHECKPOINT_MISMATCH: "The recomputed forward is not the first one: look for state, autocast or a compiled graph that "
    "changed between the two.",
    OutcomeName.NUMERIC_MISMATCH: "Compare with a 1-thread control of the same seed; the absence of an error is no proof of safety.",
    OutcomeName.NAN_LOSS: "Do not use this run's throughput; repeat with backend='eager' to see whether compilation makes the NaN.",
    OutcomeName.OUT_OF_MEMORY: "Reduce the batch, the anchors or the context, and see whether attention ran dense.",
    OutcomeName.CUDA_ERROR: "Repeat in a fresh process with CUDA_LAUNCH_BLOCKING=1.",
    OutcomeName.SEGFAULT: "Repeat with PYTHONFAULTHANDLER=1 and keep the stacks; warm one compile in the main thread first.",
    OutcomeName.ABORT: "Repeat with PYTHONFAULTHANDLER=1 and look at the lines before the abort.",
    OutcomeName.HANG: "Dump all stacks (py-spy dump, faulthandler) and see which thread waits for what; count the deadline from the "
    "last heartbeat, not from the start.",
    OutcomeName.IMPORT_BROKEN: "The packages do not fit this torch: reinstall or rebuild the one named, in a new environment.",
    OutcomeName.LIBRARY_MIX: "Two copies of one library are in reach: remove the older package or the LD_LIBRARY_PATH entry, in a new "
    "environment.",
    OutcomeName.WRONG_BUILD: "Another torch than the one asked for was there: build a new environment and install nothing after torch "
    "that pins it.",
    OutcomeName.INCONSISTENT_ENV: "Make the versions fit (install the pair that belongs together) and run again.",
    OutcomeName.ENV_NOT_ISOLATED: "Set PYTHONNOUSERSITE=1, unset PYTHONPATH and start with the environment's own python -m.",
    OutcomeName.DRIVER_TOO_OLD: "CUDA 13 needs driver 580 or newer, CUDA 12 needs 525: take a build for an older CUDA or another node.",
    OutcomeName.ARCH_UNSUPPORTED: "This build has no code for this machine (GPU, CPU or glibc): take another build or another machine.",
    OutcomeName.NO_GPU: "Check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's GPU option on this machine.",
    OutcomeName.HARDWARE_FAULT: "Take the node out and run again on another one.",
    OutcomeName.DISK_FULL: "Free space (python -m envs prune) or move the store, then go on.",
    OutcomeName.DOWNLOAD_FAILED: "Try again later, or use a mirror or a wheelhouse.",
    OutcomeName.BUILD_FAILED: "Read the first compiler or installer error above it.",
    OutcomeName.NOT_PUBLISHED: "This version or variant is not on the index: take a neighbour.",
    OutcomeName.RESOLUTION_CONFLICT: "The pins exclude each other: this combination cannot be installed.",
    OutcomeName.TOOL_TOO_OLD: "Update the tool named and run again.",
    OutcomeName.COMPILE_DISABLED: "Unset the variable named and run again: without compilation the failure cannot show.",
    OutcomeName.NOTHING_COMPILED: "Nothing was compiled: see why (data parallel wrapper, suppressed errors, eager backend) and run again.",
    OutcomeName.TOO_FEW_THREADS: "A race needs two compiling threads: run with --threads 3, and keep this run as the control.",
    OutcomeName.HARNESS_ERROR: "The harness or its command failed, not the build: correct it and run again.",
    OutcomeName.UNKNOWN: "Give more evidence: the whole log, of every process.",
}

_BY_KIND: dict[Outcome, str] = {
    Outcome(
        name=OutcomeName.OUT_OF_MEMORY, kind="host"
    ): "The memory of the host ran out, not the GPU's: give the job more (--mem, the "
    "container's limit), or run fewer loader workers, ranks or compile jobs on a node; dmesg and sacct (MaxRSS) say how much it took.",
}
CONTROL = "Confirm with a 1-thread control."


def advice_for(outcome: Outcome) -> str:
    """What to do next about an outcome of this name and kind."""
    return _BY_KIND.get(outcome, ADVICE[outcome.name])


def ask_for(*, returncode: bool, threads: bool, variables: bool) -> str:
    """What to give of a run that nothing explains: the log, and which of these is not known yet."""
    unknown = (
        ("the exit code (--rc)", not returncode),
        ("the thread count (--threads)", not threads),
        ("the environment (--env)", not variables),
    )
    return ", ".join((ADVICE[OutcomeName.UNKNOWN].rstrip("."), *(words for words, is_due in unknown if is_due))) + "."


ENDED_FROM_OUTSIDE = (
    "Something outside ended it, and nothing here says what or why: look at the scheduler (sacct -j JOB --format=State,ExitCode,MaxRSS), "
    "the container (docker inspect: OOMKilled) and the node's dmesg, then run it again."
)
PRESUMED = frozenset({"killed", "terminated"})
"""Kinds of end that anybody can bring about with a signal: the outcome is a guess, and no hit in a search."""

BUILD_FAILURES = frozenset(
    {
        OutcomeName.FX_FLAG_RACE, OutcomeName.OTHER_THREAD_RACE, OutcomeName.NESTED_FX, OutcomeName.COMPILE_ERROR,
        OutcomeName.RECOMPILE_LIMIT, OutcomeName.DENSE_FALLBACK, OutcomeName.CHECKPOINT_MISMATCH,
        OutcomeName.NUMERIC_MISMATCH, OutcomeName.NAN_LOSS, OutcomeName.OUT_OF_MEMORY, OutcomeName.CUDA_ERROR,
        OutcomeName.SEGFAULT, OutcomeName.ABORT, OutcomeName.HANG,
    }
)  # fmt: skip
"""What a run can show of the build itself; the rest is the environment, the machine, the network or the harness."""

WITHOUT_THE_FAILURE: dict[OutcomeName, Conclusion] = {
    OutcomeName.HANG: Conclusion.RETRY,
    OutcomeName.DOWNLOAD_FAILED: Conclusion.RETRY,
    OutcomeName.HARDWARE_FAULT: Conclusion.RETRY,
    # The next build would meet the same machine: go on only after a person has acted.
    OutcomeName.DISK_FULL: Conclusion.ABORT,
    OutcomeName.NO_GPU: Conclusion.ABORT,
    OutcomeName.TOOL_TOO_OLD: Conclusion.ABORT,
}
"""What a search for another failure concludes; SKIP for every outcome that is not named, since it died first."""

MEANING: dict[Conclusion, str] = {
    Conclusion.GOOD: "counts as one clean run",
    Conclusion.BAD: "counts as a hit",
    Conclusion.SKIP: "says nothing about it: no vote",
    Conclusion.RETRY: "says nothing about it: run it again",
    Conclusion.ABORT: "says nothing about it, and the next run would meet the same: stop until it is repaired",
}
