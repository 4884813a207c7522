"""The matrix as JUnit XML for a dashboard: a suite per environment, a test case per cell.

`race` and other failures are failures, what cannot run here is skipped with the reason, and so is `not tested`: a
dashboard must not show it as passed.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from . import State
from .as_text import machine_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .report import Report
    from .state import Assessment

_FAILED = frozenset({State.RACE, State.FAILURE, State.SLOWER, State.DEGRADED})
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """One document; characters that XML cannot hold (escape codes in a log line) are replaced."""
    root = ET.Element("testsuites", name="compatibility matrix")

    def suite_of(entry: Assessment) -> tuple[str, ...]:
        return (machine_title(entry.cell.key.machine), entry.cell.key.environment)

    for (machine, environment), members in groupby(sorted(report.view.assessments, key=suite_of), key=suite_of):
        _add_suite(root, f"{environment} on {machine}", list(members))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: ET.Element, name: str, entries: Sequence[Assessment]) -> None:
    failed = sum(entry.state in _FAILED for entry in entries)
    skipped = sum(entry.state is not State.OK and entry.state not in _FAILED for entry in entries)
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_clean(name),
        tests=str(len(entries)),
        failures=str(failed),
        skipped=str(skipped),
        errors="0",
    )
    for entry in entries:
        _add_case(suite, entry)


def _add_case(suite: ET.Element, entry: Assessment) -> None:
    key = entry.cell.key
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(key.environment),
        name=_clean(f"workaround={key.workaround} cache={key.cache} profile={key.profile}"),
        time=f"{sum(run.seconds for run in entry.cell.runs):.1f}",
    )
    if entry.state in _FAILED:
        ET.SubElement(case, "failure", type=entry.state.value, message=_clean(entry.label)).text = _evidence(entry)
    elif entry.state is not State.OK:
        ET.SubElement(case, "skipped", message=_clean(f"{entry.state.value}: {entry.detail} {entry.unblock}".strip()))
    ET.SubElement(case, "system-out").text = _clean(f"{entry.label}\n" + "\n".join(run.run for run in entry.cell.runs))


def _evidence(entry: Assessment) -> str:
    runs = entry.cell.races or entry.cell.failures or entry.cell.runs
    return _clean("\n".join((runs[0].run, *runs[0].evidence)) if runs else entry.detail)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
