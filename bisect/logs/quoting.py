"""Whether an error text in a line happened, or is only spoken about: a config value, a comment, a command, a hint."""

from __future__ import annotations

import re

_SPOKEN_START = re.compile(
    r"\s*(?:\#|//|/\*|\*\s|;;|<!--|\$\s|%\s|>>>\s|\++\s+(?=\S)|echo\b|printf\b|grep\b|rg\b|sed\b|awk\b"
    r"|if\b|elif\b|except\b|assert\b|raise\b|return\b|print\(|warnings\.warn|logger?\.\w+\(|log\.\w+\(|re\.\w+\("
    r"|(?:hint|tip|note|help|see also|known issues?|faq|usage|example|todo|fixme|workaround|solution)\b\s*[:\-])",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"\b(?:no|not|without|never|zero|avoids?|avoiding|prevents?|preventing|if|when|whenever|in case of|to fix|fixes|handles?|handling|catch(?:es)?"
    r"|retry(?:ing)? on|ignor(?:e|es|ing)|match(?:es|ing)?|looking for|searching for|grep(?:ping)? for|watch(?:es|ing)? for|checks? for|such as|e\.g\.|like"
    r"|may|might|could|would|can) (?:raise |cause |get |see |hit |run into |be |have |result in |lead to )?"
    r"(?:any |an? |the |further |more |you (?:see|get|hit|run into) |there (?:is|are) )*[\"'`]?\Z",
    re.IGNORECASE,
)
_MESSAGE_KEY = re.compile(
    r"(?:msg|message|error|errors|exception|exc|exc_info|exc_text|detail|details|traceback|stack|stderr|stdout|output|log|line|event|text|"
    r"body|content|reason|what|cause|data|warning|value)['\"]?\s*[:=]\s*[urbf]*[\"'`]?[^\"'`]*\Z",
    re.IGNORECASE,
)
_EXCEPTION_BEFORE = re.compile(r"(?:Error|Exception|Warning|Failure|Hit|Timeout)\(?[\"'`]?\Z")
_KEY_BEFORE = re.compile(
    r"(?:^\s*|[{,(\[]\s*)['\"]?[a-z_][\w.-]*['\"]?\s*[:=]\s*[\[(]?\s*(?:[\"'`][^\"'`]*[\"'`]\s*,\s*)*[urbf]*[\"'`]\Z",
    re.IGNORECASE,
)
_LIST_BEFORE = re.compile(r"(?:\[|,|\()\s*[urbf]*[\"'`]\Z|^\s*-\s+[\"'`]\Z", re.IGNORECASE)


def is_spoken_about(text: str, start: int) -> bool:
    """Whether the text that begins at `start` is quoted, conditional or a comment rather than a report."""
    before = text[:start]
    if _SPOKEN_START.match(text):
        return True
    if _CONDITIONAL.search(before):
        return True
    if _EXCEPTION_BEFORE.search(before) or _MESSAGE_KEY.search(before):
        return False
    return bool(_KEY_BEFORE.search(before) or _LIST_BEFORE.search(before))
