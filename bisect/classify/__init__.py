"""What happened in a run, from its log, its result file, its exit code and its circumstances; with the proof.

Pure: the same evidence gives the same answer. The root cause comes first; what followed from it, and every other
kind of failure that was seen, is kept behind it in order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..logs.builds import build_findings, named_builds
from ..logs.facts import read_facts
from ..logs.findings import dense_findings, isolation_findings, log_findings
from ..logs.resolver import RESOLVER_OUTCOMES, explanations
from ..logs.text import read_lines
from ..logs.trouble import trouble_findings
from ..model import Conclusion, Outcome, OutcomeName
from ..result import HazardsResult, TrainResult
from ..signatures import Role
from ..signatures.advice import CONTROL, PRESUMED, advice_for, ask_for
from .causes import root_first
from .clean import is_installation, verdict_without_failure
from .conclusion import RACES, conclude
from .endings import compile_switch, disabled_check, exit_finding
from .imports import import_advice
from .result_findings import hazard_findings, train_findings
from .settle import MISSING_FOR_ANY, Circumstances, settle
from .shown import last_sign_of_life, last_words, shown
from .silence import silence_findings
from .teardown import after_failures, without_teardown
from .told import questioned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..logs.facts import LogFacts
    from ..logs.findings import Finding
    from ..logs.resolver import Explanation
    from ..logs.text import Line
    from .clean import Verdict

__all__ = ["Classification", "Evidence", "classify", "classify_for", "conclude"]
_NOTHING: Mapping[str, str] = MappingProxyType({})
MAX_EVIDENCE = 12
_HEALTHY = frozenset({OutcomeName.OK, OutcomeName.TOO_FEW_THREADS})
END = 10**12
"""A line after every line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one run; everything is optional.

    Attributes:
        log: the text it printed. `lines` is the same for a log that was read in pieces.
        result: its result file, parsed.
        returncode: exit code; negative for a signal, as Python has it.
        timed_out: whether the runner ended it at its deadline.
        cut: why the runner ended it for its log, in a clause; empty where it did not.
        variables: environment variables it ran with.
        threads: worker threads it ran.
        control: `clean` or `failed`, what the same run with one thread did; empty when there was none.
        expected_torch: the torch version asked for.
        damage: why the result file could not be read; empty when it could, or when there was none.
    """

    log: str = ""
    lines: tuple[Line, ...] = ()
    result: TrainResult | HazardsResult | None = None
    returncode: int | None = None
    timed_out: bool = False
    cut: str = ""
    variables: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    threads: int | None = None
    control: str = ""
    expected_torch: str = ""
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What happened.

    Attributes:
        outcome: the root cause.
        evidence: the lines that prove it, those of the root cause first.
        secondary: what else was seen, in order, without repetition.
        advice: what to do next.
        detail: the kind of event in a word (`undefined_symbol`, `hash_mismatch`).
        flags: `presumed` (named after the commonest sender of a signal that others send as well), `masked_by_retry`,
            `swallowed` (exit code 0 in spite of a failure), `no_control`, `went_on` (an amplified run whose drafters
            did most of their steps in spite of failures).
        num_threads: worker threads, where known.
        conclusion: what another question concludes, where the signature says so itself.
    """

    outcome: Outcome
    evidence: tuple[str, ...]
    secondary: tuple[Outcome, ...] = ()
    advice: str = ""
    detail: str = ""
    flags: tuple[str, ...] = ()
    num_threads: int | None = None
    conclusion: Conclusion | None = None


def classify(evidence: Evidence) -> Classification:
    """Say what happened in a run, with the lines that prove it."""
    return classify_for(evidence, (evidence.threads,))[0]


def classify_for(evidence: Evidence, counts: Sequence[int | None]) -> tuple[Classification, ...]:
    """What happened if the run had so many worker threads, for each count; the log is searched once."""
    lines = evidence.lines or read_lines([evidence.log])
    facts = read_facts(lines)
    raw = _findings(evidence, lines, facts)
    return tuple(_settled(raw, replace(evidence, threads=count), lines, facts) for count in counts)


def _settled(raw: Sequence[Finding], evidence: Evidence, lines: Sequence[Line], facts: LogFacts) -> Classification:
    threads = _num_threads(evidence, facts)
    silence = _silence(evidence, facts)
    clean = verdict_without_failure(evidence, lines, facts, threads=threads, returncode=_returncode(evidence, facts))
    told = questioned(raw, facts, is_clean=not silence and clean.name in _HEALTHY)
    findings = after_failures(settle((*told, *silence), _circumstances(evidence, facts, told)))
    ordered = root_first(findings)
    failed = bool(ordered) and ordered[0].role is not Role.REMARK
    found = _failed(ordered, evidence, facts) if failed else _clean(clean, ordered, evidence, lines, facts)
    asked = evidence.expected_torch
    if not asked or named_builds(lines, facts, evidence.result):
        return found
    unchecked = f"torch {asked} was asked for: not found in the log, not checked; print torch.__version__ into it."
    return replace(found, advice=f"{found.advice} {unchecked}")


def _findings(evidence: Evidence, lines: Sequence[Line], facts: LogFacts) -> list[Finding]:
    result = evidence.result
    findings = list(without_teardown(log_findings(lines), lines))
    explained = explanations(lines)
    variables = dict(facts.variables) | dict(evidence.variables)
    if isinstance(result, TrainResult):
        findings.extend(train_findings(result))
        variables |= dict(result.environment.variables) if result.environment else {}
    elif isinstance(result, HazardsResult):
        findings.extend(hazard_findings(result))
    findings.extend(build_findings(lines, facts, result, expected=evidence.expected_torch))
    findings.extend((*isolation_findings(lines), *dense_findings(findings)))
    findings.extend(trouble_findings(lines, facts) if result is None else ())
    ending = exit_finding(_returncode(evidence, facts), timed_out=evidence.timed_out, cut=evidence.cut)
    extras = (compile_switch(variables.items()), disabled_check(variables.items()), ending)
    return [*_without_folded(findings, explained), *(extra for extra in extras if extra is not None)]


def _without_folded(findings: Sequence[Finding], explained: Sequence[Explanation]) -> Sequence[Finding]:
    """A resolver's paragraph counts once, as a whole."""
    if not explained:
        return findings
    kept = [finding for finding in findings if finding.outcome.name not in RESOLVER_OUTCOMES]
    return [*kept, *(explanation.finding for explanation in explained)]


def _returncode(evidence: Evidence, facts: LogFacts) -> int | None:
    """The exit code: a launcher's word in the log stands against a 0, which `srun ... | tee` always gives."""
    if not evidence.returncode and facts.launcher_code:
        return facts.launcher_code
    return facts.returncode if evidence.returncode is None else evidence.returncode


def _circumstances(evidence: Evidence, facts: LogFacts, findings: Sequence[Finding]) -> Circumstances:
    result = evidence.result
    process = result.process if isinstance(result, TrainResult) else None
    drafters = result.drafters if isinstance(result, TrainResult) else ()
    completed = bool(drafters) and all(thread.completed for thread in drafters)
    return Circumstances(
        num_threads=_num_threads(evidence, facts),
        workers=facts.workers,
        control=evidence.control,
        control_phase=facts.control_phase,
        went_on_until=END if facts.told_end and _returncode(evidence, facts) in (None, 0) else facts.last_step,
        thread_evidence=bool(facts.labels),
        compiled=facts.compiled or bool(process and process.compiles),
        completed=completed,
        was_moving=facts.was_moving,
        time_limit=any(finding.detail == "time_limit" for finding in findings),
        little_shm=any(finding.detail == "shared_memory" for finding in findings),
        completed_on_cpu=completed and all(thread.device == "cpu" for thread in drafters),
        compiles_nothing=any(finding.detail in MISSING_FOR_ANY for finding in findings),
        in_compiler=any(finding.outcome.name is OutcomeName.COMPILE_ERROR for finding in findings),
    )


def _num_threads(evidence: Evidence, facts: LogFacts) -> int | None:
    if evidence.threads is not None:
        return evidence.threads
    if isinstance(evidence.result, HazardsResult):
        return 2  # every probe starts the thread it needs
    if isinstance(evidence.result, TrainResult):
        return evidence.result.num_drafters or None
    if facts.num_threads is not None:
        return facts.num_threads
    return len(facts.labels) if len(facts.labels) > 1 else None


def _silence(evidence: Evidence, facts: LogFacts) -> tuple[Finding, ...]:
    """The worker that a log does not hear of, of as many threads as were given, or as it states or names."""
    if evidence.result is not None:
        return ()
    kinds = {worker.kind for worker in facts.workers}
    named = sum(re.split(r"[- ]", label)[0] in kinds for label in facts.labels)
    return silence_findings(facts.workers, num_threads=evidence.threads or facts.num_threads or named)


def _failed(ordered: Sequence[Finding], evidence: Evidence, facts: LogFacts) -> Classification:
    root = ordered[0]
    same = [finding for finding in ordered if finding.outcome == root.outcome]
    others = sorted(
        (finding for finding in ordered if finding.outcome != root.outcome),
        key=lambda finding: (finding.role is Role.REMARK, finding.position),
    )
    known = [finding for finding in others if finding.detail not in PRESUMED]
    secondary = tuple(dict.fromkeys(finding.outcome for finding in known))
    proof = [*same[:4], *(next(f for f in known if f.outcome == outcome) for outcome in secondary)]
    proof += [finding for finding in others if finding.detail in PRESUMED][:1]
    flags = _flags(root, evidence, facts)
    return Classification(
        outcome=root.outcome,
        evidence=(*(shown(finding) for finding in proof), *last_sign_of_life(root, facts))[:MAX_EVIDENCE],
        secondary=secondary,
        advice=_advice(root, evidence, facts, flags=flags),
        detail=root.detail,
        flags=flags,
        num_threads=_num_threads(evidence, facts),
        conclusion=root.conclusion,
    )


def _flags(root: Finding, evidence: Evidence, facts: LogFacts) -> tuple[str, ...]:
    flags = ["presumed"] if root.detail in PRESUMED else []
    if root.role <= Role.ENDING and any(position > root.position for position in facts.retries):
        flags.append("masked_by_retry")
    given = facts.returncode if evidence.returncode is None else evidence.returncode
    if root.role <= Role.ENDING and given == 0:
        flags.append("swallowed")
    if root.outcome.name in RACES and not evidence.control and not isinstance(evidence.result, HazardsResult):
        flags.append("no_control")
    if isinstance(evidence.result, TrainResult) and evidence.result.went_on:
        flags.append("went_on")
    return tuple(flags)


def _advice(root: Finding, evidence: Evidence, facts: LogFacts, *, flags: Sequence[str]) -> str:
    if root.outcome.name is OutcomeName.IMPORT_BROKEN:
        torch = facts.torch[-1][1] if facts.torch else evidence.expected_torch
        return import_advice(root.text, torch=torch, variables=dict(facts.variables) | dict(evidence.variables))
    if root.outcome.name is OutcomeName.UNKNOWN:
        return root.advice or _ask_for_more(evidence, facts)
    advice = root.advice or advice_for(root.outcome)
    return f"{advice} {CONTROL}" if "no_control" in flags else advice


def _ask_for_more(evidence: Evidence, facts: LogFacts) -> str:
    return ask_for(
        returncode=_returncode(evidence, facts) is not None,
        threads=_num_threads(evidence, facts) is not None,
        variables=bool(evidence.variables),
    )


def _clean(
    verdict: Verdict, remarks: Sequence[Finding], evidence: Evidence, lines: Sequence[Line], facts: LogFacts
) -> Classification:
    name, proof, advice = verdict.name, verdict.proof, verdict.advice
    asked = evidence.expected_torch
    if name in _HEALTHY and asked and not named_builds(lines, facts, evidence.result):
        name = OutcomeName.UNKNOWN
        proof = f"torch {asked} was asked for, and nothing names the one that ran"
        advice = "Give a log that names it, or the result file."
    secondary = tuple(dict.fromkeys(finding.outcome for finding in remarks))
    return Classification(
        outcome=Outcome(name=name),
        evidence=(proof, *(shown(finding) for finding in remarks[:4]), *last_words(name, lines)),
        secondary=secondary,
        advice=advice
        or (_ask_for_more(evidence, facts) if name is OutcomeName.UNKNOWN else advice_for(Outcome(name=name))),
        num_threads=_num_threads(evidence, facts),
        conclusion=Conclusion.SKIP if is_installation(evidence, facts) else None,
    )
