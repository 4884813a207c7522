"""What a result file shows: the exceptions of its threads, its hang, its limits, its losses, its environment."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ..logs.findings import Finding
from ..model import Outcome, OutcomeName
from ..result import Answer
from ..signatures import Role, first_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..result import Failure, HazardRecord, HazardsResult, ProcessRecord, ThreadRecord, TrainResult

_WITHOUT_A_STEP = 1_000_000
"""The position of what has no step: behind everything that has one."""


def train_findings(result: TrainResult) -> tuple[Finding, ...]:
    """Everything a training result proves, each with a position in steps."""
    return (
        *_failures(result),
        *_hang(result),
        *(_process(result.process) if result.process else ()),
        *_losses(result),
        *_isolation(result),
    )


def _failures(result: TrainResult) -> Iterator[Finding]:
    ordered = sorted(
        ((failure, thread) for thread in result.threads for failure in thread.exceptions),
        key=lambda pair: (_infinite(pair[0].at_s), pair[0].step or 0),
    )
    for index, (failure, thread) in enumerate(ordered):
        yield _failure(failure, _place(failure, thread), thread=thread.name, position=index + 1)
    if result.error is not None:
        found = _failure(result.error, f"main thread ({result.phase})", thread="", position=0)
        refused = result.phase == "refused" and found.outcome.name is OutcomeName.UNKNOWN
        yield replace(found, outcome=Outcome(name=OutcomeName.HARNESS_ERROR), detail="refused") if refused else found


def _infinite(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _place(failure: Failure, thread: ThreadRecord) -> str:
    step = "?" if failure.step is None else failure.step
    return f"{thread.name} at step {step} ({failure.phase or 'unknown phase'})"


def _failure(failure: Failure, where: str, *, thread: str, position: int) -> Finding:
    head = f"{failure.type}: {_said(failure)}"
    match = first_match(head.replace("\n", " ")[:4000])
    frames = tuple(
        line.strip().split('"')[1] for line in failure.traceback.splitlines() if line.strip().startswith('File "')
    )
    text = f"{where}: {head}{_circumstance(failure)}"
    if match is None:
        return Finding(
            outcome=Outcome.parse("unknown"), role=Role.GENERIC, position=position, text=text, detail="exception",
            thread=thread, frames=frames,
        )  # fmt: skip
    signature, _, names = match
    role = signature.role if signature.role < Role.EXIT else Role.CAUSE
    return Finding(
        outcome=signature.outcome, role=role, position=position, text=text, detail=signature.detail,
        advice=signature.advice, conclusion=signature.conclusion, thread=thread, names=tuple(names.items()),
        frames=frames,
    )  # fmt: skip


def _said(failure: Failure) -> str:
    """The message; of one that begins with the tracebacks it is about (torch's metrics context), its last line."""
    lines = [line for line in failure.message.splitlines() if line.strip()]
    if lines and lines[0].strip() in ("Previous Traceback:", "Traceback (most recent call last):"):
        return lines[-1].removeprefix(f"{failure.type}: ")
    return failure.message


def _circumstance(failure: Failure) -> str:
    notes = [] if failure.fx_flag is None else [f"FX flag {'set' if failure.fx_flag else 'clear'}"]
    notes += [f"{other.thread} was tracing" for other in failure.neighbours if other.tracing]
    return f" [{', '.join(notes)}]" if notes else ""


def _hang(result: TrainResult) -> Iterator[Finding]:
    if result.hang is None:
        return
    kind = str(result.hang.get("kind", "deadline"))
    spelled = f"hang({kind})" if kind in ("deadline", "deadlock", "nccl_watchdog") else "hang(deadline)"
    shown = ", ".join(f"{key} {value}" for key, value in result.hang.items() if key != "stacks")
    yield Finding(
        outcome=Outcome.parse(spelled),
        role=Role.SYMPTOM,
        position=_WITHOUT_A_STEP,
        text=f"no heartbeat: {shown[:300]}",
        detail="heartbeat",
    )


def _process(process: ProcessRecord) -> Iterator[Finding]:
    for hit in process.recompile_limit_hits[:1]:
        limit = "" if hit.limit is None else f" {hit.limit}"
        yield _notice(
            "recompile_limit",
            f"recompile limit{limit} reached in {hit.thread or '?'} at step {hit.step}",
            step=hit.step,
        )
    if process.dense_calls > 0:
        first = process.dense_first
        where = f", first in {first.thread} at step {first.step}" if first else ""
        yield _notice(
            "dense_fallback",
            f"{process.dense_calls} unfused attention calls{where}",
            step=first.step if first else None,
        )
    if process.compiles == 0:
        yield _notice("nothing_compiled", "the compiler counted 0 compilations", step=None)
    for warning in process.warnings:
        match = first_match(warning.text)
        if match is not None and match[0].role in (Role.NOTICE, Role.REMARK) and match[0].detail != "benign":
            yield Finding(
                outcome=match[0].outcome,
                role=match[0].role,
                position=_WITHOUT_A_STEP,
                text=f"{warning.thread}: {warning.text}",
                detail=match[0].detail,
            )


def _notice(spelled: str, text: str, *, step: int | None) -> Finding:
    return Finding(outcome=Outcome.parse(spelled), role=Role.NOTICE, position=step or 0, text=text, detail="counted")


def _losses(result: TrainResult) -> Iterator[Finding]:
    for thread in result.threads:
        step = next((step for step, loss in enumerate(thread.losses) if not math.isfinite(loss)), None)
        if step is not None:
            yield _notice("nan_loss", f"{thread.name}: loss {thread.losses[step]} at recorded step {step}", step=step)


def _isolation(result: TrainResult) -> Iterator[Finding]:
    environment = result.environment
    if environment is None:
        return
    outside = [path for path in environment.sys_path_outside if path]
    prefix, torch_file = environment.prefix, environment.torch_file
    if prefix and torch_file and not torch_file.startswith(prefix.rstrip("/") + "/"):
        outside.insert(0, torch_file)
    if outside:
        yield _notice(
            "env_not_isolated",
            f"imported from outside {prefix or 'the environment'}: {', '.join(outside[:3])}",
            step=None,
        )


_HAZARD_OUTCOMES = {"fx_flag": "fx_flag_race", "recompile_limit": "recompile_limit"}


def hazard_findings(result: HazardsResult) -> tuple[Finding, ...]:
    """The holes that the probes found open; a safe or untested one is no finding."""
    return tuple(
        _hazard(hazard, position) for position, hazard in enumerate(result.hazards, 1) if hazard.answer is Answer.LEAKS
    )


def hazard_outcome(name: str) -> Outcome:
    """What a run dies of where this hazard leaks."""
    known = (outcome for start, outcome in _HAZARD_OUTCOMES.items() if name.startswith(start))
    return Outcome.parse(next(known, f"other_thread_race({name})"))


def _hazard(hazard: HazardRecord, position: int) -> Finding:
    shown = f"{hazard.name} leaks: {hazard.evidence[0] if hazard.evidence else hazard.meaning}"
    return Finding(
        outcome=hazard_outcome(hazard.name), role=Role.CAUSE, position=position, text=shown, detail=hazard.name
    )
