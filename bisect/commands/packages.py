"""`python -m bisect packages --good ENV --bad ENV`: the differences that bring a failure in, down to a minimal set."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from envs import settings, spec
from envs.errors import UsageError
from envs.outlook import is_built

from ..again import engine_variables
from ..builds import Builder
from ..executor import ProbeRunner, import_is_the_question
from ..files import make_run_directory, only_one, write_atomically
from ..interrupts import interruptible, stopped_search
from ..journal import FILE_NAME, Journal
from ..launch import Launcher, launcher_on, tell_objection
from ..packages import as_json as packages_json
from ..packages import report as reports
from ..packages.differences import families, items, needs
from ..packages.files import requirements_in
from ..packages.outcome import report_of
from ..packages.plan import dry_run, make_plan, plan_lines, to_build_first
from ..packages.search import BAD, GOOD, SetSearch, decision, items_of, problem_of
from ..packages.sides import Mixer, NotBuiltError
from ..packages.variables import common
from ..packages.wheels import listed_now
from ..probe import RunKind
from ..replaced import refuse_replaced
from ..report import EXIT_CODES
from ..run_directory import last_run_in
from ..surroundings import refuse_missing, refuse_no_room
from .packages_options import add_arguments, sides_of
from .search_options import asked, default_run_directory, without_out

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from ..packages import ItemSet
    from ..packages.pair import Sides
    from ..packages.plan import SetPlan
    from .search_options import Asked

__all__ = ["TAKES_REST", "add_arguments", "run"]
KIND = "packages"
TAKES_REST = True


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Search, or go on with a search."""
    request = asked(args)
    if request.workers > 1:
        raise UsageError("packages asks one question after the other", hint="leave --workers out")
    if args.imports and request.question.kind is not RunKind.TRAIN:
        raise UsageError("--import belongs to --probe train", hint="let the command itself import it")
    here = settings.from_arguments(args, os.environ)
    refuse_missing(request, here, base=spec.load(args.base), torch_repo=args.torch_repo or "")

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    launcher = _launcher(request, Path(args.out or os.curdir), say)  # where it cannot run is told first
    if args.dry_run:
        tell_objection(launcher, stderr)
    try:
        sides = sides_of(args, here, say)
    except NotBuiltError as unbuilt:
        return to_build_first(unbuilt, here, as_json=args.json, stdout=stdout)
    cost = make_plan(sides, here, request)
    if args.dry_run:
        return dry_run(sides, cost, as_json=args.json, stdout=stdout)
    directory = (Path(args.out) if args.out else default_run_directory(KIND)).absolute()
    if not (directory / FILE_NAME).exists():
        make_run_directory(directory)
    say(f"run directory: {directory}")
    with interruptible(partial(stopped_search, directory)), only_one(directory):
        journal = _journal(directory, args, request, engine_variables(here))
        try:
            _search(journal, request, sides, cost=cost, here=here, say=say)
        finally:
            journal.close()
        report = report_of(directory)
        text = json.dumps(packages_json.as_json(report), indent=1)
        write_atomically(directory / "verdict.json", text)
        write_atomically(directory / "report.md", reports.markdown(report))
    print(text if args.json else reports.render(report), file=stdout)
    return EXIT_CODES[reports.verdict_name(report.step)]


def _journal(directory: Path, args: argparse.Namespace, request: Asked, variables: Mapping[str, str]) -> Journal:
    path = directory / FILE_NAME
    identity = request.identity
    if path.exists():
        journal = Journal.open(path)
        identity.refuse_another(journal.contents.header, KIND, path)
        return journal
    header = {"command": KIND, "argv": without_out(args.argv), "identity": identity.options, "cwd": str(Path.cwd())}
    return Journal.create(path, {**header, "variables": variables})


def _search(
    journal: Journal,
    request: Asked,
    sides: Sides,
    *,
    cost: SetPlan,
    here: settings.Settings,
    say: Callable[[str], None],
) -> None:
    """Plan (both ends are built for it) and run the loop; the journal says the rest."""
    found = items(sides.good.facts, sides.bad.facts)
    mixes: dict[str, ItemSet] = {GOOD: frozenset(), BAD: frozenset(item.id for item in found)}
    mixes.update({entry["candidate"]: frozenset(entry["items"]) for entry in journal.contents.of("started")})
    mixer = Mixer(good=sides.good, bad=sides.bad, items=found, settings=here)
    shared = common(sides.good.facts.variables, sides.bad.facts.variables)
    builder = _builder(journal, request, mixer, mixes, say)
    plan = journal.contents.plan(journal.path.parent)
    if plan is None:
        say("\n".join(plan_lines(sides, cost)))
        _refuse_no_room(cost, mixer, mixes)
        plan = journal.append("plan", **_plan(request, sides, mixer, builder), common=shared)
    if items_of(plan) != found or plan.get("common", {}) != shared:
        raise UsageError(
            f"{sides.good.name} or {sides.bad.name} is not what it was when the search in {journal.path.parent} began",
            hint="put it back, or start another search with another --out",
        )
    made = [entry["candidate"] for entry in journal.contents.of("built") if not entry["outcome"]]
    refuse_replaced(journal.path.parent, made, listed_now(sides.both))
    journal.append("asked", confidence=request.confidence, max_runs=request.max_runs)
    runner = _runner(journal, request, builder)
    search = SetSearch(
        problem=problem_of(plan, confidence=request.confidence, max_runs=request.max_runs),
        items=found,
        journal=journal,
        runner=runner,
        request=replace(request.request, environment=tuple({**shared, **dict(request.request.environment)}.items())),
        mixes=mixes,
        show=say,
        decide=decision(plan),
        last_run=last_run_in(journal.path.parent),
    )
    try:
        step = search.run()
    finally:
        runner.close()
    if not journal.contents.of("verdict"):
        journal.append("verdict", verdict=reports.verdict_name(step))


def _refuse_no_room(cost: SetPlan, mixer: Mixer, mixes: Mapping[str, ItemSet]) -> None:
    """A disk that not even the two ends fit on, before the first is built."""
    if mixer.items:
        missing = sum(not is_built(mixer.definition(mixes[name], name), mixer.settings) for name in (GOOD, BAD))
        refuse_no_room(missing * cost.environment_bytes, mixer.settings.store)


def _builder(
    journal: Journal, request: Asked, mixer: Mixer, mixes: Mapping[str, ItemSet], say: Callable[[str], None]
) -> Builder:
    return Builder(
        names=(GOOD, BAD),
        define=lambda name: mixer.definition(mixes[name], name),
        settings=mixer.settings,
        directory=journal.path.parent,
        say=lambda line: say(f"  {line}"),
        keep=request.keep,
        import_is_the_question=import_is_the_question(request.question),
    )


def _launcher(request: Asked, directory: Path, say: Callable[[str], None]) -> Launcher:
    return launcher_on(
        request.on,
        profile=request.slurm_profile,
        directory=directory,
        say=say,
        exclusive=request.question.throughput,
        together=request.question.throughput and request.together,
    )


def _runner(journal: Journal, request: Asked, builder: Builder) -> ProbeRunner:
    question = request.question
    race = question.kind is RunKind.TRAIN and question.threads != 1 and not question.throughput
    wants_control = race and not request.identity.options["no_control"]
    directory = journal.path.parent
    return ProbeRunner(
        builder=builder,
        launcher=_launcher(request, directory, builder.say),
        request=request.request,
        question=question,
        directory=directory,
        say=builder.say,
        baseline=GOOD,
        control_at=BAD if wants_control else "",
    )


def _plan(request: Asked, sides: Sides, mixer: Mixer, builder: Builder) -> dict[str, Any]:
    """The differences, and from what the two built ends require, which of them belong together."""
    good, bad = (
        replace(side.facts, requires=side.facts.requires or requirements_in(builder.built(name).path / "venv"))
        if mixer.items
        else side.facts
        for side, name in zip(sides.both, (GOOD, BAD), strict=True)
    )
    return {
        "items": [{**asdict(item), "kind": str(item.kind)} for item in mixer.items],
        "needs": [list(pair) for pair in needs(mixer.items)],
        "families": [sorted(family) for family in families(mixer.items, good, bad)],
        "candidates": [item.id for item in mixer.items],
        "hunted": request.question.words,
        "throughput": request.question.throughput,
        "min_effect": request.min_effect,
        **sides.planned(),
    }
