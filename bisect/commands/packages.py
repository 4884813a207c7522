"""`python -m bisect packages --good ENV --bad ENV`: the differences that bring a failure in, down to a minimal set."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from envs import settings, spec
from envs.build import is_built
from envs.errors import UsageError

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
from ..packages.pair import level, refuse_unknown
from ..packages.plan import dry_run, make_plan, plan_lines, to_build_first
from ..packages.search import BAD, GOOD, SetSearch, decision, items_of, problem_of
from ..packages.sides import Mixer, NotBuiltError, python_of, read_side
from ..packages.variables import common, dumped, left_out, taken
from ..packages.wheels import listed_now, told_apart
from ..probe import RunKind
from ..replaced import refuse_replaced
from ..report import EXIT_CODES
from ..run_directory import last_run_in
from ..surroundings import refuse_missing, refuse_no_room
from .search_options import add_search_options, asked, default_run_directory, without_out

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from ..packages import ItemSet
    from ..packages.pair import Sides
    from ..packages.plan import SetPlan
    from ..packages.sides import Side
    from .search_options import Asked

KIND = "packages"
KEEP = 24
"""Mixes kept on disk: the search comes back to them, and each is to be built once. A full disk removes the oldest."""
TAKES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two sides, what else may differ, and the options of every search."""
    parser.epilog = (
        "each side is a definition (cu128, cu128+sglang-residue), a virtual environment, a lock, a freeze or the "
        "output of pip list; example: python -m bisect packages --good cu128 --bad cu128+sglang-residue "
        "--probe train --for fx_flag_race"
    )
    add_search_options(parser)
    parser.set_defaults(keep=KEEP)
    more = parser.add_argument_group("differences beside packages")
    more.add_argument("--good-env", metavar="FILE", help="output of `env` on the good side")
    more.add_argument("--bad-env", metavar="FILE", help="output of `env` on the bad side")
    more.add_argument("--bad-cache", metavar="DIR", help="compile caches the bad side starts with")
    more.add_argument("--bad-pth", action="append", default=[], metavar="FILE", help="a .pth only the bad side has")
    more.add_argument(
        "--import", dest="imports", action="append", default=[], metavar="PKG",
        help="also ask whether importing PKG matters, beside its being installed (--probe train)",
    )  # fmt: skip
    taken = "an extra or group of a uv.lock that was installed (else as `uv sync` does: the group dev, no extra)"
    more.add_argument(
        "--extra", dest="extras", action="append", default=[], type=canonicalize_name, metavar="NAME", help=taken
    )
    more.add_argument("--base", default="cu130", metavar="ENV", help="definition that lists are built on (cu130)")


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
        dumps = _dumped(args.good_env), _dumped(args.bad_env)
        sides = replace(level(*_sides(args, dumps, here, say)), left_out=left_out(*dumps))
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


def _sides(
    args: argparse.Namespace,
    dumps: tuple[Mapping[str, str], Mapping[str, str]],
    here: settings.Settings,
    say: Callable[[str], None],
) -> tuple[Side, Side]:
    """Read both; `dumps`: what was said of the variables of each."""
    read = partial(
        read_side, settings=here, base=spec.load(args.base), say=say, may_build=not args.dry_run, extras=args.extras
    )
    good = read(args.good)
    if good.facts.history:
        raise UsageError(
            f"the good side {args.good} has a history of its own", hint="give the environment it was built on"
        )
    bad = read(args.bad)
    refuse_unknown(args.extras, good, bad)
    variables = {**good.facts.variables, **taken(dumps[0])}
    good = replace(good, facts=replace(good.facts, variables=variables))
    facts = replace(
        bad.facts,
        variables={**bad.facts.variables, **taken(dumps[1])},
        pth={**bad.facts.pth, **_start_files(args.bad_pth)},
        cache=str(_directory(args.bad_cache)) if args.bad_cache else "",
        imports=tuple(args.imports),
    )
    return told_apart(good, replace(bad, facts=facts), python_of(good.definition, here))


def _start_files(names: Sequence[str]) -> dict[str, str]:
    """The text of each `.pth` by the name it has in site-packages, where two of one name cannot be."""
    found = {Path(name).name: _text(name) for name in names}
    if len(found) < len(names):
        raise UsageError(
            "two of --bad-pth have the same file name, and site-packages holds one of them",
            hint="give the one that is there last, or rename one",
        )
    return found


def _text(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error


def _directory(name: str) -> Path:
    if not Path(name).is_dir():
        raise UsageError(f"--bad-cache {name} is not a directory")
    return Path(name).absolute()


def _dumped(name: str | None) -> Mapping[str, str]:
    """Everything that a dump of `env` says; no value of what a search does not take is kept."""
    return dumped(_text(name)) if name else {}


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
