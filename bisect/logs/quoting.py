"""Whether an error text in a line happened, or is only spoken about: quoted, searched for, expected, denied, a comment.

An error that happened stands behind what launchers and loggers print, its exception's name, or nothing. What a search
found in a file, a diff, a commit, a source line, a test that expects it, a hint to the reader and a sentence about it
are none. A sentence that quotes it and does not say whether it happened leaves the question open.
"""

from __future__ import annotations

import re
from enum import Enum

_REACH = 600
"""Characters before and after an error text that are looked at."""

_SPOKEN_START = re.compile(
    r"\s*(?:\#(?!\#\[)|//|/\*|\*\s|;;|<!--|[<>]\s|\$\s|%\s|>>>\s|\++\s+(?=\S)|echo\b|printf\b|grep\b|rg\b|sed\b|awk\b"
    r"|if\b|elif\b|except\b|assert\b|raise\b|return\b|print\(|warnings\.warn|logger?\.\w+\(|log\.\w+\(|re\.\w+\("
    r"|(?:hint|tip|note|help|see also|known issues?|faq|usage|example|todo|fixme|workaround|solution)\b\s*[:\-]"
    r"|(?:\[?(?:INFO|DEBUG|NOTICE)\]?[\s:|-]+(?:[\w.]+ - )?)?"
    r"(?:hint|tip|note|see also|faq|usage|example|change ?log|release notes?|what's new|docs?|documentation|readme|news)\b\s*[:\-])",
    re.IGNORECASE,
)
_FOUND_BY_SEARCH = re.compile(
    r"(?:[\w~^-]+:)?[^\s:]+\.(?:(?:log|txt|out|err)(?:\.\d+)?|md|rst|jsonl?|ya?ml|toml|csv|html?|ipynb|xml|patch|diff|gz|xz|zst|bz2)"
    r"(?::\d+:|-\d+-|:(?!\s)|:(?=\s\s))"  # train.log:12:text, train.log-12-text, train.log:text
    r"|[^\s:]+\.(?:pyi?|cp?p?|cc|cuh?|h|sh|rs):\d+:(?![\d ]|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b|Detected\b)"
    r"|[^\s:]+\.(?:pyi?|cp?p?|cc|cuh?|h|sh|rs):\d+:\s\s"
    r"|\d+:(?=[^\s\d])",
)
"""What `grep`, `git grep` and `rg` put before a line; a Python warning and a test's location have one space instead."""
_COMMIT = re.compile(
    r"[*|\\/ ]*(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,11}|[0-9a-f]{40})\s(?!\W*(?:ERROR|WARN|CRITICAL|FATAL|INFO|DEBUG))"
    r"|HEAD is now at\b|\[[\w/.-]+ (?:\([\w-]+\) )?[0-9a-f]{7,}\]\s|Subject:|Merge (?:pull request|branch|tag)\b"
    r"|\s*(?:\[[^\]]+\]\s*)?(?:fix|feat|docs?|chore|refactor|revert)(?:\([^)]*\))?!?:\s"
    r"|\s*(?:\[[^\]]+\]\s*)?(?:Fix|Work around|Handle|Avoid|Document|Revert|Catch|Suppress|Ignore|Add|Explain|Mention"
    r"|Prevent|Silence|Reproduce|Describe|Quote)\b(?!:)",
)
"""Commit subjects, as `git log --oneline`, `git commit` and pull requests print them."""
_EXPECTED = re.compile(
    r"\bX(?:FAIL|PASS)\b|\bx(?:fail|pass)(?:ed)?\b|^SKIPPED \[\d+\]|\bexpected failure|\bpytest\.raises\(|\bassertRaises\w*\("
)
_SOURCE = re.compile(
    r"\braise\s+[\w.]+\(|^[\s\d\u2502\u2771|>+-]*[urbf]{0,2}[\"'`]\Z|^\s{4,}[\w.]+\s=\s[urbf]{0,2}[\"'`]\Z"
    r"|[\]):,'\"]\s+\#\s[^\"'`]*\Z"
)
"""A line of a program, also with the gutter of a listing or a diff before it."""
_REFERENCE = re.compile(
    r"[\w.-]+/[\w.-]+#\d+|https?://\S+/(?:issues|pull|discussions)/\d+|\bknown (?:issue|bug|problem|failure|error)s?\b"
    r"|\bProof: line \d+:|(?:^|[\s(|])`[^`']*\Z",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"\b(?:no|not|without|never|zero|avoids?|avoiding|prevents?|preventing|if|when|whenever|in case of|to fix|fixes|handles?|handling|catch(?:es)?"
    r"|retry(?:ing)? on|ignor(?:e|es|ing)|match(?:es|ing)?|looking for|searching for|grep(?:ping)? for|watch(?:es|ing)? for|checks? for|such as|e\.g\.|like"
    r"|may|might|could|would|can) (?:raise |cause |get |see |hit |run into |be |have |result in |lead to )?"
    r"(?:any |an? |the |further |more |you (?:see|get|hit|run into) |there (?:is|are) )*[\"'`]?\Z"
    r"|\b(?:abort|stop|exit|fail|raise|halt|terminate|skip|warn)s? (?:on|upon|at) (?:an? )?[\"'`]?\Z"
    r"|\b(?:search|look|grep|watch|scan|check)\w* .{0,60}\bfor [\"'`]?\Z"
    r"|(?:\bhandlers:? |\bhandlers? (?:for|on|of|installed|registered|set):? |\bfaulthandler:? (?:is )?(?:enabled|watch\w*|on)\b)[^.!]{0,40}\Z",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(
    r"\b(?:run|job|task|experiment|exp|project|group|sweep|session|file|host|node|user|display)[ _-]?(?:name|id)?['\"]?\s*[:=]\s*['\"]?[^\s,;:'\"]*\Z",
    re.IGNORECASE,
)
"""What somebody called a run, a job or a file is no message."""
_MESSAGE_KEY = re.compile(
    r"(?:msg|message|error|errors|exception|exc|exc_info|exc_text|detail|details|traceback|stack|stderr|stdout|output|log|line|event|text|"
    r"body|content|reason|what|cause|data|warning|value)['\"]?\s*[:=]\s*[urbf]*[\"'`]?[^\"'`]*\Z",
    re.IGNORECASE,
)
_EXCEPTION_NAME = re.compile(
    r"\b(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Failure)(?:: ?[\"'`\u201c]?|\([\"'])\Z"
)
"""The name of the exception between the words that speak about an error and its text."""
_TOLD_BEFORE = re.compile(
    r"(?<!not )(?<!be )\b(?:fixed|fixes|fixing|fix for|resolved|resolves|solved|solves|closes|closed|addresses|addressed|works around|worked around"
    r"|workaround for|patched|prevents|prevented|avoids|avoided|removes|removed|no longer (?:raises?|throws?|shows?|fails? with|gives?))"
    r"(?: (?:any|a|an|the|that|this|further|spurious|bug|crash|issue|race|error|threaded|in|with|where|of)){0,4}:?\s?[\"'`\u201c]?\Z"
    r"|\b(?:may|might|could|would|can|will sometimes|sometimes|used to) (?:still |sometimes |also |then )?(?:raise|cause|get|see|hit|run into|result in"
    r"|lead to|show|print|throw|fail with|crash with|die with|stop with|end (?:in|with)|abort with|report|log|display|produce|emit|trigger|give|say|read)"
    r"s?(?: (?:any|an?|the|this|following|with|error|message|exception)){0,3}:?\s?[\"'`\u201c]?\Z"
    r"|(?:^|[.;,(:]\s*|\b(?:please|also)\s)see:?(?: (?:the|also|error|message|entry))*\s?[\"'`\u201c]?\Z"
    r"|(?:\b(?:e\.g\.|i\.e\.|cf\.|for (?:example|instance)|such as|known as|so-called|so called|if you (?:see|get|hit|run into))|\b(?:if|no|not|never|without))"
    r",?(?: (?:any|an?|the|further|more|error|message))*\s?[\"'`\u201c]?\Z",
    re.IGNORECASE,
)
"""Words of a sentence about an error, directly before it: what was repaired, may happen, is referred to or denied."""
_TOLD_AFTER = re.compile(
    r"[\"'`\u201d.)]*(?: This is not supported at the moment)?[\"'`\u201d.)]*,? (?:(?:error|message|exception|crash|failure|bug|issue|race)s? )?"
    r"(?:(?:is|was|are|were|has been|have been|got|should be) (?:now |already |long |an? (?:old )?)?"
    r"(?:fixed|gone|resolved|solved|known|expected|harmless|benign|documented|repaired)\b|no longer (?:occurs?|happens?|appears?|shows?|raised)"
    r"|(?:does|did|do) not (?:occur|happen|appear)|(?:may|might|can|could) (?:occur|happen|appear|show))",
    re.IGNORECASE,
)
"""What follows an error that a sentence is about: that it is repaired, known or possible."""
_ISSUE_AFTER = re.compile(
    r"[\"'`\u201d.)]*(?: This is not supported at the moment)?[\"'`\u201d.)]*\s\((?:(?:see|cf\.|fixe[sd]|closes|gh-?) ?)?#\d{3,}\)\W*\Z",
    re.IGNORECASE,
)
_QUOTED_BEFORE = re.compile(r"\w,?\s[\"'`\u201c]\Z")
_CLOSED_AFTER = re.compile(r"[^\"\u201d]{0,200}[\"'`\u201d]")
_REPORTS = re.compile(
    r"\b(?:fail|die[sd]?\b|dying|crash|raise|caught|catch|got\b|gets\b|hit|hits\b|threw|throw|stop|exit|abort|end(?:s|ed)\b|terminat|report|exception|error|fatal"
    r"|critical|unhandled|uncaught|killed|broke|panic|return(?:s|ed)|with\b|lost\b|saw\b|seen\b|because)",
    re.IGNORECASE,
)
"""Words that report: behind one of them a text in quotation marks happened."""
_EXCEPTION_BEFORE = re.compile(r"(?:Error|Exception|Warning|Failure|Hit|Timeout)\(?[\"'`]?\Z")
_KEY_BEFORE = re.compile(
    r"(?:^\s*|[{,(\[]\s*)['\"]?[a-z_][\w.-]*['\"]?\s*[:=]\s*[\[(]?\s*(?:[\"'`][^\"'`]*[\"'`]\s*,\s*)*[urbf]*[\"'`]\Z",
    re.IGNORECASE,
)
_LIST_BEFORE = re.compile(r"(?:\[|,|\()\s*[urbf]*[\"'`]\Z|^\s*-\s+[\"'`]\Z", re.IGNORECASE)
_DENIED = re.compile(
    r"s?[\"'`)\]]*(?: (?:errors?|events?|occurred|happened|seen|found|detected))?\s*"
    r"(?:\?|[:=]\s*(?:none\b|(?:0|no|never|false|off)\s*[.,;)]?\s*\Z))"
    r"|\s+(?:signal )?(?:handler|guard|detector|detection|protection|simulation|check(?:er)?)s?\b"
    r"(?!.{0,60}\b(?:caught|called|invoked|triggered|fired|failed|hit|entered))",
    re.IGNORECASE,
)
"""What follows a text that did not happen: a question, a count of none, the handler that waits for it."""
_COUNTED = re.compile(r"\b(?:occurrences?|count|number|hits?) (?:of|for)\b[^:]*\Z", re.IGNORECASE)
_NONE = re.compile(r"[:=]\s*(?:0|none)\s*\Z", re.IGNORECASE)


class Speech(Enum):
    """How a line holds an error text."""

    REPORTED = "reported"
    SPOKEN_ABOUT = "spoken about"
    OPEN = "quoted, and nothing says whether it happened"


def speech(text: str, start: int, end: int) -> Speech:
    """Whether the text from `start` to `end` is quoted, expected, conditional or denied rather than reported."""
    before = text[max(0, start - _REACH) : start]
    after = text[end : end + _REACH]
    if any(pattern.match(text) for pattern in (_SPOKEN_START, _FOUND_BY_SEARCH, _COMMIT)):
        return Speech.SPOKEN_ABOUT
    if any(pattern.search(before) for pattern in (_EXPECTED, _SOURCE, _REFERENCE, _CONDITIONAL, _NAME_BEFORE)):
        return Speech.SPOKEN_ABOUT
    if _DENIED.match(after) or (_COUNTED.search(before) and _NONE.search(after)):
        return Speech.SPOKEN_ABOUT
    told = _in_a_sentence(before, after)
    if told is not None:
        return told
    if _EXCEPTION_BEFORE.search(before) or _MESSAGE_KEY.search(before):
        return Speech.REPORTED
    return Speech.SPOKEN_ABOUT if _KEY_BEFORE.search(before) or _LIST_BEFORE.search(before) else Speech.REPORTED


def _in_a_sentence(before: str, after: str) -> Speech | None:
    """What a sentence around an error text makes of it; None where there is none."""
    name = _EXCEPTION_NAME.search(before)
    opened = before[: name.start()] if name and name[0][-1] not in "\"'`\u201c" else before
    lead = before[: name.start()] if name else before
    told = _TOLD_BEFORE.search(lead)
    if told is not None:
        return Speech.OPEN if _REPORTS.search(lead[: told.start()]) else Speech.SPOKEN_ABOUT
    if _TOLD_AFTER.match(after):
        return Speech.OPEN if _REPORTS.search(lead) else Speech.SPOKEN_ABOUT
    if lead.strip() and _ISSUE_AFTER.match(after) and not _REPORTS.search(lead):
        return Speech.SPOKEN_ABOUT
    if _QUOTED_BEFORE.search(opened) and _CLOSED_AFTER.match(after) and not _REPORTS.search(opened):
        return Speech.OPEN
    return None
