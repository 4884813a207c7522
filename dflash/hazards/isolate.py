"""Each probe in a forked child with a deadline; a child's death is an answer or a reason, never ours.

Forking a process that has imported torch and Dynamo, and has started no thread and no compilation, gives every probe
the same untouched state in milliseconds, where a fresh interpreter needs 5 to 10 s of imports.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .forced import Answer, CouldNotForceError, Finding
from .repeat import crash_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .registry import Probe

DEADLINE_S = 150.0


@dataclass(frozen=True)
class Finished:
    """One probe with its finding and the seconds it took."""

    probe: Probe
    finding: Finding
    seconds: float


@dataclass
class Child:
    """A forked probe: its process, the end of the pipe it answers on, and the file its crash would be written to."""

    probe: Probe
    pid: int
    read_end: int
    crash_log: Path
    started: float = field(default_factory=time.monotonic)
    text: bytes = b""

    @property
    def late(self) -> bool:
        return time.monotonic() > self.started + DEADLINE_S

    def finish(self, *, killed: bool) -> Finished:
        """Reap the child and say what it found."""
        if killed:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.read_end)
        _, status = os.waitpid(self.pid, 0)
        crash = self.crash_log.read_text(encoding="utf-8", errors="replace")
        self.crash_log.unlink()
        finding = _hung() if killed else judge(self.probe, self.text, os.waitstatus_to_exitcode(status), crash)
        return Finished(self.probe, finding, time.monotonic() - self.started)


def run_isolated(
    probes: Sequence[Probe], *, num_at_once: int, prepare: Callable[[], None] = lambda: None
) -> Iterator[Finished]:
    """Run every probe, some at once, and yield each as it ends. Forced interleavings do not mind the load.

    `prepare` runs first in each child: a workaround whose effect on the hazards is the question.
    """
    waiting = sorted(probes, key=lambda probe: not probe.long)
    running: list[Child] = []
    while waiting or running:
        while waiting and len(running) < num_at_once:
            running.append(_fork(waiting.pop(0), prepare))
        ready, _, _ = select.select([child.read_end for child in running], [], [], 1.0)
        for child in tuple(running):
            closed = child.read_end in ready and _read_some(child)
            if closed or child.late:
                running.remove(child)
                yield child.finish(killed=not closed)


def _fork(probe: Probe, prepare: Callable[[], None]) -> Child:
    handle, crash_log = tempfile.mkstemp(prefix=f"{probe.name}.")
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _be_the_child(probe, prepare, write_end, handle)
    os.close(write_end)
    os.close(handle)
    return Child(probe, pid, read_end, Path(crash_log))


def _be_the_child(probe: Probe, prepare: Callable[[], None], write_end: int, crash_log: int) -> NoReturn:
    faulthandler.enable(file=crash_log)
    try:
        prepare()
        finding = probe.run()
    except CouldNotForceError as error:
        finding = Finding(Answer.COULD_NOT_TEST, (str(error),))
    except BaseException:  # noqa: BLE001 - whatever a strange build does is reported, not raised
        finding = Finding(Answer.COULD_NOT_TEST, tuple(traceback.format_exc().strip().splitlines()[-3:]))
    payload = json.dumps({"answer": finding.answer.value, "evidence": finding.evidence}).encode()
    os.write(write_end, payload)  # below the pipe's 64 KiB buffer, so it never blocks
    os._exit(0)  # no finalisers: threads may still stand somewhere inside torch


def _read_some(child: Child) -> bool:
    """Read what is there; whether the child has closed its end."""
    chunk = os.read(child.read_end, 65536)
    child.text += chunk
    return not chunk


def _hung() -> Finding:
    return Finding(Answer.COULD_NOT_TEST, (f"the probe did not end within {DEADLINE_S:.0f} s",))


def judge(probe: Probe, text: bytes, returncode: int, crash: str) -> Finding:
    """The child's own answer, or what its death means, with the frame it died in."""
    if text:
        found = json.loads(text)
        return Finding(Answer(found["answer"]), tuple(found["evidence"]))
    evidence = (f"the probe's process died: {_exit_name(returncode)}", *crash_frame(crash))
    crashed = returncode < 0 and probe.crash_is_the_hazard
    return Finding(Answer.LEAKS if crashed else Answer.COULD_NOT_TEST, evidence)


def _exit_name(returncode: int) -> str:
    return f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"exit code {returncode}"
