"""The answers of the hazard probes in several environments, side by side, as text and as JSON. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tabulate import tabulate

from .changed import EXIT_CODE, Changed
from .commands.search_options import HAZARDS
from .exit_codes import UNSETTLED
from .result import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .result import HazardRecord, HazardsResult

SCHEMA = 1
NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedEnvironment:
    """One environment; `result` is None, and `trouble` says why, when the probes left no usable file.

    `changed`: what somebody changed in it after it was built; None for one as it was built.
    """

    name: str
    result: HazardsResult | None
    trouble: str
    directory: str
    changed: Changed | None = None

    @property
    def complete(self) -> bool:
        """Whether every probe gave an answer."""
        answers = [hazard.answer for hazard in self.result.hazards] if self.result else []
        return (
            bool(answers) and Answer.COULD_NOT_TEST not in answers and self.result is not None and self.result.finished
        )

    @property
    def tested(self) -> frozenset[str]:
        """The hazards that were asked about and gave an answer."""
        hazards = self.result.hazards if self.result else ()
        return frozenset(hazard.name for hazard in hazards if hazard.answer is not Answer.COULD_NOT_TEST)

    @property
    def not_tested(self) -> tuple[str, ...]:
        """The known hazards that nothing may be said of: not asked about, or without an answer."""
        return tuple(name for name in HAZARDS if name not in self.tested)


def render(environments: Sequence[ProbedEnvironment], *, reproduce: str) -> str:
    """One sentence per environment, the table, the evidence of what leaks, and how to repeat it."""
    lines = [_verdict(environment) for environment in environments]
    lines += ["", _table(environments), ""]
    lines += [line for environment in environments for line in _evidence(environment)]
    lines += [environment.changed.remedy for environment in environments if environment.changed is not None]
    return "\n".join([*lines, f"repeat with: {reproduce}"])


def as_json(environments: Sequence[ProbedEnvironment], *, reproduce: str) -> dict[str, object]:
    """The same as data."""
    return {
        "schema": SCHEMA,
        "kind": "hazards",
        "environments": [_environment_json(environment) for environment in environments],
        "reproduce": [reproduce],
        "exit_code": exit_code(environments),
    }


def exit_code(environments: Sequence[ProbedEnvironment]) -> int:
    """0 when every probe answered, 4 when one could not, 6 when one was asked of something else than was built."""
    if any(environment.changed is not None for environment in environments):
        return EXIT_CODE
    return 0 if all(environment.complete for environment in environments) else UNSETTLED


def _verdict(environment: ProbedEnvironment) -> str:
    seen = _seen(environment)
    return seen if environment.changed is None else environment.changed.over(seen)


def _seen(environment: ProbedEnvironment) -> str:
    if environment.result is None:
        return f"{environment.name}: not tested: {environment.trouble}"
    result = environment.result
    leaking = [hazard.name for hazard in result.hazards if hazard.answer is Answer.LEAKS]
    num_tested, missing = len(environment.tested), len(environment.not_tested)
    if leaking:
        told = f"{len(leaking)} of {num_tested} hazards leak: {', '.join(leaking)}"
    else:
        told = f"none of the {num_tested} tested leaks" if missing else "no hazard leaks"
    under = "" if result.workaround == "none" else f" under {result.workaround}"
    rest = f"; {missing} not tested" if missing else ""
    return f"{environment.name} ({_torch(environment)}){under}: {told}{rest}"


def _torch(environment: ProbedEnvironment) -> str:
    described = environment.result.environment if environment.result else None
    return f"torch {described.torch}" if described else "torch ?"


def _names(environments: Sequence[ProbedEnvironment]) -> list[str]:
    found = [hazard.name for environment in environments if environment.result for hazard in environment.result.hazards]
    return list(dict.fromkeys(found))


def _table(environments: Sequence[ProbedEnvironment]) -> str:
    rows = [[name, *(_cell(environment, name) for environment in environments)] for name in _names(environments)]
    return tabulate(rows, headers=["hazard", *map(_heading, environments)])


def _heading(environment: ProbedEnvironment) -> str:
    return environment.name if environment.changed is None else f"{environment.name} (changed)"


def _cell(environment: ProbedEnvironment, name: str) -> str:
    answer = environment.result.answer(name) if environment.result else None
    return answer.value if answer is not None else NOT_TESTED


def _evidence(environment: ProbedEnvironment) -> list[str]:
    hazards = environment.result.hazards if environment.result else ()
    told = [hazard for hazard in hazards if hazard.answer in (Answer.LEAKS, Answer.COULD_NOT_TEST)]
    lines = [line for hazard in told for line in _hazard_lines(hazard)]
    return [f"{environment.name}, evidence in {environment.directory}", *lines, ""] if lines else []


def _hazard_lines(hazard: HazardRecord) -> list[str]:
    return [f"  {hazard.name} {hazard.answer}: {hazard.meaning}", *(f"    | {line}" for line in hazard.evidence)]


def _environment_json(environment: ProbedEnvironment) -> dict[str, object]:
    result = environment.result
    return {
        "name": environment.name,
        "sentence": _verdict(environment),
        "changed": None if environment.changed is None else asdict(environment.changed),
        "torch": result.environment.torch if result and result.environment else "",
        "finished": bool(result and result.finished),
        "trouble": environment.trouble,
        "not_tested": list(environment.not_tested),
        "directory": environment.directory,
        "wall_s": round(result.wall_s, 1) if result else None,
        "answers": {hazard.name: hazard.answer.value for hazard in result.hazards} if result else {},
        "hazards": [
            {"name": hazard.name, "answer": hazard.answer.value, "title": hazard.title, "meaning": hazard.meaning}
            | {"evidence": list(hazard.evidence), "seconds": hazard.seconds}
            for hazard in (result.hazards if result else ())
        ],
    }
