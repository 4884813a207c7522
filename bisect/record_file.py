"""Reading what a run wrote down of itself: `record.json`, checked when it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from .shapes import COUNT, OBJECT, SECONDS, TEXT, TEXTS, TRUTH, Shape, fault, may_lack, record

if TYPE_CHECKING:
    from pathlib import Path

NAME = "record.json"
_ENDED: Shape = {
    "returncode": COUNT, "timed_out": TRUTH, "cut": may_lack(TEXT), "seconds": SECONDS, "last_progress": OBJECT
}  # fmt: skip
_RECORD: Shape = {
    "environment": TEXT,
    "argv": TEXTS,
    "node": may_lack(TEXT),
    "image": may_lack(TEXT),
    "ended": may_lack(record(_ENDED)),
}


def record_in(directory: Path) -> dict[str, Any] | None:
    """The record in a run's directory, `ended` in it where it ended; None without one, UsageError for a damaged one."""
    path = directory / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    wrong = fault(found, _RECORD) if isinstance(found, dict) else "it is not an object"
    if wrong:
        raise _damaged(path, wrong)
    return dict(found)


def _damaged(path: Path, wrong: str) -> UsageError:
    return UsageError(
        f"the record of a run is damaged, {path}: {wrong}",
        hint=f"restore it, or remove {path.parent}: a run that is needed is then made again",
    )
