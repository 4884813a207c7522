"""Options of `packages`, and the two sides that they name: environments, and what differs between them otherwise."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envs import spec
from envs.errors import UsageError

from ..packages.pair import level, refuse_unknown
from ..packages.sides import python_of, read_side
from ..packages.variables import dumped, left_out, taken
from ..packages.wheels import told_apart
from .search_options import add_search_options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from envs.settings import Settings

    from ..packages.pair import Sides
    from ..packages.sides import Side

KEEP = 24
"""Mixes kept on disk: the search comes back to them, and each is to be built once. A full disk removes the oldest."""


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


def sides_of(args: argparse.Namespace, here: Settings, say: Callable[[str], None]) -> Sides:
    """Read both sides, and all that the options name beside them."""
    dumps = _dumped(args.good_env), _dumped(args.bad_env)
    return replace(level(*_read(args, dumps, here, say)), left_out=left_out(*dumps))


def _read(
    args: argparse.Namespace,
    dumps: tuple[Mapping[str, str], Mapping[str, str]],
    here: Settings,
    say: Callable[[str], None],
) -> tuple[Side, Side]:
    """`dumps`: what was said of the variables of each."""
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
