"""`python -m bisect torch-nightlies`: search the nightlies of one CUDA variant."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime
from functools import cache, partial
from typing import IO, TYPE_CHECKING, Any

from envs import settings, spec
from envs.listing import target_of
from envs.origin import torch_files

from ..candidates import nightlies
from ..endpoints import Range, select
from ..searches import Request, directory_of, run_search
from ..surroundings import refuse_missing
from .search_options import add_search_options, asked, check_builds, check_variant

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

KIND = "torch-nightlies"
TAKES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shared options, the variant, and the environment that torch is exchanged in."""
    parser.epilog = (
        "BUILD is a date, a version, newest or oldest; "
        "example: python -m bisect torch-nightlies --cuda cu130 --good 2026-10-01 --bad newest"
    )
    parser.add_argument("--cuda", default="cu130", metavar="TAG", help="CUDA variant of the nightly index (cu130)")
    parser.add_argument("--env", default="nightly", metavar="ENV", help="definition that torch is exchanged in")
    add_search_options(parser)


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Search."""
    check_builds(args)
    check_variant(args.cuda)
    here = settings.from_arguments(args, os.environ)
    base = dataclasses.replace(spec.load(args.env), cuda=args.cuda, channel=spec.Channel.NIGHTLY)

    files = cache(partial(torch_files, base, here))

    def find_range() -> Range:
        found = nightlies(
            files(),
            target_of(base, here),
            cuda=args.cuda,
            what=f"torch nightlies for {args.cuda}",
            today=datetime.now(UTC).date(),
        )
        return select(found, good=args.good, bad=args.bad)

    def define(entry: Mapping[str, Any]) -> spec.Definition:
        return spec.with_torch(base, version=entry["id"], cuda=args.cuda)

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
