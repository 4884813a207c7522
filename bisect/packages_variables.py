"""The environment variables of two sides: those that both set alike, which every run has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.scrub import CACHES

if TYPE_CHECKING:
    from collections.abc import Mapping


def common(good: Mapping[str, str], bad: Mapping[str, str]) -> dict[str, str]:
    """What both sides set to the same: it may be half of the cause, and is no difference.

    Places of compile caches are left to each run, which has its own: shared ones would carry over from run to run.
    """
    return {name: text for name, text in sorted(good.items()) if bad.get(name) == text and name not in CACHES}
