"""A failure that a log names before the run began, which then made its steps: it may be another run's.

What kills a worker leaves it without steps. A line that stands before the first step of a run in which every worker
then went on (what an earlier job ended with, an old log that was printed first, what a guard will do) is a question,
unless a traceback or a logger's level of alarm shows that it happened here. So is a sentence about a failure later on,
where every worker is shown to have gone on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..logs.findings import TOLD_OR_HAPPENED
from ..model import Outcome, OutcomeName
from ..signatures import Role
from ..signatures.advice import BUILD_FAILURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.facts import LogFacts
    from ..logs.findings import Finding

_ADVICE = (
    "The run went on as if nothing had happened: look whether the line tells of this run, or of an earlier one or a "
    "setting; without that line the run can be judged."
)
_NEAR = 5
"""Lines after a failure in which a retry of it is told."""
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
    if not (finding.alone or of_another_file):
        return False
    if finding.worker and not of_another_file:
        return any(worker.name == finding.worker and finding.line < worker.steps[0].line for worker in facts.workers)
    if any(finding.line <= retry <= max(finding.line, facts.first_step) + _NEAR for retry in facts.retries):
        return False
    return is_clean and (finding.line < facts.first_step or (finding.told and _went_on(finding, facts)))


def _went_on(finding: Finding, facts: LogFacts) -> bool:
    """Whether the log shows of every worker by its name that it made steps after that line, or had made all of them."""
    return bool(facts.workers) and all(
        worker.steps[-1].line > finding.line or worker.steps[-1].is_last for worker in facts.workers
    )
