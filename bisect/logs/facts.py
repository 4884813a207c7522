"""What a log says beside its errors: threads, steps, versions, variables, whether it came to its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from .ends import says_finished, short_of_end
from .passages import last_file
from .steps import (
    TROUBLE,
    is_last_of_all,
    num_different,
    says_installed,
    says_worked,
    step_in,
)
from .workers import workers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .steps import Step
    from .text import Line
    from .workers import Worker

_NUM_THREADS = re.compile(
    r"(?:(?<![\w-])threads|--threads|num_drafters|drafter[_ ]threads|num_(?:drafter_|worker_)?threads)['\"]?\s*[=: ]\s*(\d{1,6})\b"
    r"|\b(\d{1,6}) (?:drafter |training |worker |python )?threads?\b",
    re.IGNORECASE,
)
_OTHER_THREADS = re.compile(
    r"OMP|MKL|intra|inter-?op|interop|openmp|blas|dataloader|loader|cpu threads|numexpr|waiting", re.IGNORECASE
)
_CONTROL = re.compile(
    r"\bcontrol\b.{0,40}\b(?:1|one|single)[- ]thread|\b(?:1|one|single)[- ]thread\w*\b.{0,20}\bcontrol\b|\bcontrol\b.{0,30}\bthreads?\s*[=:]\s*1\b",
    re.IGNORECASE,
)
_OVER = re.compile(r"\b(?:pass\w*|clean|ok|succe\w+|done|finish\w*|complete\w*|fail\w*)\b", re.IGNORECASE)
_LABELS = re.compile(r"\b(drafter-\d+|Thread-\d+|replica \d+)\b", re.IGNORECASE)
_RETURNCODE = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|\brc|returncode|return code|finished with exit code)['\"]?\s*[:= ]\s*(-?\d{1,3})\b",
    re.IGNORECASE,
)
_LAUNCHER = re.compile(
    r"^srun: error: .{0,80}Exited with exit code (?P<srun>-?\d{1,3})\b|\bfailed \(exitcode: (?P<elastic>-?\d{1,3})\) local_rank"
    r"|^\s*exitcode\s*: (?P<summary>-?\d{1,3}) \(pid: \d+\)|\bexits with return code = (?P<deepspeed>-?\d{1,3})\b"
    r"|^\s*Exit [Cc]ode:\s+(?P<mpirun>\d{1,3})\s*$"
    r"|^##\[error\]Process completed with exit code (?P<action>\d{1,3})\b|\bscript returned exit code (?P<jenkins>\d{1,3})\b"
    r"|^Command exited with non-zero status (?P<time>\d{1,3})\b|\bExitCode=(?P<scontrol>\d{1,3}):\d"
    r"|^\d+(?:_\d+)?(?:\.\w+)?\s.{0,80}\sFAILED\s+(?P<sacct>\d{1,3}):\d+\s*$"
)
"""How srun, torch's elastic launcher, DeepSpeed's, mpirun, Slurm's accounting, time and runners of jobs tell of a
process that they started and that failed."""
_MAY_TELL_CODE = re.compile(r"[Cc]ode|status|FAILED")
_TORCH = re.compile(
    r"torch\.__version__['\"]?\)?\s*[=:]*\s*['\"]?(?P<a>\d+\.\d+\.\d+[\w.+]*)|PyTorch version(?: \([\w?]{1,12}\))?: (?P<b>\d+\.\d+\.\d+[\w.+]*)"
    r"|^(?:[\s:|>-]*(?:\[[^\]\s]{1,30}\]|\b(?:INFO|DEBUG|NOTICE)\b|[\w.]{1,40}(?=\s*[:|-]))[\s:|-]{1,3}){0,4}[\s:|-]*"  # a logger's prefix
    r"(?:using |running (?:on |with )?|versions?: )?(?:py)?torch(?: version)?\s*[:=]?\s*v?(?P<c>\d+\.\d+\.\d+[\w.+]*)(?=$|[\s,;)\]])"
    r"|(?:[,;|(]\s*|:\s*['\"]|\b(?:using|on) )(?:py)?torch(?: version)?\s*[:=]?\s*v?(?P<f>\d+\.\d+\.\d+[\w.+]*)(?=$|[\s,;)\]'\"|])"
    r"|\b(?:[\w-]+[ =:/]v?\d+\.\d+[\w.+]*[,;|]?\s+)(?:py)?torch[ =:/]v?(?P<g>\d+\.\d+\.\d+[\w.+]*)(?=$|[\s,;)\]|])"
    r"|\b(?:py)?torch[ =:/]v?(?P<h>\d+\.\d+\.\d+[\w.+]*)(?=[,;|]?\s+(?:python|cuda|triton|nccl|cudnn|numpy|transformers|torchvision)[ =:/]v?\d)"
    r"|\b(?:py)?torch version\s*[:=]?\s*v?(?P<i>\d+\.\d+\.\d+[\w.+]*)(?=$|[\s,;)\]|])"
    r"|['\"](?:py)?torch(?:_version)?['\"]\s*:\s*['\"](?P<d>\d+\.\d+\.\d+[\w.+]*)['\"]|^torch==(?P<e>\d+\.\d+\.\d+[\w.+]*)\s*(?:$|;|\\)",
    re.IGNORECASE,
)
_ASKED_BEFORE = re.compile(
    r"requir|need|expect|depend|compatib|\b(?:built|compiled|tested|made)\b|\b(?:for|against)\b|support|install|upgrad|downgrad",
    re.IGNORECASE,
)
_ASKED_AFTER = re.compile(
    r"\s*(?:or (?:newer|later|above)|(?:is |was )?(?:required|needed|expected|recommended|supported)|(?:fixes|needs|requires)\b)",
    re.IGNORECASE,
)
"""What stands about a torch that somebody asks for, or made a package for."""
_ANOTHERS = re.compile(
    r"checkpoint|ckpt|\b(?:saved|written|wrote|created|exported|previous\w*|earlier|last|old|known|bug|issue|fixed|broken|tested|seen)\b",
    re.IGNORECASE,
)
"""What stands about the torch of another run."""
_CUDA = re.compile(
    r"(?:torch\.version\.cuda['\"]?\)?|CUDA used to build PyTorch)\W{1,4}(\d+\.\d+)"
    r"|\btorch[ =:/]v?\d+\.\d+\.\d+[,;|]?\s+\(?cuda[ =:/]v?(\d+\.\d+)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(
    r"(?:^(?:export |env |\+ |\$ |declare -x )*|[{,]\s*)['\"]?([A-Z][A-Z0-9_]{3,})['\"]?(?:=|['\"]?: )['\"]?([\w./:+-]*)['\"]?"
)
_ASSIGNMENTS = re.compile(r"(?:export |env |[+$] )*((?:[A-Z][A-Z0-9_]{2,}=[\w./:,+-]*\s+){2,})")
_ASSIGNMENT = re.compile(r"(\w+)=(\S*)")
_COMMAND = re.compile(
    r"\s*(?:[+$] |(?:env|exec|sudo|nohup|time(?:out)?|srun|mpirun|mpiexec|torchrun|docker|podman|apptainer|singularity|kubectl|ssh)\s)"
)
_SET_IN_COMMAND = re.compile(
    r"(?<!\S)(?:env\s+|(?:-e|-x|--env)[\s=])['\"]?((?:[A-Z][A-Z0-9_]{2,}=[\w./:,+-]*['\"]?(?:\s+|$))+)"
)
"""`docker run -e NAME=1`, `mpirun -x NAME=1`, `srun env NAME=1 python`: set in the middle of a command."""
_COMPILED = re.compile(
    r"\b(?:compile[sd]?|compile events|compiled (?:graphs|functions|frames)|num_compiles)\b['\"]?\s*[:=]?\s*[1-9]\d*\b(?!\.)",
    re.IGNORECASE,
)
_RETRY = re.compile(
    r"\bretry(?:ing)?\b\W{0,3}(?:attempt\W{0,2})?\d|\battempt \d+ ?(?:/|of) ?\d+|retrying|falling back to (?:eager|uncompiled)|re-?running (?:the )?step"
    r"|second attempt|restart(?:ing|ed) (?:the )?(?:step|worker|training)",
    re.IGNORECASE,
)


_SHORT_SILENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What a log says beside its errors; positions are line numbers, 0 where there is none.

    Attributes:
        num_threads: worker threads the log states; None where it does not.
        control_phase: the lines between which the same log shows the control with one thread; zeros without one.
        labels: names of threads that spoke or died in it.
        workers: those of them that report steps of their own.
        steps: lines that report a step of training, and `different_steps` how many different ones they tell.
        first_step: position of the first of them.
        last_file: line of the header over the last file, where the log is several files shown by `head` or `tail`.
        last_step: position of the last of them, and `last_step_text` what it says.
        short_of_end: the farthest step, where by its own count more were to come and nothing after it tells an end.
        finished: whether the end of the log says that the whole work was done, or its last step was the last of all; where none is counted, what the run does instead.
        told_end: whether it does so in words, after which nothing goes wrong any more; else its last step was the last of all.
        worked: whether it says so of the training.
        installed: whether the end of the log is an installer's last word.
        returncode: the exit code the log itself reports, if it does.
        launcher_code: the first exit code but 0 that a launcher in the log tells of one of its processes; 0 for none.
        torch: versions of torch printed, with their positions.
        cuda: the CUDA version torch says it was built for.
        variables: environment variables the log shows as set.
        compiled: whether it counts at least one compilation.
        retries: positions of lines that say something is tried again.
        readable: whether it is text at all.
        was_moving: whether the last step stands shortly before the last time stamp of the log; None where its time stamps
            do not show it.
    """

    num_threads: int | None = None
    control_phase: tuple[int, int] = (0, 0)
    labels: frozenset[str] = frozenset()
    workers: tuple[Worker, ...] = ()
    first_step: int = 0
    last_file: int = 0
    steps: int = 0
    different_steps: int = 0
    last_step: int = 0
    last_step_text: str = ""
    short_of_end: Step | None = None
    finished: bool = False
    told_end: bool = False
    worked: bool = False
    installed: bool = False
    returncode: int | None = None
    launcher_code: int = 0
    torch: tuple[tuple[int, str], ...] = ()
    cuda: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    compiled: bool = False
    retries: tuple[int, ...] = ()
    readable: bool = True
    was_moving: bool | None = None


def read_facts(lines: Sequence[Line]) -> LogFacts:
    """Read them all in one pass over each pattern."""
    reports = [(line, step) for line in lines if (step := step_in(line.text))]
    steps = [(line.number, step) for line, step in reports]
    told_end = says_finished(lines) or (not steps and says_worked(lines, steps=0))
    stated = _stated_threads(lines)
    phase = _control_phase(stated)
    all_made = is_last_of_all(steps[-1][1] if steps else None)
    return LogFacts(
        num_threads=_num_threads(stated, phase),
        control_phase=phase,
        labels=frozenset(
            label.lower() for line in lines for label in (*_LABELS.findall(line.text), line.label) if label
        ),
        workers=workers_of(lines, reports),
        first_step=steps[0][0] if steps else 0,
        last_file=last_file(lines),
        steps=len(steps),
        different_steps=num_different(steps),
        last_step=steps[-1][0] if steps else 0,
        last_step_text=steps[-1][1].text if steps else "",
        short_of_end=short_of_end(lines, steps),
        finished=all_made or told_end,
        told_end=told_end,
        worked=all_made or says_worked(lines, steps=len(steps)),
        installed=says_installed(lines),
        returncode=_returncode(lines),
        launcher_code=_launcher_code(lines),
        torch=tuple((line.number, version) for line in lines if (version := _torch_version(line.text))),
        cuda=next((match[1] or match[2] for line in lines if (match := _CUDA.search(line.text))), ""),
        variables=tuple(pair for line in lines if "_" in line.text for pair in _variables(line.text)),
        compiled=any("compile" in line.text.lower() and _COMPILED.search(line.text) for line in lines),
        retries=tuple(line.number for line in lines if _RETRY.search(line.text)),
        readable=_is_readable(lines),
        was_moving=_was_moving(lines, [number for number, _ in steps]),
    )


def _variables(text: str) -> list[tuple[str, str]]:
    """Variables shown as set; several before one command as well."""
    before_command = _ASSIGNMENTS.match(text)
    first = _ASSIGNMENT.findall(before_command[1]) if before_command else []
    inside = _SET_IN_COMMAND.findall(text) if _COMMAND.match(text) else ()
    later = [pair for group in inside for pair in _ASSIGNMENT.findall(group.replace("'", "").replace('"', ""))]
    return [*first, *later, *_VARIABLE.findall(text)]


def _stated_threads(lines: Sequence[Line]) -> list[tuple[Line, int]]:
    return [
        (line, int(match[1] or match[2]))
        for line in lines
        if ("thread" in line.text.lower() or "num_drafters" in line.text)
        and (match := _NUM_THREADS.search(line.text))
        and not _OTHER_THREADS.search(line.text)
        and not TROUBLE.search(line.text)
    ]


def _control_phase(stated: Sequence[tuple[Line, int]]) -> tuple[int, int]:
    """From a line that announces the control with one thread to the next that states more of them."""
    start = next(
        (at.number for at, n in stated if n == 1 and _CONTROL.search(at.text) and not _OVER.search(at.text)), 0
    )
    end = next((at.number for at, n in stated if n > 1 and at.number > start), 0)
    return (start, end) if start and end else (0, 0)


def _num_threads(stated: Sequence[tuple[Line, int]], phase: tuple[int, int]) -> int | None:
    return next((count for line, count in stated if not phase[0] <= line.number < phase[1]), None)


def _was_moving(lines: Sequence[Line], steps: Sequence[int]) -> bool | None:
    """Whether the silence before the end was no longer than a few steps: out of time is not hung."""
    stamps = {line.number: line.seconds for line in lines if line.seconds is not None}
    times = [stamps[number] for number in steps if number in stamps]
    ends = [stamp for number, stamp in stamps.items() if steps and number > steps[-1]]
    if len(times) < 3 or not ends:
        return None
    gap = median(later - earlier for earlier, later in pairwise(times))
    return 0 <= max(ends) - times[-1] <= max(_SHORT_SILENCE_S, 5 * gap)


def _returncode(lines: Sequence[Line]) -> int | None:
    for line in reversed(lines[-40:]):
        match = _RETURNCODE.search(line.text)
        if match is not None:
            return int(match[1])
    return None


def _launcher_code(lines: Sequence[Line]) -> int:
    matches = (match for line in lines if _MAY_TELL_CODE.search(line.text) for match in _LAUNCHER.finditer(line.text))
    codes = (int(code) for match in matches for code in match.groups() if code)
    return next((code for code in codes if code), 0)


def _torch_version(text: str) -> str:
    if "torch" not in text.lower():
        return ""
    match = _TORCH.search(text)
    if match is None:
        return ""
    group = next(name for name, version in match.groupdict().items() if version)
    before, after = text[: match.start(group)], text[match.end(group) :]
    if group in "cfghi" and (_ASKED_BEFORE.search(before) or _ASKED_AFTER.match(after)):
        return ""
    if group in "ghi" and _ANOTHERS.search(before):
        return ""
    return match[group]


def _is_readable(lines: Sequence[Line]) -> bool:
    text = "".join(line.text for line in lines[:400])
    odd = sum(1 for character in text if character == "\ufffd")
    return odd * 10 <= len(text)
