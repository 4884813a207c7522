"""The same problems given to a peer: git_bayesect, its own code from the package index, in its own environment."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from envs import process, scrub, uv

from .ordered import COST
from .played import UNITS_A_BUILD

if TYPE_CHECKING:
    from collections.abc import Iterator

PEER = "git-bayesect==1.2"
_SCRIPT = Path(__file__).with_name("peer_git_bayesect.py")
_LIMIT_S = 3600.0


def rows(*, searches: int, seed: int) -> Iterator[list[str]]:
    """One row a cell: what the peer answers when it is driven as its own command line drives it."""
    yield ["peer", "cell", "right/claimed", "accuracy", "runs", "builds", "units"]
    with tempfile.TemporaryDirectory() as directory:
        python = environment(Path(directory), PEER)
        for size, bad, good in COST:
            arguments = [str(size), str(bad), str(good), str(searches), str(seed)]
            found = ask(python, _SCRIPT, Path(directory), arguments)
            units = found["runs"] + UNITS_A_BUILD * found["builds"]
            figures = [
                f"{found['right'] / searches:.3f}",
                f"{found['runs']:.1f}",
                f"{found['builds']:.1f}",
                f"{units:.0f}",
            ]
            yield [PEER, f"N={size} {bad:g}/{good:g}", f"{found['right']}/{searches}", *figures]


def environment(directory: Path, *requirements: str) -> Path:
    """An environment with the peer alone; returns its Python."""
    python = directory / "venv" / "bin" / "python"
    for arguments in (["venv", str(directory / "venv")], ["pip", "install", "--python", str(python), *requirements]):
        _checked([uv.program(), "--quiet", *arguments], directory)
    return python


def ask(python: Path, script: Path, directory: Path, arguments: list[str]) -> dict[str, float]:
    """What a script that runs inside the peer's environment wrote."""
    answer: dict[str, float] = json.loads(_checked([str(python), str(script), *arguments], directory))
    return answer


def _checked(argv: list[str], directory: Path) -> str:
    done = process.capture(argv, cwd=directory, env=scrub.installer_environment(os.environ), timeout_s=_LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr}")
    return done.stdout
