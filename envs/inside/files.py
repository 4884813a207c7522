"""Hashes what the distributions of this interpreter installed, as JSON into the file named by the first argument.

For an image, whose files can only be read inside it. Runs under the image's own interpreter, whichever that is.
"""

import base64
import csv
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_STARTUP = ("sitecustomize.py", "usercustomize.py")


def main(output: str) -> None:
    """For each directory of packages: who claims which file, what lies there, what it hashes to."""
    paths = dict.fromkeys(Path(path) for path in sys.path)
    sites = [path for path in paths if path.name in ("site-packages", "dist-packages") and path.is_dir()]
    answers = [_site(path) for path in sites]
    Path(output).write_text(json.dumps({"sites": answers}), encoding="utf-8")


def _site(site: Path) -> dict[str, Any]:
    """One directory of packages; files by their path relative to it."""
    records = {info.name: _rows(info) for info in sorted(site.glob("*.dist-info"))}
    claimed = dict.fromkeys(os.path.normpath(row[0]) for rows in records.values() for row in rows or ())
    seen = dict(_walk(site))
    startup = [name for name in seen if "/" not in name and (name.endswith(".pth") or name in _STARTUP)]
    return {
        "path": str(site),
        "records": records,
        "seen": seen,
        "hashes": {path: _digest(site / path) for path in claimed if (site / path).is_file()},
        "startup": {name: (site / name).read_text(encoding="utf-8", errors="replace").strip() for name in startup},
    }


def _rows(info: Path) -> "list[list[str]] | None":
    """(path, hash, size) of each line of a RECORD; None when there is none."""
    try:
        with (info / "RECORD").open(encoding="utf-8", newline="") as file:
            return [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return None


def _walk(site: Path) -> "Iterator[tuple[str, int]]":
    for folder, _, names in os.walk(site):
        for name in names:
            path = Path(folder) / name
            yield str(path.relative_to(site)), path.lstat().st_size


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return f"sha256={base64.urlsafe_b64encode(found.digest()).rstrip(b'=').decode()}"


if __name__ == "__main__":
    main(sys.argv[1])
