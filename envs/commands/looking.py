"""`verify` and `diff`: what an environment really is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import outlook
from ..errors import UsageError
from ..place import place_of
from ..store import Store
from .output import SCHEMA, built_entry, gb, print_json

if TYPE_CHECKING:
    import argparse

    from .. import diff as differences
    from .. import verify as verification
    from ..environment_file import Entry
    from ..settings import Settings

_SHOWN = 200
"""Characters of a finding's detail in a line for a person: a `.pth` may be a program."""


def verify(arguments: argparse.Namespace, chosen: Settings) -> int:
    """Exit code 3 when the environment contradicts its own records."""
    from .. import expected  # noqa: PLC0415  (a cached environment is to be ready in half a second)
    from .. import verify as verification  # noqa: PLC0415  (see above)

    directory = _located(arguments.name, chosen)
    if (image := Store(chosen.store).image_in(directory)) is not None:
        found = _verified_image(image, directory, chosen)
    elif (directory / "venv").exists():
        found = verification.verify(
            directory / "venv",
            memory=directory / expected.MEMORY,
            pins=outlook.pins_of(directory),
            left=expected.read(directory),
        )
    else:
        found = verification.verify(directory)
    if arguments.json:
        print_json(_verification_json(arguments.name, found))
    else:
        _print_verification(arguments.name, found)
    return 0 if found.ok else 3


def _verified_image(entry: Entry, directory: Path, chosen: Settings) -> verification.Verification:
    from .. import inspection  # noqa: PLC0415  (see verify)

    looked = inspection.look(entry, directory, place_of(chosen, entry.image))
    return inspection.verification(looked, python=entry.minor)


def _verification_json(name: str, found: verification.Verification) -> dict[str, Any]:
    groups: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in type(found).kinds()}
    for finding in found.findings:
        groups[finding.kind].append(
            {
                "path": finding.path,
                "owners": list(finding.owners),
                "detail": finding.detail,
                "fault": finding.fault,
                "expected": finding.expected,
            }
        )
    return {
        "schema": SCHEMA,
        "environment": name,
        "ok": found.ok,
        "files": found.files,
        "bytes": found.bytes,
        "hashed": found.hashed,
        "seconds": found.seconds,
        **groups,
    }


def _print_verification(name: str, found: verification.Verification) -> None:
    faults = sum(finding.fault for finding in found.findings)
    expected = sum(finding.expected for finding in found.findings)
    clean = f"as its history left it, {expected} leftovers expected" if expected else "as recorded"
    verdict = clean if found.ok else f"NOT as recorded: {faults} finding{'s' if faults > 1 else ''}"
    print(f"{name}: {verdict} ({found.files} files, {gb(found.bytes)}, {found.seconds:.1f} s)")  # noqa: T201
    for finding in found.findings:
        owners = f" ({', '.join(finding.owners)})" if finding.owners else ""
        kind = f"expected, {finding.kind}" if finding.expected else finding.kind
        detail = " ".join(finding.detail.split())[:_SHOWN]
        print(f"  {kind}: {finding.path}{owners}{': ' if detail else ''}{detail}")  # noqa: T201


def diff(arguments: argparse.Namespace, chosen: Settings) -> int:
    """What differs, the likeliest to matter first."""
    from .. import diff as differences  # noqa: PLC0415  (a cached environment is to be ready in half a second)
    from ..suspicion import PLAIN_WEIGHT  # noqa: PLC0415  (the same)

    first, second = arguments.before, arguments.after
    if second is None:
        if "+" not in first:
            raise UsageError(f"{first} has no history to compare with its base", hint="give two environments")
        first, second = first.partition("+")[0], first
    if _located(first, chosen) == _located(second, chosen):
        return _same(arguments, first, second)
    before, after = (_snapshot(name, chosen) for name in (first, second))
    found = differences.compare(before, after)
    if arguments.json:
        rows = [asdict(each) for each in found]
        outside = differences.only_outside_packages(found)
        names = {"before": before.name, "after": after.name}
        summary = list(differences.summary(found))
        told = {**names, "packages_equal": outside or not found, "summary": summary, "differences": rows}
        return print_json({"schema": SCHEMA, **told})
    shown = [each for each in found if arguments.all or each.weight > PLAIN_WEIGHT]
    print(f"{before.name} -> {after.name}: {len(found)} difference{'' if len(found) == 1 else 's'}")  # noqa: T201
    if differences.only_outside_packages(found):
        print("the Python packages are equal; what differs lies outside them")  # noqa: T201
    for line in differences.summary(found):
        print(f"  {line}")  # noqa: T201
    for each in shown:
        change = f"{each.before or '(absent)'} -> {each.after or '(absent)'}"
        print(f"  [{each.weight:3d}] {each.kind} {each.name}: {change}\n        {each.why}")  # noqa: T201
    if len(shown) < len(found):
        print(f"  and {len(found) - len(shown)} with no known way to change torch (--all lists them)")  # noqa: T201
    return 0


def _located(name: str, chosen: Settings) -> Path:
    """The directory in the store of a built environment, or that of any other virtual environment."""
    path = Path(name).resolve()
    if (path / "pyvenv.cfg").exists():
        return path.parent if (path.parent / "environment.json").exists() else path
    return Store(chosen.store).directory(built_entry(name, chosen).digest)


def _same(arguments: argparse.Namespace, first: str, second: str) -> int:
    """An environment beside itself has no difference to look for."""
    line = f"{first} and {second} are the same environment: there is nothing to compare"
    if arguments.json:
        told = {"before": first, "after": second, "packages_equal": True, "summary": [line], "differences": []}
        return print_json({"schema": SCHEMA, **told})
    print(line)  # noqa: T201
    return 0


def _snapshot(name: str, chosen: Settings) -> differences.Snapshot:
    from .. import snapshot  # noqa: PLC0415  (see diff)

    if (Path(name) / "pyvenv.cfg").exists():
        return snapshot.of_directory(Path(name).resolve())
    entry = built_entry(name, chosen)
    directory = Store(chosen.store).directory(entry.digest)
    if entry.as_it_is:
        return snapshot.of_image(entry, directory, place_of(chosen, entry.image))
    return snapshot.of_entry(entry, directory)
