"""`python -m envs`: stdout is data, everything else goes to stderr, errors are one line and a hint."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from . import settings
from .commands import building, caching, listing, looking, pruning
from .commands.output import say
from .errors import ToolError
from .process import cannot_write, drop_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .settings import Settings

Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (argparse has no public name)


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Settings], int] = arguments.command
    try:
        code = command(arguments, settings.from_arguments(arguments, os.environ))
        sys.stdout.flush()
    except ToolError as error:
        return _told(error)
    except BrokenPipeError:
        return drop_output()
    except OSError as error:
        return _told(cannot_write(error))
    except KeyboardInterrupt:
        say("interrupted; nothing half-made was left")
        return 130
    return code


def _told(error: ToolError) -> int:
    say(error.told)
    return error.exit_code


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(
        prog="python -m envs",
        description="Make environments with a real torch, prove what they are, and keep them in a store.",
        epilog="example: python -m envs build cu130",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace, Settings], int], text: str, *, to: Subcommands = commands
    ) -> argparse.ArgumentParser:
        sub = to.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print JSON")
        settings.add_arguments(sub)
        sub.set_defaults(command=command)
        return sub

    add("list", listing.list_all, "list the definitions and what is built")
    sub = add("lock", listing.lock_again, "resolve definitions again and write their locks")
    sub.add_argument("names", nargs="+", metavar="NAME", help="definition, or path of a TOML file")
    sub.add_argument("--output", metavar="FILE", help="write the lock there (one NAME only)")
    sub.add_argument("--check", action="store_true", help="change nothing; say whether the committed lock fits")
    sub = add("build", building.build, "build an environment unless it is in the store")
    sub.add_argument("name", metavar="NAME", help="definition, or path of a TOML file")
    sub.add_argument("--torch", metavar="VERSION", default="", help="another version of torch")
    sub.add_argument("--cuda", metavar="TAG", default="", help="another CUDA variant, with --torch")
    sub.add_argument("--date", metavar="YYYYMMDD", default="", help="the nightly of that date")
    sub.add_argument("--dry-run", action="store_true", help="say what it would take")
    sub = add("path", building.path, "print the directory of a built environment")
    sub.add_argument("name", metavar="NAME")
    sub = add("verify", looking.verify, "hash every installed file against RECORD and list what does not belong")
    sub.add_argument("name", metavar="NAME", help="built environment, or the directory of any virtual environment")
    sub = add("diff", looking.diff, "list how two environments differ, what is likeliest to matter first, and why")
    sub.add_argument("before", metavar="A", help="built environment, or the directory of any virtual environment")
    sub.add_argument("after", metavar="B", nargs="?", help="left out: A is compared with the base of its history")
    sub.add_argument("--all", action="store_true", help="also list what has no known way to matter")
    sub = add("base-image", building.base_image, "give the container engine the image that environments are built in")
    sub.add_argument("--from", dest="reference", metavar="IMAGE@DIGEST", default="", help="pull it from a registry")
    sub.add_argument("--rootfs", metavar="ARCHIVE", type=Path, help="import a root file system archive")
    sub.add_argument("--suite", metavar="NAME", default="bookworm", help="Debian release to make it from")
    text = "keep compile caches as archives: save, restore, list"
    told = "every ACTION takes --json; example: python -m envs cache list --json"
    caches = commands.add_parser("cache", help=text, description=text, epilog=told)
    cached = caches.add_subparsers(required=True, metavar="ACTION")
    caching.add_save(add("save", caching.save, "save a compile cache with a manifest", to=cached))
    caching.add_restore(add("restore", caching.restore, "restore one into a build it fits", to=cached))
    add("list", caching.list_all, "list the saved compile caches", to=cached)
    sub = add("prune", pruning.prune, "remove what killed builds left, and environments on request")
    sub.add_argument("names", nargs="*", metavar="NAME", help="environments to remove")
    sub.add_argument("--max-size", metavar="SIZE", help="remove the least recently used until the rest fits (50G)")
    sub.add_argument("--all", action="store_true", help="remove every environment")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return top
