"""Whether the end of a log says plainly that the whole work is finished, and the step it stopped at where it does not.

A counter that stopped short of its total may be that of a log cut before the failure. The word of a part (a checkpoint,
an evaluation, a shard, an epoch, one worker of several) is no end of the whole, nor is one denied, quoted or expected.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from .steps import LAST_LINES, MAX_DIGITS, TROUBLE, epoch_of, step_in
from .workers import PROCESS, named_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .steps import Step
    from .text import Line

MAX_PREFIXES = 12
"""Time stamps, levels, names of loggers and of workers that may stand before what a line says."""
FIRST_PROCESS = f"{PROCESS}-0"
"""The process that speaks for all of them where they train together."""

_PREFIX = re.compile(
    r"""(?:
      (?P<worker>(?P<kind>drafter|thread|worker|replica|rank)[-_ #=]?(?P<number>\d{1,6})(?=[\s:\]|)]))[\]:|)]*
    | \[[^\]]{0,80}\]:? | \([^)]{0,60}\):?
    | (?:DEBUG|INFO|NOTICE)\b[:\]|]*
    | \d[\d:.,TZ+-]{3,39}(?=\s) | \d{2,4}/\d\d/\d{2,4}(?=\s)
    | [\w./@\#-]{1,80}(?:\[\d+\])?(?:[:\]|>]+(?=\s)|[ ]+-+(?=\s)|:(?=\w+[:\s]))
    | (?!\#\s)[^\w\s\[("'{<`$]+
    )\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_OF_A_PART = re.compile(
    r"(?<![a-z])(?:warm-?up|eval|valid|test|check-?point|ckpt|data|load|sav|shard|prefetch|cach|token|download|upload|compil|sync|wandb"
    r"|config|args|example|hint|note|doc|expect|todo|next|plan|sanity|profil|print|(?:epoch|fold|stage|phase|trial|round|step)\W{0,2}\d)",
    re.IGNORECASE,
)
"""A name before the word of an end that makes it one of a part, of a setting or of an advice."""
_MESSAGE = re.compile(
    r"^(?:\{|(?:time|timestamp|ts|t|level|lvl)=).{0,400}?\b(?:msg|message|event)(?:\"\s*:\s*|=)\"(?P<said>[^\"]*)\""
)
"""What a logger says that writes JSON or `level=info msg="..."`."""

_ENDED = r"(?:finish(?:ed)?|completed?|done)\b"
_WHOLE = (
    r"(?:(?:the|this|whole|entire|main|model|drafter|draft|distributed|total) ){0,4}"
    r"(?:(?:pre-?)?train(?:ing)?(?: (?:run|job|loop|process|script|work))?|fine-?tuning|fit(?:ting)?|run|main|everything"
    r"|(?:slurm )?job(?: #?\d{1,12})?|experiment|benchmark|program|script|process|all work"
    r"|all (?:of )?(?:the )?(?:\d{1,9} )?(?:drafters?|workers?|threads|drafter threads|ranks|replicas|processes|trainers|steps|epochs|iterations)"
    r"|epoch (?P<epoch>\d{1,9}) ?(?:/|of) ?(?P=epoch)|(?P<some>\d{1,9}) ?(?:/|of) ?(?P=some) (?:drafters|workers|threads|steps|epochs|iterations))"
)
_THEN = r"(?:(?:\s+|\s*[:=-]{1,3}\s*)(?:is|was|has|have|been|are|were|now|all|status|successfully|fully|normally|cleanly))*(?:\s+|\s*[:=-]{1,3}\s*)"
_WHOLE_BEHIND = _WHOLE.replace("epoch>", "last>").replace("=epoch", "=last").replace("some", "every")
_SAYS_END = re.compile(
    rf"(?:{_WHOLE}{_THEN}{_ENDED}(?: training\b(?!-))?|(?:finished|completed|done)(?: with| all| the| whole| entire){{0,3}} {_WHOLE_BEHIND}(?![\w-])"
    r"|(?:successfully )?(?:finished|completed) (?:the )?training\b|(?:saved (?:the )?final (?:checkpoint|model)|final (?:checkpoint|model) saved)\b)",
    re.IGNORECASE,
)
_BARE_END = re.compile(
    rf"(?:all )?{_ENDED}(?P<how>(?: (?:in|after) [\d.:]+ ?\w{{0,8}}| early| successfully)?)\W*\Z", re.IGNORECASE
)
_GOES_ON = re.compile(
    r"\s*(?:\Z|[^\w\s?%\"'`]|(?:in|after|at|on|for|of|to|with|without|successfully|normally|cleanly|early|ok|by|and|as|because)\b)",
    re.IGNORECASE,
)
_NOT_SO = re.compile(
    r"\A['\"]?\s*(?:[:=]|is|\()\s*['\"]?(?:(?:false|none|null|not?|0|n|pending)\b(?! \w)|not\b|never\b)|\A\W{0,4}(?:(?:at|to|for) )?\d{1,2}(?:\.\d+)? ?%|\?"
    r"|\A[^.;,]*\b(?:soon|later|yet|if|once|until|unless|will|would|should|shall|expected|estimated|almost|nearly|eta)\b"
    r"|\A in (?:~|about|approx|est)|\b[1-9]\d* (?:\w+ ){0,2}(?:left|remaining|to go)\b|\bso far\b"
    r"|\b(?:start|begin|enter|launch|resum|continu|proceed|mov|switch)\w*\b.{0,40}\b(?:train|run|epoch|phase|stage|main|fine-?tun|step)"
    r"|\A[^.;]*\b(?:for|of|on|in)\s+(?:the )?(?:first |last )?(?:epoch|fold|stage|phase|shard|split|drafter|worker|rank|thread|replica)|\A with (?:the )?(?:load|init|sav|compil|set-?up|prefetch|data)|\A[^.;]*\bwarm",
    re.IGNORECASE,
)
"""What, behind the word of an end, takes it back: denied, a part of it, still to come, or followed by the next part."""
_SHARE = re.compile(r"(?<![\d/.-])(\d{1,9})\s*(?:/|of)\s*(\d{1,9})(?![\d/.-])")
_SUMMARY = re.compile(
    r"['\"]?\btrain_runtime['\"]?\s*[:=]\s*['\"]?\d|\bTrainOutput\(|\btrained (?:for )?[1-9]\d* (?:steps|epochs|iterations)(?! (?:so|per))"
)
_ON_PURPOSE = re.compile(
    r"\bearly[- ]stopp(?:ed|ing)\b(?!\s*[=\"']|\W{0,3}(?:is |was )?(?:counter|patience|check|callback|hook|config|setup|init|score|enabled|disabled|on\b|off\b|true|false|not|in\b|will|would|if|when|monitor|metric|\d))"
    r"|\bstopp(?:ed|ing) early\b"
    r"|\bmax(?:imum)?[_ -](?:(?:train(?:ing)?|wall)[_ -])?(?:time|runtime|duration|steps|epochs|iterations|tokens)\b[`'\"]?(?:[ =]{1,3}(?:of )?[\d.:]+ ?\w{0,8})?[`'\"]? (?:(?:is|was|has been) )?"
    r"(?:reached|exceeded|exhausted|met)\b|\b(?:time|token|step) budget (?:is |was )?(?:reached|exhausted|used up)\b",
    re.IGNORECASE,
)
_NOT_ON_PURPOSE = re.compile(
    r"\b(?:no|not|never|without|if|when|until|once|unless|will|would|may|can|config\w*|args|using|hint)\b|[=\"'{(]|--",
    re.IGNORECASE,
)
_MAY_END = re.compile(r"finish|complete|done|stop|reached|budget|max|train_?(?:ed|runtime|output)|final", re.IGNORECASE)
_DRY_RUN = re.compile(r"\bdry[- ]run\b", re.IGNORECASE)
_BEGUN = re.compile(r"(?!train|run|fine|fit)(?:\w+ing\b|.*(?:\.\.\.|\u2026)\s*\Z)", re.IGNORECASE)
"""A line that announces what is being done: a bare `done` below it is that thing's."""


@dataclass(frozen=True, slots=True)
class _End:
    """The word of an end at a line, and the worker that says it (`drafter-1`; empty for the run itself)."""

    line: int
    speaker: str


def short_of_end(lines: Sequence[Line], steps: Sequence[tuple[int, Step]]) -> Step | None:
    """The farthest step where, by its own word of how many there are, more were to come and nothing after it tells an end.

    Of the steps told last and of those told most: an evaluation that came to its end is not the end of training. A log
    that reports every tenth step need not report the last one, and some count from 0.
    """
    counted = [
        (line, step) for line, step in steps if step.total and max(len(step.done), len(step.total)) <= MAX_DIGITS
    ]
    told = [(step.unit, step.total) for _, step in counted]
    for unit, total in dict.fromkeys((*told[-1:], *(most for most, _ in Counter(told).most_common(1)))):
        alike = [(line, step) for line, step in counted if (step.unit, step.total) == (unit, total)]
        epoch = epoch_of(alike[-1][1])
        made = {int(step.done): step for _, step in alike if epoch_of(step) == epoch}
        apart = median(later - earlier for earlier, later in pairwise(sorted(made))) if len(made) > 1 else 1
        if max(made) + apart < int(total) and not says_finished(lines, after=alike[-1][0]):
            return made[max(made)]
    return None


def says_finished(lines: Sequence[Line], *, after: int = 0) -> bool:
    """Whether the last lines, of those after a line, say that the whole work is finished, or why it stopped on purpose.

    What one worker says counts where all that the log names have said it; of processes the first may speak for all.
    """
    last = range(max(0, len(lines) - LAST_LINES), len(lines))
    ends = [end for at in last if lines[at].number > after and (end := _end_in(lines, at))]
    if any(not end.speaker or end.speaker == FIRST_PROCESS for end in ends):
        return True
    return bool(ends) and _all_ended(lines, kinds={_kind(end.speaker) for end in ends})


def _all_ended(lines: Sequence[Line], *, kinds: set[str]) -> bool:
    """Whether each worker of these kinds made no step after it said that it was at its end; one alone had to work before."""
    named: set[str] = set()
    worked: set[str] = set()
    ended: set[str] = set()
    for at, line in enumerate(lines):
        name = named_worker(line)
        if _kind(name) not in kinds:
            continue
        named.add(name)
        if _MAY_END.search(line.text) and (end := _end_in(lines, at)):
            ended.add(end.speaker)
            continue
        worked.add(name)
        if name in ended and step_in(line.text) is not None:
            ended.remove(name)
    return named <= ended and (len(named) > 1 or named <= worked)


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _end_in(lines: Sequence[Line], at: int) -> _End | None:
    line = lines[at]
    if TROUBLE.search(line.text) or _DRY_RUN.search(line.text):
        return None
    message = _MESSAGE.match(line.text)
    said, speaker = _without_prefixes(message["said"] if message else line.text)
    if said is None:
        return None
    bare = _BARE_END.match(said) is not None and not (at and _is_begun(lines[at - 1].text))
    ended = bare or _says_end(said) or _says_why(said) or _SUMMARY.search(said)
    return _End(line.number, speaker or line.label.lower() or line.rank) if ended else None


def _is_begun(text: str) -> bool:
    said, _ = _without_prefixes(text)
    return step_in(text) is None and (said is None or _BEGUN.match(said) is not None)


def _without_prefixes(text: str) -> tuple[str | None, str]:
    """What a line says and the worker that a prefix names; None where a prefix makes it the word of a part."""
    speaker, rest = "", text.lstrip()
    for _ in range(MAX_PREFIXES):
        match = None if _SAYS_END.match(rest) or _BARE_END.match(rest) else _PREFIX.match(rest)
        if match is None:
            break
        if match["worker"]:
            speaker = f"{match['kind'].lower()}-{match['number']}"
        elif _OF_A_PART.search(match[0]) or _is_partly(match[0]):
            return None, speaker
        rest = rest[match.end() :]
    return rest, speaker


def _says_end(said: str) -> bool:
    match = _SAYS_END.match(said)
    if match is None:
        return False
    tail = said[match.end() :]
    return bool(_GOES_ON.match(tail)) and not _NOT_SO.search(tail) and not _is_partly(tail)


def _is_partly(text: str) -> bool:
    return any(int(some) < int(every) for some, every in _SHARE.findall(text))


def _says_why(said: str) -> bool:
    match = _ON_PURPOSE.search(said)
    if match is None or _NOT_ON_PURPOSE.search(said[: match.start()].replace("`Trainer.fit`", "")):
        return False
    tail = said[match.end() :]
    partly = re.search(r"\b(?:counter|patience)\b", tail, re.IGNORECASE) is not None
    return not partly and not re.match(
        r"\W*(?:false|no(?! improve)|not|never|soon|in \d)\b|.*(?:\?|[:=]\s*(?:false|none|no(?! improve)|0)\b)",
        tail,
        re.IGNORECASE,
    )
