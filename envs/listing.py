"""What the default index offers of a project: the page that a search over releases chooses from."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import fetch, index, interpreter, uv
from .errors import CannotBuildError

if TYPE_CHECKING:
    from .settings import Settings
    from .spec import Definition


def default_files(project: str, settings: Settings) -> tuple[index.File, ...]:
    """Every wheel of a project on the default index (or on the one that replaces it)."""
    if settings.offline:
        raise CannotBuildError(
            f"cannot list the releases of {project}: the network is off",
            hint="run without --offline, or give a directory of wheels with --wheelhouse",
            outcome="download_failed",
        )
    root = settings.default_index or uv_default_index()
    try:
        response = fetch.page(f"{root.rstrip('/')}/{project}/")
    except CannotBuildError as error:
        if error.outcome != "not_published":
            raise
        raise CannotBuildError(
            f"the default index has no project {project}", hint="is the name right?", outcome="not_published"
        ) from error
    try:
        files = index.parse(response.text, url=response.url)
    except index.PageError as error:
        raise CannotBuildError(str(error), hint="is the index right?", outcome="download_failed") from error
    return tuple(file for file in files if file.name == project)


def uv_default_index() -> str:
    """The index that uv uses when it is told of none: uv is asked, for it is uv that installs from it."""
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder) / "requirements.in"
        nothing.touch()
        log = Path(folder) / "uv.log"
        _, text = uv.run(["pip", "compile", str(nothing), "--emit-index-url", "--no-header", "--offline"], log=log)
    found = re.search(r"^--(?:default-)?index-url (\S+)$", text, re.MULTILINE)
    if found is None:
        raise CannotBuildError(
            "uv does not say what its default index is", hint="give one with --default-index", outcome="tool_too_old"
        )
    return found[1]


def target_of(definition: Definition, settings: Settings) -> index.Target:
    """What a wheel must fit to be installed in the definition's environment on this machine."""
    return interpreter.find(definition.pythons, uv=uv.program(), offline=settings.offline).target()
