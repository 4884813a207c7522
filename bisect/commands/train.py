"""`python -m bisect train ENV`: run the multi-threaded training benchmark in an environment, say what happened.

Exit code: 0 when the question was answered (a race that was found is an answer), 2 for a wrong command line, 4 when
what happened could not be told, 5 when the environment cannot be built, 6 when this machine cannot run it, or the
environment was changed after it was built.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envs import cache, settings, spec
from envs.build import Built, build
from envs.errors import InterruptedRunError, UsageError

from ..again import resume_command
from ..builds import changed_before, changed_since
from ..changed import Changed
from ..exit_codes import train_code
from ..files import only_one, write_atomically
from ..interrupts import interruptible
from ..judge import classify_train, control_verdict, train_result
from ..launch import Recipe, Task, launcher_on, tell_objection
from ..probe import RunKind, RunRecord, RunRequest, load_record
from ..progress import follow
from ..redaction import without_credentials
from ..run_all import run_all
from ..run_directory import answered, keep_answer, take_up
from ..run_plan import show_plan
from ..surroundings import refuse_options, refuse_unusable
from ..train_report import JudgedRun, TrainAnswer, as_json, render
from .search_options import without_out
from .train_options import Request, add_arguments, benchmark_arguments, command_line, request_of

if TYPE_CHECKING:
    import argparse

    from ..launch import Launcher
    from ..probe import Environment

__all__ = ["TAKES_REST", "Request", "add_arguments", "exit_code", "run", "train"]
TAKES_REST = True
UNPACKED = "unpacked="
CHANGED = "changed.json"
"""In the run directory: the environment that was found changed; its runs stay what they are when it is built anew."""
REFUSED = 2  # the benchmark's exit code for an option or a profile that this machine cannot run


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Build, run, judge, report; in the directory of the same command, finished, only the report."""
    identity = without_credentials(command_line(args))
    kept = answered(Path(args.out), identity=identity) if args.out and not args.dry_run else None
    if kept is not None:
        print(f"answered before, nothing is run again: {args.out}", file=stderr, flush=True)
        print(kept.json if args.json else kept.report, file=stdout)
        return kept.code
    refuse_options((*benchmark_arguments(args), *(() if args.threads is None else ("--threads", str(args.threads)))))
    refuse_unusable(settings.from_arguments(args, os.environ), image=spec.load(args.env).image, on=args.on)
    request = request_of(args)
    launcher = _launcher(request, stderr)
    if args.dry_run:
        runs = request.repeat + (request.control and request.threads != 1) + (request.cache != "cold")
        tell_objection(launcher, stderr)
        return show_plan(
            request.definition,
            request.settings,
            num_runs=runs,
            as_json=args.json,
            stdout=stdout,
            needs_compiler=request.needs_compiler,
            builds_here=launcher.node_store is None,
        )
    going_on = take_up(request.directory, command="train", argv=without_out(args.argv), identity=identity)
    print(f"run directory: {request.directory}", file=stderr, flush=True)
    with interruptible(partial(_interrupted, request.directory)), only_one(request.directory):
        answer = _answered(request, launcher, going_on=going_on, stderr=stderr)
    text = json.dumps({**as_json(answer), "exit_code": exit_code(answer)}, indent=1)
    keep_answer(request.directory, text=text, report=render(answer))
    print(text if args.json else render(answer), file=stdout)
    return exit_code(answer)


def _interrupted(directory: Path) -> InterruptedRunError:
    """What is left, and how to go on with it; before the first run the directory is gone again."""
    if not directory.exists():
        return InterruptedRunError("interrupted before the first run: nothing is kept", hint="give the command again")
    finished = sum(load_record(path) is not None for path in directory.iterdir() if path.is_dir())
    return InterruptedRunError(
        f"interrupted: {finished} finished {'run is' if finished == 1 else 'runs are'} kept in {directory}",
        hint=f"go on with: {resume_command(directory)}",
    )


def _answered(request: Request, launcher: Launcher, *, going_on: bool, stderr: IO[str]) -> TrainAnswer:
    if going_on:
        print(f"going on with the runs in {request.directory}", file=stderr, flush=True)
    try:
        built = _built(request, request.definition, launcher, stderr)
        request = replace(request, cache=_unpacked(request, built))
    except BaseException:
        if not going_on:
            shutil.rmtree(request.directory)
        raise
    return replace(train(request, built, launcher, stderr=stderr), changed=_changed(request, built))


def exit_code(answer: TrainAnswer) -> int:
    """0 answered, 4 cannot be told, 6 this machine cannot run it, or ran something else than was built."""
    return train_code(answer.worst.classification.outcome.name, changed=answer.changed is not None)


def _changed(request: Request, built: Environment | Recipe) -> Changed | None:
    """What was changed in an environment of these runs, before them or since."""
    kept = request.directory / CHANGED
    if kept.exists():
        return Changed(**json.loads(kept.read_text(encoding="utf-8")))
    return None if isinstance(built, Recipe) else changed_since(built.name, built.digest, request.settings.store)


def train(request: Request, built: Environment | Recipe, launcher: Launcher, *, stderr: IO[str]) -> TrainAnswer:
    """Make every run in the built environment and judge them with the control beside them."""
    ask = RunRequest(
        kind=RunKind.TRAIN,
        arguments=_with_threads(request, request.threads),
        timeout_s=request.timeout_s,
        cache=_filled_cache(request, built, launcher, stderr),
    )
    asked = {f"run-{number:04d}": ask for number in range(1, request.repeat + 1)}
    if request.control and request.threads != 1:
        asked["control"] = replace(ask, arguments=_with_threads(request, 1))
    tasks = [
        Task(built=built, request=asked_for, directory=request.directory / name) for name, asked_for in asked.items()
    ]
    records = run_all(tasks, launcher, workers=request.workers, check=_refuse_refused)
    control, verdict = None, ""
    if "control" in records:
        record = records.pop("control")
        control, verdict = _judged(record, threads=1, control=""), control_verdict(record)
    return TrainAnswer(
        environment=request.definition.name,
        runs=tuple(_judged(record, threads=request.threads, control=verdict) for record in records.values()),
        control=control,
        directory=str(request.directory),
        reproduce=request.reproduce,
        token_budget=request.token_budget,
    )


def _launcher(request: Request, stderr: IO[str]) -> Launcher:
    return launcher_on(
        request.on,
        profile=request.slurm_profile,
        directory=request.directory,
        say=lambda line: print(line, file=stderr, flush=True),
        watch=partial(follow, stream=stderr),
        exclusive=True,
    )


def _built(request: Request, definition: spec.Definition, launcher: Launcher, stderr: IO[str]) -> Environment | Recipe:
    """The environment, or how a node makes it where nodes build for themselves."""
    if launcher.node_store is not None:
        return Recipe(
            definition=definition,
            settings=replace(request.settings, store=launcher.node_store),
            needs_compiler=request.needs_compiler,
        )

    def say(line: str) -> None:
        print(line, file=stderr, flush=True)

    built = build(definition, request.settings, report=say, require_compiler=request.needs_compiler)
    changed = changed_before(built, request.settings.store, say)
    if changed is not None:
        write_atomically(request.directory / CHANGED, json.dumps(asdict(changed)))
    return built


def _refuse_refused(record: RunRecord) -> None:
    result = train_result(record)
    if record.returncode == REFUSED and (result is None or result.workaround.refusal):
        raise UsageError(
            f"the benchmark refused the request: {record.log().strip()}", hint="see `python -m bisect train --help`"
        )


def _judged(record: RunRecord, *, threads: int | None, control: str) -> JudgedRun:
    result = train_result(record)
    return JudgedRun(
        name=record.directory.name,
        threads=threads or (len(result.drafters) if result else 0),
        classification=classify_train(record, threads=threads, control=control),
        result=result,
        directory=str(record.directory),
        completed=record.returncode == 0,
        seconds=record.seconds,
    )


def _unpacked(request: Request, built: Environment | Recipe) -> str:
    """`from=FILE`, an archive of `python -m envs cache save`, becomes the directory it was unpacked to."""
    archive = Path(request.cache.removeprefix("from="))
    if not request.cache.startswith("from=") or not archive.is_file() or not archive.name.endswith(cache.SUFFIX):
        return request.cache
    if not isinstance(built, Built):
        raise UsageError("--cache from=ARCHIVE needs an environment built here, not on the nodes", hint="see `store`")
    target = request.directory / "restored-cache"
    if not target.exists():
        cache.restore(archive, target, built.fingerprint)
    return f"{UNPACKED}{target}"


def _filled_cache(request: Request, built: Environment | Recipe, launcher: Launcher, stderr: IO[str]) -> Path | None:
    """The compile caches of a run made for them first, in this environment or in another one."""
    if request.cache == "cold":
        return None
    if request.cache.startswith(UNPACKED):
        return Path(request.cache.removeprefix(UNPACKED))
    source = built
    if request.cache != "warm":
        source = _built(request, spec.load(request.cache.removeprefix("from=")), launcher, stderr)
    ask = RunRequest(kind=RunKind.TRAIN, arguments=_with_threads(request, request.threads), timeout_s=request.timeout_s)
    task = Task(built=source, request=ask, directory=request.directory / "fill-cache")
    return run_all([task], launcher, workers=1, check=_refuse_refused)["fill-cache"].directory / "caches"


def _with_threads(request: Request, threads: int | None) -> tuple[str, ...]:
    return request.arguments if threads is None else (*request.arguments, "--threads", str(threads))
