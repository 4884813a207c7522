"""What makes a search another one than the next: the options and the definition that must not change meanwhile."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from envs.errors import UsageError

from .redaction import without_credentials

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from envs.spec import Definition

TUNABLE = frozenset(
    {"argv", "confidence", "max_runs", "json", "out", "dry_run", "keep", "workers", "torch_repo", "offline", "store"}
)
"""Options that may change between a search and its resumption."""
PARSER = "parser"
"""Where the arguments hold the parser they came from: it knows every option's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The options of a search that are not tunable.

    Attributes:
        options: each with its value, as a journal may hold it: without credentials in URLs.
        defaults: what each means where it is not given; a journal older than an option says nothing of it.
        spelled: each as it stands on a command line.
    """

    options: Mapping[str, Any]
    defaults: Mapping[str, Any]
    spelled: Mapping[str, str]

    @classmethod
    def of(cls, args: argparse.Namespace) -> Identity:
        """The identity in a command line. Values are what they read as after a way through JSON."""
        names = sorted(vars(args).keys() - TUNABLE - {PARSER})
        parser: argparse.ArgumentParser = getattr(args, PARSER)
        return cls(
            options={name: _plain(getattr(args, name)) for name in names},
            defaults={name: _plain(parser.get_default(name)) for name in names},
            spelled={"rest": "the command after --", "command": "the command", **_spelled(parser)},
        )

    def refuse_another(self, header: Mapping[str, Any], command: str, path: Path) -> None:
        """UsageError where the journal at `path`, with this header, is of another search; it names the options."""
        known = {**self.defaults, **header["identity"], "command": header["command"]}
        mine = {**self.options, "command": command}
        differing = sorted(name for name in known.keys() | mine.keys() if known.get(name) != mine.get(name))
        if differing:
            told = ", ".join(self.spelled.get(name, name) for name in differing)
            raise UsageError(
                f"{path} is of another search: {told} {'differs' if len(differing) == 1 else 'differ'}",
                hint="give another --out, or the same options",
            )


def digests_of(definition: Definition) -> dict[str, str]:
    """Of each key of a definition that says something, a digest: a journal may hold no value that is a secret."""
    said = {key: value for key, value in asdict(definition).items() if value and key not in ("name", "summary")}
    return {key: hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16] for key, value in sorted(said.items())}


def refuse_edited(header: Mapping[str, Any], definition: Definition, path: Path) -> None:
    """UsageError where the definition is not what it was when the journal at `path` began; older ones do not say."""
    known, now = header.get("definition"), digests_of(definition)
    if known is None or known == now:
        return
    differing = sorted(key for key in known.keys() | now.keys() if known.get(key) != now.get(key))
    raise UsageError(
        f"the definition {definition.name} is not what it was when the search in {path.parent} began: "
        f"{', '.join(differing)} differ{'s' if len(differing) == 1 else ''}",
        hint="put it back, or start another search with another --out",
    )


def _spelled(parser: argparse.ArgumentParser) -> dict[str, str]:
    actions = parser._actions  # noqa: SLF001  (argparse tells the options of a parser in no other way)
    return {action.dest: (action.option_strings or [str(action.metavar)])[-1] for action in actions}


def _plain(value: object) -> object:
    plain: object = json.loads(json.dumps(_scrubbed(value)))
    return plain


def _scrubbed(value: object) -> object:
    if isinstance(value, str):
        return without_credentials(value)
    return [_scrubbed(item) for item in value] if isinstance(value, list | tuple) else value
