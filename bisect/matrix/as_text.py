"""The matrix as text: a table for the terminal, Markdown for an issue or a wiki. Verdict first, legend last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tabulate import tabulate

from . import MEANINGS, State
from .state import format_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .compare import Change
    from .recommend import Recommendation
    from .report import Report
    from .state import Assessment, Machine

RATE_MEANING = (
    "failures: failures of telling runs; failure rate: what these runs leave possible (95 %, exact binomial; after no "
    "failure an upper bound)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HEADERS = (
    "environment",
    "workaround",
    "cache",
    "state",
    "failures",
    "failure rate",
    "throughput",
    "Ktok/s",
    "warm-up s",
    "compile s",
    "peak MiB",
    "evidence",
)


def terminal(report: Report) -> str:
    """For a terminal: plain text, no colour needed to read it."""
    blocks = [block for machine in report.view.machines for block in _terminal_machine(report, machine)]
    blocks += [_bullets("Findings", report.findings)] if report.findings else []
    blocks += [_hazards(report, "simple")] if report.hazards else []
    blocks += [_changes(report, "simple")] if report.old else []
    blocks += [f"Left to run: {report.origin.left}"] if report.origin.left else []
    return _printable("\n\n".join(blocks)) + "\n"


def markdown(report: Report) -> str:
    """For an issue or a wiki: dated, with the legend, and nothing in a log line can become markup."""
    blocks = ["# Compatibility matrix", f"Made {report.origin.created}, benchmark `{report.origin.benchmark[:12]}`."]
    for machine in report.view.machines:
        blocks += _markdown_machine(report, machine)
    if report.findings:
        blocks += ["## Findings", _list(report.findings)]
    if report.hazards:
        blocks += ["## Hazard probes", _hazards(report, "github")]
    if report.old:
        blocks += ["## Changes", _changes(report, "github")]
    if report.origin.left:
        blocks += [f"Left to run: {_escape(report.origin.left)}"]
    blocks += [
        "## Legend",
        f"{_legend(report)}\n- {_escape(RATE_MEANING)}",
        "## Reproduce with",
        f"    {report.origin.command}",
    ]
    return _printable("\n\n".join(blocks)) + "\n"


def hazard_environments(report: Report) -> dict[str, str]:
    """The environments whose hazards were probed, and the run directory of each."""
    return {answer.environment: answer.run for answer in report.hazards}


def hazard_rows(report: Report) -> list[tuple[str, tuple[str, ...], str]]:
    """Each hazard with the answer of every environment (a dash where it was not asked) and what a leak means."""
    answers = {(answer.hazard, answer.environment): answer for answer in report.hazards}
    meanings = {answer.hazard: answer.meaning for answer in report.hazards}
    environments = tuple(hazard_environments(report))

    def of(hazard: str, environment: str) -> str:
        found = answers.get((hazard, environment))
        return found.answer if found is not None else "-"

    return [(hazard, tuple(of(hazard, name) for name in environments), text) for hazard, text in meanings.items()]


def machine_title(machine: Machine) -> str:
    """`node1, linux-x86_64 2 CPUs, 8x NVIDIA H200, driver 580.65`."""
    node, platform, gpu, driver = machine
    parts = (node, platform, "no GPU" if gpu == "none" else gpu, f"driver {driver}" if driver else "")
    return ", ".join(part for part in parts if part)


def noise_line(report: Report, machine: Machine) -> str:
    """The A/A noise of the session under a table, and what the ratios are relative to."""
    baseline, noise = report.view.baseline(machine), report.view.noise_on(machine)
    if baseline is None:
        return "Throughput: no baseline, no cell trains on this machine."
    relative = f"Throughput is relative to {baseline.cell.key.title}"
    where = "beside" if any(run.beside for run in baseline.cell.runs) else "between"
    if noise is None:
        return f"{relative}; not measured twice yet, so no noise and no ratio."
    return (
        f"{relative}, run {noise.baseline_runs} times {where} the others. A/A noise: two runs of one cell differ by up "
        f"to {noise.band:.1%} (95 %). Intervals hold for all cells together."
    )


def number(value: float | None, form: str = ".3g") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else format(value, form)


def throughput_text(entry: Assessment) -> str:
    """The ratio with its interval, `baseline`, or why there is none."""
    if entry.is_baseline:
        return "baseline"
    return format_ratio(entry.ratio) if entry.ratio is not None else "-"


def shown_run(entry: Assessment) -> str:
    """The run directory that shows the state best: the first failure, else the last run."""
    runs = entry.cell.races or entry.cell.failures or entry.cell.runs[-1:]
    if runs:
        return runs[0].run
    return entry.unblock or "-"


def mebibytes(size: int | None) -> float | None:
    return None if size is None else size / 2**20


def _terminal_machine(report: Report, machine: Machine) -> list[str]:
    recommendation = dict(report.recommendations)[machine]
    rows = [_row(entry, _short) for entry in report.view.on(machine)]
    table = tabulate(rows, headers=_HEADERS, tablefmt="simple", disable_numparse=True)
    return [
        recommendation.sentence,
        *_reasons(recommendation, _bullets),
        f"On {machine_title(machine)}:",
        _grid(report, machine, form="simple", escape=_short),
        f"{table}\n{noise_line(report, machine)}",
    ]


def _markdown_machine(report: Report, machine: Machine) -> list[str]:
    recommendation = dict(report.recommendations)[machine]
    rows = [_row(entry, _escape) for entry in report.view.on(machine)]
    table = tabulate(rows, headers=_HEADERS, tablefmt="github", disable_numparse=True)
    return [
        f"**{_escape(recommendation.sentence)}**",
        *_reasons(recommendation, lambda title, items: f"{title}:\n\n{_list(items)}"),
        f"## {_escape(machine_title(machine))}",
        _grid(report, machine, form="github", escape=_escape),
        table,
        _escape(noise_line(report, machine)),
    ]


def _reasons(recommendation: Recommendation, render: Callable[[str, Sequence[str]], str]) -> list[str]:
    blocks = [render("Because", recommendation.reasons)] if recommendation.reasons else []
    return blocks + ([render("What risk remains", recommendation.risks)] if recommendation.risks else [])


def _grid(report: Report, machine: Machine, *, form: str, escape: Callable[[str], str]) -> str:
    """Environments down, workaround and cache across: the table that people link to."""
    entries = report.view.on(machine)
    columns = tuple(dict.fromkeys((entry.cell.key.workaround, entry.cell.key.cache) for entry in entries))
    by_place = {(e.cell.key.environment, (e.cell.key.workaround, e.cell.key.cache)): e for e in entries}
    rows = []
    for name, build in dict.fromkeys((entry.cell.key.environment, entry.cell.key.build) for entry in entries):
        torch, cuda = report.points.get(build, ("", ""))
        found = (by_place.get((name, column)) for column in columns)
        rows.append([escape(name), escape(torch), escape(cuda), *(escape(_brief(entry)) for entry in found)])
    headers = ("environment", "torch", "CUDA", *(f"{workaround}, {cache}" for workaround, cache in columns))
    return tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True)


def _brief(entry: Assessment | None) -> str:
    """A cell in three words: `race 2/6`, `ok 0/6 1.02x`, `not tested`."""
    if entry is None:
        return "not asked"
    words = [entry.state.value, entry.count if entry.telling else ""]
    words.append(f"{entry.ratio.value:.2f}x" if entry.ratio is not None else "")
    return " ".join(word for word in words if word)


def _row(entry: Assessment, escape: Callable[[str], str]) -> list[str]:
    state = entry.state.value + (f" ({entry.detail})" if entry.detail and entry.state is not State.SLOWER else "")
    return [
        escape(text)
        for text in (
            entry.cell.key.environment,
            entry.cell.key.workaround,
            entry.cell.key.cache,
            state,
            entry.count,
            entry.rate,
            throughput_text(entry),
            number(entry.ktok_s),
            number(entry.warmup_s),
            number(entry.compile_s),
            number(mebibytes(entry.peak_bytes), ".0f"),
            shown_run(entry),
        )
    ]


def _hazards(report: Report, form: str) -> str:
    """Hazards down, environments across; the runs under it."""
    clean = _escape if form == "github" else str
    rows = [
        [clean(hazard), *(clean(answer) for answer in answers), clean(meaning)]
        for hazard, answers, meaning in hazard_rows(report)
    ]
    headers = ("hazard", *hazard_environments(report), "what a leak means")
    table = tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True)
    return f"{table}\n\nEvidence: {clean(', '.join(hazard_environments(report).values()))}"


def _changes(report: Report, form: str) -> str:
    changed = [change for change in report.changes if change.is_change]
    same = len(report.changes) - len(changed)
    title = f"Compared with {report.old}: {len(changed)} of {len(report.changes)} cells differ, {same} are the same."
    if not changed:
        return _escape(title) if form == "github" else title
    clean = _escape if form == "github" else str
    rows = [[clean(text) for text in _change_row(change)] for change in changed]
    table = tabulate(rows, headers=("cell", "before", "now", "why", "p", "also"), tablefmt=form, disable_numparse=True)
    return f"{clean(title)}\n\n{table}"


def _change_row(change: Change) -> tuple[str, ...]:
    return (
        change.title,
        change.before,
        change.after,
        change.explanation.value,
        number(change.p_value, ".2g"),
        "; ".join(change.also),
    )


def _legend(report: Report) -> str:
    used = dict.fromkeys(entry.state for entry in report.view.assessments)
    return _list([f"{state.value}: {MEANINGS[state]}" for state in used])


def _short(text: str) -> str:
    """At most 52 characters on one line: the whole of it is in the other reports."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 52 else f"{flat[:50]}.."


def _printable(text: str) -> str:
    """Escape codes in somebody's log line must not move a cursor or change a colour here."""
    return _CONTROL.sub("?", text)


def _bullets(title: str, items: Sequence[str]) -> str:
    return f"{title}:\n" + "\n".join(f"  - {item}" for item in items)


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {_escape(item)}" for item in items)


def _escape(text: str) -> str:
    """Markdown and HTML characters as text, on one line."""
    flat = " ".join(text.split())
    for character in "\\`*_|[]#~":
        flat = flat.replace(character, f"\\{character}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
