"""The workload's code: where it is, the copy of it that a run starts from, and the digest that tells two apart."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

WORKLOAD = Path(__file__).resolve().parent.parent / "dflash"


def stage(target: Path) -> str:
    """Copy the workload alone into `target`, so that a child never sees this repository; the code's digest."""
    shutil.copytree(WORKLOAD, target / "dflash", ignore=shutil.ignore_patterns("__pycache__"))
    return code_digest(target / "dflash")


def code_digest(folder: Path) -> str:
    """sha256 over the relative names and bytes of every source file, in name order."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
