"""`python -m bisect releases PKG --env ENV`: search the releases of one package, the rest of the lock as it is."""

from __future__ import annotations

import dataclasses
import difflib
import os
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envs import index, lock, settings, spec
from envs.errors import CannotBuildError, UsageError
from envs.listing import default_files, target_of
from envs.resolve import keep_lock, lock_for, request_digest

from ..candidates import releases
from ..endpoints import Range, select
from ..searches import Request, directory_of, run_search
from ..surroundings import refuse_missing
from .search_options import add_search_options, asked, check_builds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

KIND = "releases"
TAKES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The package, its environment, and the shared options."""
    parser.epilog = "example: python -m bisect releases triton --env cu130 --good 3.5.1 --bad 3.6.0"
    parser.add_argument("package", metavar="PKG", help="the package whose releases are searched")
    parser.add_argument("--env", required=True, metavar="ENV", help="definition whose lock stays otherwise as it is")
    add_search_options(parser)


def run(args: argparse.Namespace, *, stdout: IO[str], stderr: IO[str]) -> int:
    """Search."""
    check_builds(args)
    package = canonicalize_name(args.package)
    if package == "torch":
        raise UsageError("the releases of torch have a search of their own", hint="use torch-releases")
    base, here = spec.load(args.env), settings.from_arguments(args, os.environ)
    exchange = Exchange(base=base, settings=here, package=package)

    def find_range() -> Range:
        target = target_of(base, here)
        today = datetime.now(UTC).date()
        found = releases(
            exchange.files(), target, what=f"releases of {package}", cutoff=base.exclude_newer, today=today
        )
        return select(found, good=args.good, bad=args.bad)

    question = asked(args)
    refuse_missing(question, here, base=base, torch_repo=args.torch_repo or "")
    exchange.refuse_stranger()
    request = Request(
        kind=KIND,
        asked=question,
        settings=here,
        find_range=find_range,
        files=exchange.files,
        base=base,
        define=exchange.define,
        directory=directory_of(args, f"{KIND}-{package}"),
        argv=args.argv,
        torch_repo=args.torch_repo or "",
        commit_is_identity=False,
    )
    return run_search(request, args, stdout=stdout, stderr=stderr)


@dataclasses.dataclass(slots=True, kw_only=True)
class Exchange:
    """Makes the environments of a definition with another release of one package; nothing else is resolved anew."""

    base: spec.Definition
    settings: settings.Settings
    package: str
    _files: tuple[index.File, ...] = ()

    def files(self) -> tuple[index.File, ...]:
        """Every wheel of the package: in the wheelhouse, else on the default index; asked once."""
        if not self._files and self.settings.wheelhouse is not None:
            house = self.settings.wheelhouse
            found = index.from_filenames((path.name for path in house.glob("*.whl")), url=house.as_uri())
            self._files = tuple(file for file in found if file.name == self.package)
        if not self._files:
            self._files = default_files(self.package, self.settings)
        return self._files

    def refuse_stranger(self) -> None:
        """UsageError for a package that the definition's lock does not hold, with the near names."""
        names = [item.name for item in lock_for(self.base, self.settings).distributions]
        if self.package not in names:
            near = difflib.get_close_matches(self.package, names)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names)}"
            raise UsageError(f"{self.package} is not in the environment {self.base.name}", hint=hint)

    def define(self, entry: Mapping[str, Any]) -> spec.Definition:
        """The definition with the package at this version; its lock is the base's with one distribution exchanged."""
        version = entry["version"]
        others = [text for text in self.base.requirements if _name(text) != self.package]
        definition = dataclasses.replace(
            self.base,
            name=f"{self.base.name}-{self.package}-{version}",
            summary=f"{self.base.name} with {self.package} {version}",
            requirements=(*others, f"{self.package}=={version}"),
        )
        keep_lock(definition, self.settings, self._lock(definition, version))
        return definition

    def _lock(self, definition: spec.Definition, version: str) -> lock.Lock:
        base = lock_for(self.base, self.settings)
        files = [file for file in self.files() if index.matches(file.version, Version(version)) and not file.yanked]
        if not all(file.sha256 for file in files):
            raise CannotBuildError(
                f"the index gives no hash for {self.package} {version}, so no lock can hold it", outcome="not_published"
            )
        return lock.exchanged(
            base,
            name=definition.name,
            request=request_digest(definition),
            files=files,
            source=lock.Source.DEFAULT,
        )


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)
