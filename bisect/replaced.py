"""Files that an index has replaced under the same name since a search looked at them: its runs are of both, unmixed.

A build that is made anew goes by what the index serves at that moment; what was run before is compared with the lock
that was kept beside the runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs import pylock, served
from envs.errors import CannotBuildError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from envs.index import File


def listed(files: Callable[[], Sequence[File]], *, offline: bool) -> Sequence[File]:
    """What the index lists now; nothing where it cannot be asked."""
    try:
        return () if offline else files()
    except CannotBuildError:
        return ()


def refuse_replaced(directory: Path, built: Iterable[str], files: Sequence[File]) -> None:
    """UsageError where the index serves another file for a build than the one that a search ran.

    Args:
        directory: the run directory, with the lock of each build.
        built: names of the builds that were run.
        files: what the index lists now.
    """
    for name in built:
        path = directory / "environments" / f"{name}.lock.toml"
        if not files or not path.exists():
            continue
        kept = pylock.from_toml(path.read_text(encoding="utf-8"), origin=str(path))
        if why := served.replaced(kept, files, since=path.stat().st_mtime):
            raise UsageError(
                f"{name} is not what it was when the search in {directory} ran it: {why}",
                hint="start another search with another --out; `python -m bisect report` still reads this one",
            )
