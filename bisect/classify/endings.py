"""What an exit code proves by itself, and which environment variables stop compilation.

An exit code says how a process ended, never why: every finding made here gives way to a line of the log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..logs.findings import Finding
from ..model import Conclusion, Outcome
from ..signatures import Role
from ..signatures.advice import ENDED_FROM_OUTSIDE, PRESUMED

if TYPE_CHECKING:
    from collections.abc import Iterable

AFTER_EVERYTHING = 10**12
_SIGNALS: dict[int, tuple[str, str]] = {
    2: ("harness_error", "SIGINT: interrupted by hand"),
    4: ("arch_unsupported", "SIGILL: the build uses instructions that this CPU lacks"),
    6: ("abort", "SIGABRT"),
    7: ("segfault", "SIGBUS: a mapped page could not be had; a full /dev/shm or disk does that, and so does a bug"),
    8: ("abort", "SIGFPE"),
    9: (
        "out_of_memory(host)",
        "SIGKILL, sent for want of host memory, and by scancel, docker stop and preemption as well",
    ),
    11: ("segfault", "SIGSEGV"),
    15: ("hang(deadline)", "SIGTERM, sent at a time limit, and by scancel, docker stop and preemption as well"),
}
_CODES: dict[int, tuple[str, str]] = {
    124: ("hang(deadline)", "the code of `timeout`: the deadline passed"),
    126: ("harness_error", "the command could not be executed"),
    127: ("harness_error", "the command was not found"),
}
_DETAILS = {"SIGBUS": "bus_error", "SIGKILL": "killed", "SIGTERM": "terminated"}
_DIRECT = frozenset({"segfault", "abort", "arch_unsupported"})
"""Ends that the process came to by itself; the others came from outside, after whatever stopped it."""
_DISABLES = re.compile(
    r"(?:COMPILE|DYNAMO|INDUCTOR)\w*_DISABLED?\Z|(?:DISABLE|NO)_?(?:TORCH_?)?(?:COMPILE|DYNAMO|INDUCTOR)\w*\Z"
)
_ENABLES = re.compile(r"(?:USE|ENABLE)_?(?:TORCH_?)?(?:COMPILE|DYNAMO)\Z|TORCH_COMPILE\Z|TORCHDYNAMO\Z")
_OFF = frozenset({"", "0", "false", "no", "off", "none"})


def exit_finding(returncode: int | None, *, timed_out: bool, cut: str = "") -> Finding | None:
    """What the exit code alone proves; None for 0, for codes without a meaning, and where there is none.

    `timed_out`, `cut`: the runner ended it, at its deadline or for its log.
    """
    if cut:
        return Finding(
            outcome=Outcome.parse("harness_error"),
            role=Role.EXIT,
            position=AFTER_EVERYTHING,
            text=f"the run was ended: {cut}",
            detail="log_limit",
            advice=f"It was ended, for {cut}: let it print less (a warning a step, debug output), and run again.",
        )
    if timed_out:
        return _ending("hang(deadline)", "ended by the deadline of the run", returncode)
    if returncode is None or returncode == 0:
        return None
    signal = -returncode if returncode < 0 else returncode - 128
    spelled, meaning = _CODES.get(returncode) or _SIGNALS.get(signal, ("", ""))
    return _ending(spelled, meaning, returncode) if spelled else None


def _ending(spelled: str, meaning: str, returncode: int | None) -> Finding:
    shown = f"exit code {returncode}: {meaning}" if returncode is not None else meaning
    interrupted = spelled == "harness_error" and "SIGINT" in meaning
    detail = next((detail for signal, detail in _DETAILS.items() if meaning.startswith(signal)), "exit_code")
    presumed = detail in PRESUMED
    return Finding(
        outcome=Outcome.parse(spelled),
        role=Role.ENDING if spelled in _DIRECT else Role.EXIT,
        position=AFTER_EVERYTHING,
        text=shown,
        detail=detail,
        advice=ENDED_FROM_OUTSIDE if presumed else "",
        conclusion=Conclusion.RETRY if interrupted or presumed else None,
    )


def disabled_check(variables: Iterable[tuple[str, str]]) -> Finding | None:
    """A variable that silences a package's own version check: what fails behind it is not the build's doing."""
    for name, value in variables:
        if (
            re.search(r"(?:DISABLE|SKIP|IGNORE)\w*VERSION_CHECK|VERSION_CHECK\w*(?:DISABLE|SKIP)", name)
            and value.lower() not in _OFF
        ):
            return Finding(
                outcome=Outcome.parse("inconsistent_env"),
                role=Role.REMARK,
                position=0,
                text=f"a version check is disabled by {name}={value}; what fails is not to be blamed on the build",
                detail=name,
            )
    return None


def compile_switch(variables: Iterable[tuple[str, str]]) -> Finding | None:
    """The first variable that turns compilation off, whoever reads it (`X_COMPILE_DISABLE=1`, `USE_COMPILE=0`)."""
    for name, value in variables:
        off = value.strip().lower() in _OFF
        if (_DISABLES.search(name) and not off) or (_ENABLES.fullmatch(name) and off):
            return Finding(
                outcome=Outcome.parse("compile_disabled"),
                role=Role.NOTICE,
                position=0,
                text=f"compile disabled by environment variable {name}={value}",
                detail=name,
                advice=f"Unset {name} and run again: without compilation the failure cannot show.",
            )
    return None
