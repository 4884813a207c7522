"""A failure that a log names before the run began, which then made its steps: it may be another run's.

What kills a worker leaves it without steps. A line that stands before the first step of a run in which every worker
then went on (what an earlier job ended with, an old log that was printed first, what a guard will do) is a question,
unless a traceback or a logger's level of alarm shows that it happened here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .logs.findings import TOLD_OR_HAPPENED
from .model import Outcome, OutcomeName
from .signatures import Role
from .signatures.advice import BUILD_FAILURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .logs.facts import LogFacts
    from .logs.findings import Finding

_ADVICE = (
    "The line stands before the first step of a run that then went on: look whether it tells of this run, or of an "
    "earlier one or a setting; without that line the run can be judged."
)
_FATAL = BUILD_FAILURES - {OutcomeName.HANG}
"""A silence that steps followed is over, whoever tells of it."""


def questioned(findings: Sequence[Finding], facts: LogFacts, *, is_clean: bool) -> list[Finding]:
    """The findings, those that may tell of another run as open questions. `is_clean`: nothing else is wrong with it."""
    return [
        replace(
            finding,
            outcome=Outcome(name=OutcomeName.UNKNOWN),
            role=Role.GENERIC,
            detail=TOLD_OR_HAPPENED,
            advice=_ADVICE,
            conclusion=None,
        )
        if _may_be_anothers(finding, facts, is_clean=is_clean)
        else finding
        for finding in findings
    ]


def _may_be_anothers(finding: Finding, facts: LogFacts, *, is_clean: bool) -> bool:
    failure = finding.role < Role.EXIT or finding.outcome.name is OutcomeName.NAN_LOSS
    if not finding.line or not failure or finding.outcome.name not in _FATAL or not facts.first_step:
        return False
    of_another_file = finding.line < facts.last_file <= facts.first_step
    if not (finding.alone or of_another_file) or any(
        finding.line <= retry <= facts.first_step for retry in facts.retries
    ):
        return False
    if finding.worker and not of_another_file:
        return any(worker.name == finding.worker and finding.line < worker.steps[0].line for worker in facts.workers)
    return finding.line < facts.first_step and is_clean
