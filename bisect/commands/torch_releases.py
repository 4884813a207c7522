"""`python -m bisect torch-releases`: search the releases of torch, each as the CUDA variant it is served as."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from envs import backend, settings, spec
from envs.listing import default_files, target_of
from envs.origin import torch_files

from ..candidates import releases
from ..endpoints import Range, select
from ..searches import Request, directory_of, run_search
from ..surroundings import refuse_missing
from .search_options import add_search_options, asked, check_builds, check_variant

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from envs.index import File

KIND = "torch-releases"
TAKES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shared options, and the environment that torch is exchanged in."""
    parser.epilog = (
        "example: python -m bisect torch-releases --probe hazards --for fx_flag_trace --good 2.15.0 --bad 2.8.0"
    )
    parser.add_argument("--env", default="cu130", metavar="ENV", help="definition that torch is exchanged in (cu130)")
    parser.add_argument("--cuda", metavar="TAG", help="only this variant, from its own index (default: as served)")
    add_search_options(parser)


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Search."""
    check_builds(args)
    if args.cuda:
        check_variant(args.cuda)
    base, here = spec.load(args.env), settings.from_arguments(args, os.environ)

    own_index = bool(args.cuda or here.index or here.wheelhouse)

    @cache
    def files() -> tuple[File, ...]:
        return torch_files(base, here) if own_index else default_files("torch", here)

    def find_range() -> Range:
        today = datetime.now(UTC).date()
        target = target_of(base, here)
        found = releases(files(), target, what="torch releases", cutoff=base.exclude_newer, today=today)
        return select(found, good=args.good, bad=args.bad)

    def define(entry: Mapping[str, Any]) -> spec.Definition:
        served = "" if own_index else backend.default_variant(entry["id"])
        return spec.with_torch(base, version=entry["version"], cuda=args.cuda or served)

    question = asked(args)
    refuse_missing(question, here, base=base, torch_repo=args.torch_repo or "")
    request = Request(
        kind=KIND,
        asked=question,
        settings=here,
        find_range=find_range,
        files=files,
        base=base,
        define=define,
        directory=directory_of(args, KIND),
        argv=args.argv,
        torch_repo=args.torch_repo or "",
    )
    return run_search(request, args, stdout=stdout, stderr=stderr)
