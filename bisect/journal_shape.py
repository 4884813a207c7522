"""What each entry of a journal must hold, and how entries must fit together: damage is named, never believed.

Knows the entries alone, no file. Whoever reads an entry takes the keys it knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .model import Conclusion
from .packages.differences import ItemKind
from .shapes import (
    COMMAND,
    COUNT,
    NAME,
    NAMES,
    NUMBER,
    OBJECT,
    PAIRS,
    SECONDS,
    TEXT,
    TEXTS,
    TRUTH,
    Kind,
    Shape,
    fault,
    is_number,
    list_of,
    may_lack,
    one_of,
    or_none,
    record,
)

ORDERED = ("torch-nightlies", "torch-releases", "releases")
PACKAGES, MATRIX = "packages", "matrix"
_NUMBERED = re.compile(r"run-[0-9]{4,9}")

Entry: TypeAlias = Mapping[str, Any]

_RUN = Kind(fits=lambda value: isinstance(value, str) and bool(_NUMBERED.fullmatch(value)), words="like run-0001")
_RUN_OR_NONE = Kind(fits=lambda value: value == "" or _RUN.fits(value), words="like run-0001, or empty")
_PART = Kind(fits=lambda value: is_number(value) and 0.0 < value < 1.0, words="between 0 and 1")
_LOG_RATIO = Kind(fits=lambda value: is_number(value) and abs(value) < 50.0, words="a logarithm between -50 and 50")
_FACTS = record({name: may_lack(TEXT) for name in ("torch", "cuda", "git_version", "code")})

_BUILT: Shape = {
    "candidate": NAME, "seconds": SECONDS, "outcome": TEXT, "reason": TEXT, "hint": may_lack(TEXT), "facts": _FACTS,
}  # fmt: skip
_OBSERVED: Shape = {
    "candidate": NAME, "conclusion": one_of([word.value for word in Conclusion]), "outcome": TEXT, "run": _RUN_OR_NONE,
    "seconds": SECONDS, "reason": TEXT, "evidence": TEXTS, "value": or_none(_LOG_RATIO), "drift": or_none(NUMBER),
    "stalled": may_lack(NUMBER), "node": may_lack(TEXT),
}  # fmt: skip
_STARTED: Shape = {"candidate": NAME, "run": _RUN}
_ANY_PLAN: Shape = {
    "good": TEXT, "bad": TEXT, "hunted": TEXT, "throughput": may_lack(TRUTH), "min_effect": may_lack(_PART),
}  # fmt: skip
_ITEM: Shape = {
    "id": TEXT, "kind": one_of([kind.value for kind in ItemKind]), "name": TEXT, "good": or_none(TEXT),
    "bad": or_none(TEXT), "weight": NUMBER, "why": TEXT,
}  # fmt: skip
_SEARCH: Mapping[str, Shape] = {
    "built": _BUILT, "refused": _BUILT, "lost": {"run": _RUN}, "cancelled": {"run": _RUN}, "verdict": {"verdict": TEXT},
    "asked": {"confidence": _PART, "max_runs": COUNT},
}  # fmt: skip
_CANDIDATES = list_of(record({"id": NAME, "date": may_lack(TEXT), "version": may_lack(TEXT)}), "candidates")
_ORDERED: Mapping[str, Shape] = {
    **_SEARCH, "started": _STARTED, "observed": _OBSERVED,
    "plan": {
        **_ANY_PLAN, "candidates": _CANDIDATES, "equal": list_of(NAMES, "groups of names"), "cached": NAMES,
        "certain": TRUTH, "excluded": list_of(record({"build": TEXT, "reason": TEXT}), "builds with reasons"),
    },
}  # fmt: skip
_PACKAGES: Mapping[str, Shape] = {
    **_SEARCH, "started": {**_STARTED, "items": TEXTS}, "observed": {**_OBSERVED, "items": TEXTS},
    "plan": {
        **_ANY_PLAN, "items": list_of(record(_ITEM), "differences"), "needs": PAIRS,
        "families": list_of(TEXTS, "groups of texts"), "warnings": TEXTS, "unreproducible": PAIRS,
        "candidates": may_lack(TEXTS), "common": may_lack(OBJECT),
        "hidden": may_lack(TEXTS), "optional": may_lack(TEXTS), "unlisted": may_lack(TEXTS),
        "left_out": may_lack(TEXTS),
    },
}  # fmt: skip
_ANSWER: Shape = dict.fromkeys(("environment", "hazard", "answer", "meaning", "run"), TEXT)
_MATRIX: Mapping[str, Shape] = {
    "started": {"cell": TEXT, "run": NAME, "session": TEXT, "order": COUNT, "beside": may_lack(TEXT)},
    "ran": {"key": OBJECT, "run": record({"cell": TEXT, "run": NAME, "outcome": TEXT})},
    "hazards": {
        "environment": TEXT, "lock": TEXT, "benchmark": TEXT, "machine": TEXTS,
        "answers": list_of(record(_ANSWER), "answers"),
    },
    "control": {"of": TEXTS, "verdict": TEXT}, "pairs": {"machine": TEXTS, "together": TRUTH},
    "changed": {"lock": TEXT, "what": TEXT, "runs": TEXTS},
}  # fmt: skip


def header_fault(header: Entry) -> str:
    """What is wrong with the first line of a journal; '' for nothing."""
    command = header.get("command")
    if command == MATRIX:
        return ""
    command_of_a_search = {**COMMAND, "command": one_of((*ORDERED, PACKAGES))}
    return fault(header, {**command_of_a_search, "identity": OBJECT, "definition": may_lack(OBJECT)})


def first_fault(header: Entry, entries: Sequence[Entry]) -> tuple[int, str] | None:
    """The place of the first entry that cannot be believed, and why; None when all of them fit."""
    command = header["command"]
    shapes = _MATRIX if command == MATRIX else _PACKAGES if command == PACKAGES else _ORDERED
    names = "items" if command == PACKAGES else "candidates"
    known: frozenset[str] | None = None
    observed: dict[str, Entry] = {}
    for at, entry in enumerate(entries):
        event = entry["event"]
        wrong = fault(entry, shapes.get(event, {}))
        if not wrong and event == "plan" and command != MATRIX:
            known = frozenset(each["id"] for each in entry[names])
            wrong = _plan_fault(entry, names)
        if not wrong and event in ("built", "refused", "started", "observed") and known is not None:
            wrong = _stranger(entry, known, names)
        if not wrong and event == "observed" and entry.get("run"):
            wrong = _contradiction(entry, observed.setdefault(entry["run"], entry))
        if wrong:
            return at, f"in an entry {event!r}: {wrong}"
    return None


def without_repeats(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries with every run started once and ended once: a line that a copy doubled is no second run."""
    found: dict[object, Entry] = {}
    for at, entry in enumerate(entries):
        found.setdefault(_once(entry) or at, entry)
    return tuple(found.values())


def _once(entry: Entry) -> object:
    """What may be said once; None for what may be said again."""
    match entry["event"]:
        case "started" | "lost" | "cancelled" as event:
            return (event, entry["run"])
        case "observed":
            return ("observed", entry["run"], "" if entry["run"] else entry["candidate"])
        case "ran":
            return ("ran", entry["run"]["run"])
        case _:
            return None


def _plan_fault(plan: Entry, names: str) -> str:
    if plan.get("throughput") and "min_effect" not in plan:
        return "'min_effect' is missing"
    listed = [each["id"] for each in plan[names]]
    if len(set(listed)) != len(listed):
        return "a name is there twice"
    if names == "candidates" and plan["good"] == plan["bad"]:
        return "'good' and 'bad' are the same"
    groups = (
        (*plan["equal"], plan["cached"], (plan["good"], plan["bad"]))
        if names == "candidates"
        else (*plan["needs"], *plan["families"])
    )
    strangers = sorted({name for group in groups for name in group} - set(listed))
    return f"{strangers[0]!r} is not among its {len(listed)} names" if strangers else ""


def _stranger(entry: Entry, known: frozenset[str], names: str) -> str:
    spoken_of = entry.get("items", ()) if names == "items" else (entry["candidate"],)
    strangers = [name for name in spoken_of if name not in known]
    return f"{strangers[0]!r} is not in the plan" if strangers else ""


def _contradiction(entry: Entry, first: Entry) -> str:
    same = all(entry.get(name) == first.get(name) for name in ("candidate", "conclusion", "value", "items"))
    return "" if same else f"{entry['run']} was observed before, and otherwise"
