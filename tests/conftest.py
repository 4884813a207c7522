"""The seal: a test without a marker opens no socket and starts no process."""

from __future__ import annotations

import sys

import pytest

_OPENERS = {
    "socket": {"uv", "network", "container", "slurm", "browser", "socket", "torch", "subprocess"},
    "process": {"uv", "network", "container", "slurm", "browser", "torch", "subprocess"},
}
_EVENTS = {
    "socket.connect": "socket",
    "socket.bind": "socket",
    "subprocess.Popen": "process",
    "os.posix_spawn": "process",
    "os.fork": "process",
}
_allowed: set[str] = set(_OPENERS)


def _seal(event: str, _args: tuple[object, ...]) -> None:
    effect = _EVENTS.get(event)
    if effect is not None and effect not in _allowed:
        raise AssertionError(f"a sealed test caused {event}; mark it with one of {sorted(_OPENERS[effect])}")


sys.addaudithook(_seal)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Allow only the effects that the test's markers open, fixtures included."""
    marks = {mark.name for mark in item.iter_markers()}
    _allowed.clear()
    _allowed.update(effect for effect, openers in _OPENERS.items() if marks & openers)
    try:
        return (yield)
    finally:
        _allowed.update(_OPENERS)
