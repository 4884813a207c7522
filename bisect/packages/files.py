"""What a directory says beside its list of packages: what they require, and what no list of packages brings back."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envs.findings import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from envs.findings import Finding

_WORDS = {
    Kind.CHANGED: "edited",
    Kind.MISSING: "missing",
    Kind.NO_RECORD: "without a record",
    Kind.UNOWNED: "of no package",
}
_IMPORTABLE = (".py", ".so", ".pyc")
_SHOWN = 6


def unlisted(findings: Iterable[Finding], *, python: str, rebuilt_with: str) -> tuple[str, ...]:
    """What an environment rebuilt from its list would not have as it is here, `edited torch/__init__.py`.

    A package that nobody owns is told once. A `.pth` is a difference of its own, and bookkeeping changes nothing.

    Args:
        findings: what was found in it.
        python: full version of its interpreter.
        rebuilt_with: minor version of the interpreter that mixes have.
    """
    files = sorted((item.kind, _inside(item.path)) for item in findings if _matters(item))
    told = Counter((kind, _whole(path) if kind is Kind.UNOWNED else path) for kind, path in files)
    lines = [f"{_WORDS[kind]} {path}" for kind, path in told]
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    other = [f"Python {python}, not {rebuilt_with}"] if not f"{python}.".startswith(f"{rebuilt_with}.") else []
    return (*other, *lines[:_SHOWN], *more)


def _matters(item: Finding) -> bool:
    if item.kind is Kind.UNOWNED:
        return item.path.endswith(_IMPORTABLE) and item.path.startswith("lib") and "__pycache__/" not in item.path
    return item.kind is Kind.NO_RECORD or (item.kind in _WORDS and ".dist-info/" not in item.path)


def _inside(path: str) -> str:
    """The path below site-packages, for what lies there."""
    return path.partition("site-packages/")[2] or path


def _whole(path: str) -> str:
    top, _, rest = path.partition("/")
    return f"{top}/" if rest else top


def requirements_in(venv: Path) -> dict[str, tuple[str, ...]]:
    """What every distribution of an environment asks for, extras left out."""
    site = [str(path) for path in venv.glob("lib/python3*/site-packages")]
    return {
        canonicalize_name(item.metadata["Name"]): tuple(filter(_applies, item.requires or ()))
        for item in importlib.metadata.distributions(path=site)
    }


def _applies(text: str) -> bool:
    try:
        marker = Requirement(text).marker
    except InvalidRequirement:
        return False
    return marker is None or marker.evaluate({"extra": ""})
