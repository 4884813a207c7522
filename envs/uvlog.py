"""What went wrong when uv failed, from what it wrote. Pure rules, most specific first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import CannotBuildError, CannotRunError, ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    pattern: re.Pattern[str]
    outcome: str
    message: str
    hint: str


def _rule(pattern: str, outcome: str, message: str, hint: str) -> _Rule:
    return _Rule(pattern=re.compile(pattern, re.IGNORECASE), outcome=outcome, message=message, hint=hint)


_RULES = (
    _rule(
        r"No space left on device|os error 28|Disk quota exceeded|os error 122",
        "disk_full",
        "the disk is full",
        "free some space, or put the store elsewhere with --store (and uv's cache with UV_CACHE_DIR)",
    ),
    _rule(
        r"Hash mismatch",
        "build_failed",
        "a downloaded file is not the locked one",
        "the index serves other bytes for this version; use the index the lock was made from, or make the lock again",
    ),
    _rule(
        r"network (?:connectivity )?(?:is|was) disabled|--offline|in offline mode",
        "download_failed",
        "something needed is not in the cache and the network is off",
        "run once without --offline, or give a directory of wheels with --wheelhouse",
    ),
    _rule(
        r"dns error|error sending request|tcp connect error|Connection refused|Connection reset|timed? ?out"
        r"|client error \(Connect\)|certificate|error decoding response body|Request failed after",
        "download_failed",
        "the package index cannot be reached",
        "check the network and proxies, or give a mirror with ENVS_INDEX and ENVS_DEFAULT_INDEX, "
        "or a directory of wheels with --wheelhouse",
    ),
    _rule(
        r"status code: (?:404|403|410)|HTTP status client error",
        "not_published",
        "the index does not have it",
        "check the index, the version and the variant",
    ),
    _rule(
        r"There is no version of torch[=<>~!]|no version of torch==|only the following versions of torch"
        r"|torch\S* has no (?:usable )?wheels|torch==\S+ has no wheels|torch was not found",
        "not_published",
        "this torch is not on the index",
        "ask which ones are with `python -m bisect torch-releases --dry-run`; nightlies are removed after a while",
    ),
    _rule(
        r"No solution found|unsatisfiable|conflict",
        "resolution_conflict",
        "the requirements contradict each other",
        "a pinned dependency may have been removed from the index; see the log",
    ),
    _rule(
        r"has no wheels with a matching|no wheels? with a matching|wheels are required"
        r"|building source distributions is disabled",
        "not_published",
        "there is no wheel for this Python or platform",
        "use another of the definition's Pythons",
    ),
)


def explain(log: str, *, subject: str) -> ToolError:
    """The error to raise for a failed uv, with the lines that say why.

    A full disk is the machine's fault (CannotRunError), everything else the environment's.
    """
    detail = _detail(log)
    for rule in _RULES:
        if rule.pattern.search(log):
            kind = CannotRunError if rule.outcome == "disk_full" else CannotBuildError
            return kind(f"{subject}: {rule.message}: {detail}", hint=rule.hint, outcome=rule.outcome)
    return CannotBuildError(f"{subject}: uv failed: {detail}", hint="the log says more", outcome="build_failed")


def _detail(log: str) -> str:
    """The lines after uv's error mark, without its drawing characters, as one line of at most 400 characters."""
    lines = [_plain(line) for line in log.splitlines()]
    start = next((number for number, line in enumerate(lines) if _marks_error(line)), max(0, len(lines) - 5))
    text = " ".join(line for line in lines[start:] if line)
    text = re.sub(r"^(?:error:|x)\s*", "", text)
    return f"{text[:400]}..." if len(text) > 400 else text or "it wrote nothing"


def _marks_error(line: str) -> bool:
    return line.startswith(("error:", "x "))


def _plain(line: str) -> str:
    """Drop colours and box drawing; keep the words."""
    without_colour = re.sub(r"\x1b\[[0-9;]*m", "", line)
    text = without_colour.replace("\N{MULTIPLICATION X}", "x").replace("\N{MULTIPLICATION SIGN}", "x")
    return re.sub(r"//[^/@\s]+@", "//", re.sub(r"[^\x20-\x7e]", "", text)).strip()
