"""An ordered search from its options to its exit code: plan, journal, loop, report. Also how one goes on or is read.

What differs between the searches (which builds, and which environment each one is) comes in as a `Range` and a
function; everything after that is the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .again import engine_variables
from .builds import Builder
from .commands.search_options import Asked, default_run_directory, without_out
from .driver import Event, Search
from .executor import ProbeRunner, import_is_the_question
from .files import make_run_directory, only_one
from .identity import digests_of, refuse_edited
from .interrupts import interruptible, stopped_search
from .journal import FILE_NAME, Journal
from .launch import Launcher, Progress, launcher_on, tell_objection
from .model import Conclusion
from .pace import percent
from .plan import left_of
from .probe import RunKind
from .progress import follow
from .replaced import listed, refuse_replaced
from .report import EXIT_CODES, Report, verdict_name
from .report_json import as_json
from .report_text import render
from .run_directory import last_run_in
from .search_plan import new_plan
from .search_report import engine_of, problem_of, report_of, write_reports
from .state import State
from .surroundings import refuse_no_room

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from envs.index import File
    from envs.settings import Settings
    from envs.spec import Definition

    from .endpoints import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One search: the question, the builds to choose from, and where everything goes.

    Attributes:
        kind: the command's name.
        asked: the checked options.
        settings: where environments come from and go.
        find_range: lists the index and picks the range; called once, when the search starts.
        files: what the index lists of the exchanged package, asked once.
        base: the definition that builds are exchanged in.
        define: the environment of a candidate, given its entry in the plan.
        directory: the run directory.
        argv: the command line, without `python -m bisect`.
        torch_repo: a clone of pytorch, or ''.
        commit_is_identity: whether two candidates of one commit of torch are the same.
    """

    kind: str
    asked: Asked
    settings: Settings
    find_range: Callable[[], Range]
    files: Callable[[], Sequence[File]]
    base: Definition
    define: Callable[[Mapping[str, Any]], Definition]
    directory: Path
    argv: tuple[str, ...]
    torch_repo: str = ""
    commit_is_identity: bool = True


def run_search(request: Request, args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Start or go on with a search; the exit code of its verdict."""
    path = request.directory / FILE_NAME
    launcher = _launcher(request, print)  # where it cannot run is told before anything is listed or made
    if args.dry_run:
        tell_objection(launcher, stderr)
        plan = new_plan(request)
        print(json.dumps(plan["cost"], indent=1) if args.json else "\n".join(plan["lines"]), file=stdout)
        return 0
    if not path.exists():
        make_run_directory(request.directory)
    print(f"run directory: {request.directory}", file=stderr, flush=True)
    with interruptible(partial(stopped_search, request.directory)), only_one(request.directory):
        journal = _open(request, path, launcher, stderr)
        try:
            report = _searched(request, journal, stderr)
        finally:
            journal.close()
    print(json.dumps(as_json(report), indent=1) if args.json else render(report), file=stdout)
    return EXIT_CODES[verdict_name(report.step)]


def _open(request: Request, path: Path, launcher: Launcher, stderr: IO[str]) -> Journal:
    """The journal with its plan: a new one, or the one to go on with, if it is of the same search."""
    identity = request.asked.identity
    if path.exists():
        journal = Journal.open(path)
        identity.refuse_another(journal.contents.header, request.kind, path)
        refuse_edited(journal.contents.header, request.base, path)
    else:
        argv = without_out(request.argv)
        header = {"command": request.kind, "argv": argv, "identity": identity.options, "cwd": str(Path.cwd())}
        variables = engine_variables(request.settings, request.base)
        journal = Journal.create(path, {**header, "variables": variables, "definition": digests_of(request.base)})
    if journal.contents.plan(request.directory) is None:
        plan = new_plan(request)
        print("\n".join(plan["lines"]), file=stderr, flush=True)
        if launcher.node_store is None:
            refuse_no_room(plan["first_bytes"], request.settings.store)
        journal.append("plan", **plan)
        journal = _reopened(journal)
    else:
        state = State.replay(journal.contents.entries)
        made = [name for name, build in state.builds.items() if not build.outcome]
        refuse_replaced(request.directory, made, listed(request.files, offline=request.settings.offline))
        print(f"going on: {len(state.observations)} observations in {path}", file=stderr)
    return journal


def _reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal.open(journal.path)


def _searched(request: Request, journal: Journal, stderr: IO[str]) -> Report:
    contents = journal.contents
    plan = contents.of("plan")[-1]
    confidence, max_runs = request.asked.confidence, request.asked.max_runs
    journal.append("asked", confidence=confidence, max_runs=max_runs)
    problem = problem_of(plan, confidence=confidence, max_runs=max_runs)
    engine, runner = engine_of(plan), _runner(request, plan, stderr)
    search = Search(
        problem=problem,
        journal=journal,
        runner=runner,
        decide=engine.decide,
        useless=engine.useless,
        show=partial(_show, certain=plan["certain"], stderr=stderr),
        workers=request.asked.workers,
        taken=last_run_in(request.directory),
    )
    try:
        step, _ = search.run()
    finally:
        runner.close()
    if not contents.of("verdict"):
        journal.append("verdict", verdict=verdict_name(step))
    report = report_of(request.directory, step=step, torch_repo=request.torch_repo)
    write_reports(report, request.directory)
    return report


def _runner(request: Request, plan: Mapping[str, Any], stderr: IO[str]) -> ProbeRunner:
    entries = {entry["id"]: entry for entry in plan["candidates"]}
    question = request.asked.question
    race = question.kind is RunKind.TRAIN and not question.throughput and question.threads != 1
    wants_control = race and not request.asked.identity.options["no_control"]

    def say(line: str) -> None:
        print(f"  {line}", file=stderr, flush=True)

    return ProbeRunner(
        builder=Builder(
            names=tuple(entries),
            define=lambda name: request.define(entries[name]),
            settings=request.settings,
            directory=request.directory,
            say=say,
            keep=request.asked.keep,
            commit_is_identity=request.commit_is_identity,
            needs_compiler=request.asked.needs_compiler,
            import_is_the_question=import_is_the_question(question),
            served=partial(listed, request.files, offline=request.settings.offline),
        ),
        launcher=_launcher(request, say, watch=partial(follow, stream=stderr) if stderr.isatty() else None),
        request=request.asked.request,
        question=question,
        directory=request.directory,
        say=say,
        baseline=plan["good"],
        control_at=plan["bad"] if wants_control else "",
    )


def _launcher(request: Request, say: Callable[[str], None], watch: Callable[[str], Progress] | None = None) -> Launcher:
    return launcher_on(
        request.asked.on,
        profile=request.asked.slurm_profile,
        directory=request.directory,
        say=say,
        watch=watch,
        exclusive=request.asked.question.throughput,
        together=request.asked.question.throughput and request.asked.together,
    )


def _show(event: Event, *, certain: bool, stderr: IO[str]) -> None:
    """One line a step: what runs next; what a run showed; what is left."""
    if event.step is not None:
        left = left_of(event.problem, event.state.observations, event.step.posterior, certain=certain)
        told = f"; {left}" if event.state.observations else ""
        print(f"next: {event.step.candidate} ({event.step.reason}){told}", file=stderr, flush=True)
    if event.finding is not None:
        seen = event.finding.observation
        counted = [item for item in event.state.observations if item.candidate == seen.candidate]
        bad = sum(item.conclusion is Conclusion.BAD for item in counted)
        runs = sum(item.conclusion in (Conclusion.BAD, Conclusion.GOOD) for item in counted)
        reason = f": {event.finding.reason}" if event.finding.reason else ""
        count = f", {bad}/{runs} bad" if runs else ""
        found = f"{seen.conclusion.upper()} {seen.outcome}"
        if seen.value is not None:
            pairs = sum(item.value is not None for item in counted)
            found, count = f"throughput {percent(seen.value)}", f", pair {pairs}"
        print(f"{seen.candidate}: {found} ({seen.seconds:.0f} s{count}){reason}", file=stderr, flush=True)


def directory_of(args: argparse.Namespace, what: str) -> Path:
    """The run directory of the command line."""
    return Path(args.out) if args.out else default_run_directory(what)
