"""The report of a search as text: for a terminal, and in Markdown to paste into an issue. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from .report import end_labels, git_range, outcomes_text, sentence

if TYPE_CHECKING:
    from .report import Report
    from .report_rows import Row

REASON_WIDTH = 90


def render(report: Report) -> str:
    """The report for a terminal."""
    parts = [sentence(report), *(f"  note: {note}" for note in report.notes)]
    parts += [f"  go on with: {report.go_on}"] if report.go_on else []
    parts += ["", _table(report)]
    parts += _section("not candidates", [f"{name}: {reason}" for name, reason in report.excluded])
    parts += _section("evidence", list(report.proof))
    parts += _section("commits", _commit_lines(report))
    parts += _section("the neighbours' locks differ in", list(report.lock_diff))
    parts += _section("reproduce with", list(report.reproduce))
    return "\n".join([*parts, "", f"journal: {report.journal}"])


def markdown(report: Report) -> str:
    """The report to paste into an issue: verdict first, counts, evidence, then how to reproduce it."""
    parts = [f"**{sentence(report)}**", ""]
    parts += [f"> {note}" for note in report.notes]
    parts += [f"> go on with: `{report.go_on}`"] if report.go_on else []
    parts += [_table(report, form="github")]
    for title, lines in (
        ("Evidence", list(report.proof)),
        ("Commits", _commit_lines(report)),
        ("Lock differences", list(report.lock_diff)),
        ("Not candidates", [f"{name}: {reason}" for name, reason in report.excluded]),
        ("Reproduce with", list(report.reproduce)),
    ):
        if lines:
            parts += ["", f"{title}:", "```", *lines, "```"]
    return "\n".join(parts)


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _commit_lines(report: Report) -> list[str]:
    between = git_range(report)
    if between is None:
        return []
    nightly = "commits of nightlies lie on the nightly branch; the date in a version is not the commit's date"
    compare = f"https://github.com/pytorch/pytorch/compare/{between.replace('..', '...')}"
    return [between, compare, *([nightly] if report.kind == "torch-nightlies" else []), *report.commits]


def _table(report: Report, *, form: str = "simple") -> str:
    ends = {row.name: label for row, label in zip(report.neighbours, end_labels(report.step), strict=True) if row}
    speed = any(row.values for row in report.rows)
    rows = [
        [
            row.name,
            row.date,
            _ratio(row) if speed else row.count,
            outcomes_text(row),
            ends.get(row.name, ""),
            _skip_reason(row),
        ]
        for row in report.rows
        if row.good + row.bad + row.skipped or row.name in ends
    ]
    untested = sum(not (row.good + row.bad + row.skipped) for row in report.rows)
    headers = ["build", "date", "throughput (95 %)" if speed else "bad/runs", "outcomes", "", "skipped because"]
    table = tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True)
    return f"{table}\n\n{untested} of {len(report.rows)} candidates not tested" if untested else table


def _ratio(row: Row) -> str:
    """`97.0 % (95.1 to 98.9, 4 pairs)`."""
    if row.ratio is None:
        return ""
    within = f"{row.interval[0] * 100:.1f} to {row.interval[1] * 100:.1f}, " if row.interval else ""
    return f"{row.ratio * 100:.1f} % ({within}{len(row.values)} pairs)"


def _skip_reason(row: Row) -> str:
    """The reason in a table's width; the whole of it is in the JSON."""
    if not row.skipped or row.good + row.bad:
        return ""
    return row.reason if len(row.reason) <= REASON_WIDTH else f"{row.reason[: REASON_WIDTH - 3]}..."
