"""The report of a package search's run directory, from its journal and the results its runs left."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from ..again import repeat_run, resume_command, with_variables
from ..journal import FILE_NAME, read_planned
from ..model import Conclusion
from ..record_file import record_in
from . import FoundSet, Innocent, ProbeSet, SetExhausted
from .report import SetReport
from .search import decision, items_of, mix_name, observations_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ..journal import Contents
    from . import SetStep
    from .differences import Item

PROOF_LINES = 4


def report_of(directory: Path) -> SetReport:
    """The report, finished or not."""
    contents, plan = read_planned(directory)
    asked = contents.of("asked")
    limit = 10**6 if not contents.of("verdict") else _limit(contents)
    problem = problem_of(plan, confidence=asked[-1]["confidence"] if asked else 0.95, max_runs=limit)
    seen = observations_of(contents.entries)
    step = _as_far_as_tried(decision(plan)(problem, seen), plan)
    return SetReport(
        hunted=plan["hunted"],
        good=plan["good"],
        bad=plan["bad"],
        items=items_of(plan),
        step=step,
        seen=tuple(seen),
        names={run.items: mix_name(run.items, problem) for run in seen},
        facts={entry["candidate"]: entry["facts"] for entry in contents.of("built")},
        unreproducible=tuple((name, reason) for name, reason in plan["unreproducible"]),
        warnings=tuple(plan["warnings"]),
        import_changes=_import_changes(directory, contents),
        proof=_proof(contents),
        reproduce=_reproduce(contents, directory, step),
        journal=str(directory / FILE_NAME),
        refusal=contents.refusal,
        go_on=resume_command(directory) if isinstance(step, ProbeSet) else "",
    )


def _as_far_as_tried(step: SetStep, plan: Mapping[str, Any]) -> SetStep:
    """Nothing is innocent where a difference could not be applied and is the first suspect.

    A package without a wheel or in an extra that nobody named, and a variable that is not set here, are such where not
    even everything applied fails.
    Files that no list brings back are in neither of the two ends: whatever those do, the sides may do otherwise.
    """
    told = {
        "hidden": "without a wheel here", "optional": "in extras that were not named with --extra",
        "left_out": "not set here", "unlisted": "in no list of packages",
    }  # fmt: skip
    apart = [f"{words}: {', '.join(plan[key])}" for key, words in told.items() if plan.get(key)]
    if not isinstance(step, Innocent) or not apart or (step.with_all.failures and not plan.get("unlisted")):
        return step
    tried = "none of the differences that could be applied matters" if plan["items"] else "nothing could be tried"
    return SetExhausted(suspects=(), confidence=0.0, reason="; ".join([tried, *apart]))


def _limit(contents: Contents) -> int:
    """A search that ended for its budget had as many runs as it has."""
    exhausted = contents.of("verdict")[-1]["verdict"] == "exhausted"
    return len(observations_of(contents.entries)) if exhausted else 10**6


def _proof(contents: Contents) -> tuple[str, ...]:
    for entry in contents.of("observed"):
        if entry["conclusion"] == Conclusion.BAD and entry["evidence"]:
            return tuple(f"{entry['candidate']} {entry['run']}: {line}" for line in entry["evidence"][:PROOF_LINES])
    return ()


def _import_changes(directory: Path, contents: Contents) -> dict[str, Sequence[str]]:
    """What the import changed, by package, from the first run that imported it."""
    found: dict[str, Sequence[str]] = {}
    for entry in contents.of("observed"):
        for name, lines in _changes_in(directory / (entry["run"] or "-") / "result.json").items():
            found.setdefault(name, lines)
    return found


def _changes_in(path: Path) -> Mapping[str, Sequence[str]]:
    try:
        environment: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["environment"]
        return {str(each["package"]): list(each["changes"]) for each in environment.get("import_changes", ())}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}  # the run was judged when it ended; without the file there is only less to show


def _reproduce(contents: Contents, directory: Path, step: SetStep) -> tuple[str, ...]:
    header = contents.header
    search = f"python -m bisect {header['command']} {shlex.join(header['argv'])}"
    again = with_variables(search, header.get("variables", {}))
    if not isinstance(step, FoundSet):
        return (again,)
    locks = f"# locks of every mix: {directory / 'environments'}"
    if sealed := _sealed_run(contents, directory, step):
        return (again, *sealed, locks)
    plan = contents.of("plan")[-1]
    guilty = [item for item in items_of(plan) if item.id in step.members]
    installed = [item for item in guilty if item.kind == "package" and item.bad]
    pins = [_pinned(item) for item in installed if not _is_file(item)]
    gone = [item.name for item in guilty if item.kind == "package" and not item.bad]
    lines = [f"# in a copy of {plan['good']}:"]
    lines += [shlex.join(["uv", "pip", "install", "--no-deps", *_places(header["identity"]), *pins])] if pins else []
    lines += [f"# install another file of {item.name}: {item.bad}" for item in installed if _is_file(item)]
    lines += [f"uv pip uninstall {shlex.join(gone)}"] if gone else []
    lines += [_export(name, text) for name, text in plan.get("common", {}).items()]
    lines += [_export(item.name, item.bad) for item in guilty if item.kind == "variable"]
    lines += [f"# {item.name} in its site-packages holds: {item.bad}".strip() for item in guilty if item.kind == "pth"]
    return (again, *lines, locks)


def _sealed_run(contents: Contents, directory: Path, found: FoundSet) -> tuple[str, ...]:
    """A run with the guilty set alone, where it was made in a container: nobody installs into one by hand."""
    for entry in contents.of("observed"):
        if entry["run"] and entry["conclusion"] == Conclusion.BAD and set() < set(entry["items"]) <= set(found.members):
            run = directory / entry["run"]
            record = record_in(run) or {}
            if record.get("image"):
                told = f"# with these differences alone: in {record['environment']}, log in {run / 'log.txt'}"
                return (told, repeat_run(record, run, cwd=contents.header["cwd"]))
    return ()


def _export(name: str, text: str | None) -> str:
    return f"unset {name}" if text is None else f"export {name}={shlex.quote(text)}"


def _places(options: Mapping[str, Any]) -> Iterator[str]:
    """Where the search took packages from, in uv's words; what variables of this tool say, uv does not read."""
    for name, words in (("wheelhouse", "--find-links"), ("index", "--index"), ("default_index", "--default-index")):
        if place := options.get(name):
            yield from ("--find-links" if "://" not in place else words, place)


def _pinned(item: Item) -> str:
    """The requirement of a guilty package; `==1.0` would install 1.0+cu130 where two builds of it are told apart."""
    good, bad = item.good or "", item.bad or ""
    builds_of_one = good.partition("+")[0] == bad.partition("+")[0]
    return f"{item.name}{'===' if builds_of_one else '=='}{bad}"


def _is_file(item: Item) -> bool:
    """Whether the version is the same on both sides, and another file of it: no requirement says which."""
    return " " in (item.bad or "")
