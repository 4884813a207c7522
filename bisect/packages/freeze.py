"""Reads what people have when an environment is far away: a freeze, a list, a lock, a conda export.

Knows the formats and nothing of the environment behind them, except for which platform and Python it is. Nothing is
dropped silently: a line that cannot be installed again elsewhere, or is not understood, becomes an `Unreproducible`
with its name and the reason; one whose marker does not hold is kept apart.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from .freeze_lines import (
    Pin,
    Unreproducible,
    checked,
    conda_package,
    from_url,
    joined,
    parted,
    requirement,
    requirement_lines,
)
from .freeze_locks import read_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from envs.index import Target

__all__ = ["Freeze", "Pin", "Unreproducible", "decode", "parse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """What one file says is installed.

    Attributes:
        kind: the format that was recognised.
        pins: what is installed, by name.
        unreproducible: what is installed and cannot be had again.
        elsewhere: what is listed for other platforms or Pythons only.
        taken: extras and groups of a project's lock that are taken as installed.
        untaken: the others that it has.
        optional: what those would install.
    """

    kind: str
    pins: tuple[Pin, ...]
    unreproducible: tuple[Unreproducible, ...] = ()
    elsewhere: tuple[Pin | Unreproducible, ...] = ()
    taken: tuple[str, ...] = ()
    untaken: tuple[str, ...] = ()
    optional: tuple[Pin | Unreproducible, ...] = ()

    def get(self, name: str) -> Pin | None:
        """The pin of a distribution, by any spelling of its name."""
        wanted = canonicalize_name(name)
        return next((pin for pin in self.pins if pin.name == wanted), None)


def decode(data: bytes) -> str:
    """Text of a file from any platform: UTF-8 with or without a mark, or PowerShell's UTF-16."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    return data.decode("utf-8-sig", errors="replace")


def parse(text: str, *, target: Target, extras: Iterable[str] = ()) -> Freeze:
    """Recognise the format and read it; ValueError (with the reason) for a file that is none of them.

    `extras`: names of the extras and groups of a project's lock that are installed.
    """
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    stripped = text.lstrip()
    if re.match(r"\{|\[\s*[{\]]", stripped):
        return _parse_json(stripped)
    if re.search(r"^\s*(lock-version|\[\[packages?\]\])", text, re.MULTILINE):
        lock = read_lock(text, target, extras=extras)
        return replace(
            _collect(lock.kind, lock.here),
            elsewhere=lock.elsewhere,
            taken=lock.taken,
            untaken=lock.untaken,
            optional=lock.optional,
        )
    lines = text.split("\n")
    if any(re.match(r"\s*Package\s+Version\b", line) for line in lines):
        return _parse_columns(lines)
    if any(re.match(r"\s*dependencies:\s*$", line) for line in lines):
        here, elsewhere = parted(_conda_yaml(lines), target)
        return replace(_collect("conda environment", here), elsewhere=elsewhere)
    if any(re.match(r"#\s*Name\s+Version\b", line) for line in lines):
        return _parse_conda_list(lines)
    here, elsewhere = parted(requirement_lines(joined(lines)), target)
    return replace(_collect("requirements", here), elsewhere=elsewhere)


def _collect(kind: str, found: Iterable[Pin | Unreproducible]) -> Freeze:
    """Split pins from problems; a name pinned twice to different versions is a problem, not a choice."""
    pins: dict[str, Pin] = {}
    problems: list[Unreproducible] = []
    for each in found:
        if isinstance(each, Unreproducible):
            problems.append(each)
        elif each.name not in pins:
            pins[each.name] = each
        elif pins[each.name].version != each.version:
            reason = f"listed twice, as {pins[each.name].version} and as {each.version}; the first is used"
            problems.append(Unreproducible(name=each.name, reason=reason, line=str(each)))
    return Freeze(
        kind=kind, pins=tuple(sorted(pins.values(), key=lambda pin: pin.name)), unreproducible=tuple(problems)
    )


_EDITABLE = "Editable project location"
_COLUMN = re.compile(rf"Package|Version|Build|{_EDITABLE}|Location|Installer")


def _parse_columns(lines: Sequence[str]) -> Freeze:
    """`pip list`, `pip list -v`, `uv pip list`: a header, dashes, then a row for each distribution.

    An old pip calls the location of an editable project `Location`, which with `-v` is where a distribution lies.
    """
    header = next(line for line in lines if re.match(r"\s*Package\s+Version\b", line))
    starts = {match[0]: match.start() for match in _COLUMN.finditer(header)}
    editable = _EDITABLE if _EDITABLE in starts or "Installer" in starts else "Location"
    rows = (line for line in lines[lines.index(header) + 1 :] if re.match(r"\s*[A-Za-z0-9]\S*\s+\S", line))
    cells = (_cells(row, starts) for row in rows)
    return _collect("pip list", (_listed(row["Package"], row["Version"], row.get(editable, "")) for row in cells))


def _cells(row: str, starts: Mapping[str, int]) -> dict[str, str]:
    """A row by column; one whose columns were moved in transit is read by the number of its words."""
    ends = [*list(starts.values())[1:], len(row)]
    cells = {title: row[start:end].strip() for (title, start), end in zip(starts.items(), ends, strict=True)}
    words = row.split(None, len(starts) - 1)
    if [cells["Package"], cells["Version"]] == words[:2]:
        return cells
    titles = [title for title in starts if title != _EDITABLE or len(words) == len(starts)]
    return dict(zip(titles, words, strict=False))


def _listed(name: str, version: str, location: str = "") -> Pin | Unreproducible:
    line = f"{name} {version} {location}".strip()
    if location.strip():
        return Unreproducible(
            name=canonicalize_name(name), reason="an editable directory of the other machine", line=line
        )
    return checked(name, version, line=line)


def _parse_json(text: str) -> Freeze:
    """`pip list --format json`, `uv pip list --format json`, `pip inspect`, `conda list --json`."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"JSON that does not parse: {error}") from error
    if isinstance(data, dict) and isinstance(data.get("installed"), list):
        return _collect("pip inspect", (_inspected(entry) for entry in data["installed"]))
    if not isinstance(data, list) or not all(isinstance(entry, dict) and "name" in entry for entry in data):
        raise ValueError("JSON, but neither `pip list --format json` nor `pip inspect`")
    return _collect("pip list", (_json_entry(entry) for entry in data))


def _json_entry(entry: dict[str, Any]) -> Pin | Unreproducible:
    channel = str(entry.get("channel", ""))
    if channel and channel != "pypi":
        return conda_package(
            entry["name"],
            str(entry.get("version", "")),
            build=str(entry.get("build_string", "")),
            line=str(entry),
        )
    return _listed(entry["name"], str(entry.get("version", "")), str(entry.get("editable_project_location") or ""))


def _inspected(entry: dict[str, Any]) -> Pin | Unreproducible:
    metadata, direct = entry["metadata"], entry.get("direct_url", {})
    line = f"{metadata['name']} {metadata['version']}"
    if direct.get("dir_info", {}).get("editable"):
        return Unreproducible(
            name=canonicalize_name(metadata["name"]),
            reason="an editable directory of the other machine",
            line=line,
        )
    if direct.get("url"):
        commit = direct.get("vcs_info", {}).get("commit_id", "")
        url = f"git+{direct['url']}@{commit}" if commit else str(direct["url"])
        found = from_url(canonicalize_name(metadata["name"]), url, line=line, hashes=(), marker="")
        return (
            found
            if isinstance(found, Unreproducible)
            else Pin(name=found.name, version=metadata["version"], source=found.source)
        )
    return checked(metadata["name"], metadata["version"], line=line)


# --- conda


def _parse_conda_list(lines: Sequence[str]) -> Freeze:
    """`conda list`: name, version, build, channel; only rows of the `pypi` channel are wheels."""
    rows = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return _collect("conda list", (_conda_row(row) for row in rows if len(row) >= 2))


def _conda_row(row: Sequence[str]) -> Pin | Unreproducible:
    build, channel = (row[2] if len(row) > 2 else ""), (row[3] if len(row) > 3 else "")
    return conda_package(row[0], row[1], build="pypi" if channel == "pypi" else build, line=" ".join(row))


def _conda_yaml(lines: Sequence[str]) -> list[Pin | Unreproducible]:
    """An environment.yml: entries under `dependencies:`, those below `- pip:` are requirements."""
    found: list[Pin | Unreproducible] = []
    inside, pip_indent = False, -1
    for line in lines:
        if re.match(r"\S", line):
            inside = line.startswith("dependencies:")
        match = re.match(r"(\s*)-\s+(.*\S)\s*$", line)
        if not inside or match is None:
            continue
        indent, body = len(match[1]), re.sub(r"\s+#.*$", "", match[2]).strip("\"'")
        if body == "pip:":
            pip_indent = indent
        elif 0 <= pip_indent < indent:
            found.extend(requirement_lines([body]))
        elif body.split("=")[0] != "pip":
            pip_indent = -1
            found.append(requirement(re.sub(r"^\S+::", "", body)))
    return found
