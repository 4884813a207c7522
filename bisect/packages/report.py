"""What a package search found, from its journal: a sentence, the verdict as data, text for a terminal, Markdown."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, assert_never

from tabulate import tabulate

from ..intervals import clopper_pearson
from ..model import Conclusion
from ..probability import percent
from . import FoundSet, Innocent, NarrowedSet, ProbeSet, SetContradiction, SetExhausted
from .differences import Item, ItemKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import Count, ItemSet, SetObservation, SetStep, Suspect

SCHEMA = 1
ITEMS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """Everything the answer says.

    Attributes:
        hunted: what was searched for.
        good: the good side as given.
        bad: the bad side.
        items: the differences.
        step: what the search ended with.
        seen: the runs.
        names: name of every mix that was used.
        facts: what each built mix says it is.
        unreproducible: names on either list that cannot be installed here, with the reason.
        warnings: what is wrong with the bad side by its list alone.
        import_changes: what importing the asked packages changed, by package.
        proof: log lines of a bad run.
        reproduce: commands that repeat the search and the answer.
        journal: path of the journal.
        refusal: of an unfinished search, why one of its ends could not be built.
        go_on: of an unfinished search, the command that goes on with it.
    """

    hunted: str
    good: str
    bad: str
    items: tuple[Item, ...]
    step: SetStep
    seen: tuple[SetObservation, ...]
    names: Mapping[ItemSet, str]
    facts: Mapping[str, Mapping[str, Any]]
    unreproducible: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    import_changes: Mapping[str, Sequence[str]]
    proof: tuple[str, ...]
    reproduce: tuple[str, ...]
    journal: str
    refusal: str = ""
    go_on: str = ""

    @property
    def runs(self) -> int:
        """Runs (pairs, where throughput is the question) that were judged."""
        return sum(run.conclusion is not Conclusion.SKIP for run in self.seen)

    @property
    def measured(self) -> bool:
        """Whether throughput was measured, in pairs with the good environment."""
        return any(run.value is not None for run in self.seen)

    def change(self, mix: ItemSet) -> float | None:
        """Mean change of a mix's throughput against the good environment, where that is the question."""
        values = [run.value for run in self.seen if run.items == mix and run.value is not None]
        return math.expm1(fmean(values)) if values else None

    @property
    def environments(self) -> int:
        """Different mixes that were run or tried."""
        return len({run.items for run in self.seen})

    @property
    def members(self) -> tuple[Item, ...]:
        """The guilty differences, if they were found."""
        named = self.step.members if isinstance(self.step, FoundSet) else ()
        return tuple(item for item in self.items if item.id in named)


def verdict_name(step: SetStep) -> str:
    """The word in the JSON."""
    match step:
        case FoundSet():
            return "found"
        case NarrowedSet():
            return "narrowed"
        case Innocent():
            return "no-regression"
        case SetContradiction():
            return "contradiction"
        case SetExhausted():
            return "exhausted"
        case ProbeSet():
            return "unfinished"
        case _:
            assert_never(step)


def sentence(report: SetReport) -> str:
    """The verdict in one sentence, or two."""
    step = report.step
    effort = f"{report.runs} {'pairs' if report.measured else 'runs'} in {report.environments} environments"
    match step:
        case FoundSet():
            guilty = _guilty(step, of=len(report.items))
            return f"{guilty} ({report.hunted}; {percent(step.confidence)} sure after {effort})"
        case Innocent():
            return _innocent(report, step, effort)
        case NarrowedSet():
            return f"narrowed to {_some(step.suspects)} ({report.hunted}; {effort}): {step.reason}"
        case SetContradiction():
            counts = f"good {step.without}, bad {step.with_all}"
            return f"contradiction ({report.hunted}; {effort}): {step.reason} ({counts})"
        case SetExhausted():
            return f"inconclusive ({report.hunted}; {effort}): {step.reason}; suspects: {_some(step.suspects)}"
        case ProbeSet():
            why, rest = f": {report.refusal}", ""
            if not report.refusal:
                why, rest = "", f"; suspects: {_some(step.suspects)}"
            return f"unfinished{why} ({report.hunted}; {effort} so far){rest}"
        case _:
            assert_never(step)


def _innocent(report: SetReport, step: Innocent, effort: str) -> str:
    if not report.items:
        return f"no difference: {report.good} and {report.bad} hold the same, nothing was built or run"
    told = f"innocent: none of the {len(report.items)} differences matters ({report.hunted}; {effort}): {step.reason}"
    if step.with_all.failures:
        return told
    what = "loss" if report.measured else "failure rate"
    return f"{told}; a {what} up to {percent(step.allowed_rate)} with all of them is not excluded"


def _guilty(step: FoundSet, *, of: int) -> str:
    alone = ", ".join(str(count) for count in step.forward)
    counts = zip(step.members, step.reverse, strict=False)
    gone = ", ".join(f"without {name}{_of_these(step, count, of)} {count}" for name, count in counts)
    if step.any_of:
        both = f", without both {step.reverse[0]}" if step.reverse else ""
        return f"guilty: each of {' and '.join(step.members)} on its own: alone {alone}{both}"
    together = " together" if len(step.members) > 1 else ""
    bad = " bad" if any(count.change is None for count in step.forward) else ""
    return f"guilty: {' + '.join(step.members)}{together}: alone {alone}{bad}, {gone}{bad}{_other_way(step)}"


def _of_these(step: FoundSet, count: Count, of: int) -> str:
    """What was left without a member, where it was not everything else."""
    few = 1 < len(step.members) < of and count.items <= frozenset(step.members)
    return f" ({' + '.join(sorted(count.items))} alone)" if few else ""


def _other_way(step: FoundSet) -> str:
    """What is left where a member is not needed for the failure, and nothing where each is."""
    if not step.still_fails_without:
        return "; another set may bring it in too: no single one explains all runs" if step.another else ""
    sets = " and ".join(f"{' + '.join(sorted(count.items))} ({count})" for count in step.beside)
    known = f"it also fails with {sets}" if sets else "it fails in another way too"
    return f"; reverting {' or '.join(step.still_fails_without)} alone does not mend it: {known}"


def _some(suspects: Sequence[Suspect]) -> str:
    likely = [suspect for suspect in suspects if suspect.probability >= 0.01]
    joiner = {True: " or ", False: " + "}
    return (
        "; ".join(f"{joiner[each.any_of].join(each.members)} ({percent(each.probability)})" for each in likely) or "-"
    )


def mix_json(report: SetReport, mix: ItemSet) -> dict[str, Any]:
    """One environment: what is applied in it, and what it showed."""
    counts = Counter(run.conclusion for run in report.seen if run.items == mix)
    bad, runs = counts[Conclusion.BAD], counts[Conclusion.BAD] + counts[Conclusion.GOOD]
    low, high = clopper_pearson(bad, runs)
    name = report.names[mix]
    return {
        "id": name,
        "items": sorted(mix),
        "bad": bad,
        "runs": runs,
        "skipped": counts[Conclusion.SKIP],
        "interval": [round(low, 4), round(high, 4)],
        "torch": report.facts.get(name, {}).get("torch", ""),
        "change": report.change(mix),
    }


def installed_or_imported(report: SetReport) -> str:
    """Whether a guilty package has to be imported, or is guilty by lying there; empty where it was not asked."""
    asked = [item for item in report.items if item.kind is ItemKind.IMPORT]
    if not asked or not isinstance(report.step, FoundSet):
        return ""
    guilty = {item.id for item in report.members}
    imported = [item.name for item in asked if item.id in guilty]
    installed = [item.name for item in report.members if item.kind is ItemKind.PACKAGE]
    if imported:
        return f"importing {', '.join(imported)} is what brings it in; being installed does not suffice"
    if installed:
        return f"being installed suffices for {', '.join(installed)}; importing it or not makes no difference"
    return "neither importing nor installing the asked packages brings it in"


def render(report: SetReport) -> str:
    """The report for a terminal."""
    parts = [sentence(report), *([f"  go on with: {report.go_on}"] if report.go_on else [])]
    parts += _section("guilty", [f"{item}\n      {item.why}" for item in report.members])
    parts += _section("how much", list(getattr(report.step, "notes", ())))
    parts += _section("installed or imported", [text] if (text := installed_or_imported(report)) else [])
    for name, lines in report.import_changes.items():
        parts += _section(f"importing {name} changed", list(lines) or ["nothing that is watched"])
    parts += ["", _table(report, form="simple")]
    parts += _section("seen on the bad side's list", list(report.warnings))
    parts += _section(f"{len(report.items)} differences, likeliest first", _item_lines(report))
    parts += _section("cannot be reproduced here", [f"{name}: {reason}" for name, reason in report.unreproducible])
    parts += _section("evidence", list(report.proof))
    parts += _section("reproduce with", list(report.reproduce))
    return "\n".join([*parts, "", f"journal: {report.journal}"])


def markdown(report: SetReport) -> str:
    """The report to paste into an issue."""
    parts = [f"**{sentence(report)}**", "", _table(report, form="github")]
    for title, lines in (
        ("Guilty", [f"{item} ({item.why})" for item in report.members]),
        ("How much", list(getattr(report.step, "notes", ()))),
        ("Seen on the bad side's list", list(report.warnings)),
        ("Cannot be reproduced here", [f"{name}: {reason}" for name, reason in report.unreproducible]),
        ("Evidence", list(report.proof)),
        ("Go on with", [report.go_on] if report.go_on else []),
        ("Reproduce with", list(report.reproduce)),
    ):
        if lines:
            parts += ["", f"{title}:", "```", *lines, "```"]
    return "\n".join(parts)


def item_lines(items: Sequence[Item], *, shown: int = ITEMS_SHOWN) -> list[str]:
    """The differences with their reasons, likeliest first, the tail counted."""
    lines = [f"{item} ({item.why})" for item in items[:shown]]
    return lines + ([f"and {len(items) - shown} more"] if len(items) > shown else [])


def _item_lines(report: SetReport) -> list[str]:
    return item_lines(report.items)


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _table(report: SetReport, *, form: str) -> str:
    rows = [_table_row(report, mix_json(report, mix)) for mix in report.names]
    result = "against the good one" if report.measured else "bad"
    headers = ("environment", "applied to the good one", result, "skipped", "torch")
    return tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True)


def _table_row(report: SetReport, mix: Mapping[str, Any]) -> tuple[str, ...]:
    size, total = len(mix["items"]), len(report.items)
    missing = sorted({item.id for item in report.items} - set(mix["items"]))
    if size in (0, total):
        applied = "nothing" if size == 0 else "everything"
    elif size <= 4:
        applied = " + ".join(mix["items"])
    elif len(missing) <= 3:
        applied = f"everything but {', '.join(missing)}"
    else:
        applied = f"{size} of {total}"
    count = f"{mix['bad']}/{mix['runs']}" if mix["runs"] else "not tested"
    if mix["change"] is not None:
        count = f"{100 * mix['change']:+.1f} % in {mix['runs']} pairs"
    return mix["id"], applied, count, str(mix["skipped"] or ""), mix["torch"]
