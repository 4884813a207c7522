"""The environment variables of two sides: what a dump tells, what a search takes of it, what it leaves out by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envs.scrub import CACHES
from envs.snapshot import compile_variables

from ..redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_A_SESSION = re.compile(
    r"_|COLUMNS|DBUS_.*|DISPLAY|EDITOR|HIST.*|HOME|HOST|HOSTNAME|INVOCATION_ID|JOURNAL_STREAM|LESS.*|LINES|LOGNAME"
    r"|LS_COLORS|MAIL|OLDPWD|PAGER|PS\d|PWD|SHELL|SHLVL|SLURM_.*|SSH_.*|TERM.*|TMUX.*|USER|WINDOWID|XDG_.*"
)
"""Two logins differ in these, and no training does for them."""


def dumped(text: str) -> dict[str, str]:
    """The variables in the output of `env`, `export -p` or `declare -x`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {
        key.removeprefix("export ").removeprefix("declare -x ").strip(): value.strip("'\"") for key, _, value in pairs
    }


def taken(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that a search sets: what can change what torch compiles, loads or runs, and holds no secret."""
    relevant = compile_variables(variables)
    told = without_secrets(relevant)
    return {name: text for name, text in relevant.items() if told[name] == text}


def left_out(good: Mapping[str, str], bad: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the others that differ between two dumps, except for those that any two logins differ in."""
    own = (taken(good), taken(bad))
    return tuple(
        name
        for name in sorted(good.keys() | bad.keys())
        if good.get(name) != bad.get(name)
        and not any(name in each for each in own)
        and not _OF_A_SESSION.fullmatch(name)
    )


def common(good: Mapping[str, str], bad: Mapping[str, str]) -> dict[str, str]:
    """What both sides set to the same: it may be half of the cause, and is no difference.

    Places of compile caches are left to each run, which has its own: shared ones would carry over from run to run.
    """
    return {name: text for name, text in sorted(good.items()) if bad.get(name) == text and name not in CACHES}
