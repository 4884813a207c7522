"""How far a build is, from the lines uv writes and the bytes on disk. Pure."""

from __future__ import annotations

import re

# Bytes on disk per byte of wheel: measured 1.75 to 1.80 on the shipped environments, with some room.
UNPACKED = 1.9

_DONE = re.compile(r"^\s*Downloaded (?P<name>[A-Za-z0-9._-]+)")
_STARTED = re.compile(r"^\s*Downloading (?P<name>[A-Za-z0-9._-]+) \((?P<number>[\d.]+)\s*(?P<unit>[KMG]?i?B)\)")
_PREPARED = re.compile(r"^Prepared \d+ packages?")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


class Progress:
    """Counts downloaded bytes by package, then installed bytes.

    Args:
        sizes: bytes of each package's wheel, 0 when not known.
        unpacked: expected bytes of the finished environment.
    """

    def __init__(self, *, sizes: dict[str, int], unpacked: int) -> None:
        self._sizes = dict(sizes)
        self._unpacked = unpacked
        self._started: dict[str, int] = {}
        self._done: set[str] = set()
        self._prepared = False

    def see(self, line: str) -> None:
        """Take one line of uv's output into account."""
        started = _STARTED.match(line)
        if started:
            said = int(float(started["number"]) * _UNITS.get(started["unit"], 1))
            self._started[started["name"]] = self._sizes.get(started["name"]) or said
        done = _DONE.match(line)
        if done:
            self._done.add(done["name"])
        if _PREPARED.match(line):
            self._prepared = True

    def line(self, *, unpacking: int, installed: int, elapsed_s: float) -> str:
        """One line that says what was done, what is left, and about how long that takes.

        Args:
            unpacking: bytes on disk of what is being downloaded (it is unpacked as it comes).
            installed: bytes on disk of the environment.
            elapsed_s: time since the start.
        """
        total = sum(self._started.values())
        finished = sum(self._started.get(name, 0) for name in self._done)
        if total and finished < total and not self._prepared:
            done = finished + min(int(unpacking / UNPACKED), total - finished)
            waiting = sorted(set(self._started) - self._done, key=lambda name: -self._started[name])
            return (
                f"downloaded {_gb(done)} of {_gb(total)}{_left(done, total, elapsed_s)}, now {', '.join(waiting[:3])}"
            )
        return f"installed {_gb(installed)} of about {_gb(self._unpacked)}{_left(installed, self._unpacked, elapsed_s)}"


def _left(done: int, total: int, elapsed_s: float) -> str:
    """Remaining time at the speed so far; nothing before a hundredth is done, for the speed means nothing yet."""
    if done * 100 < total or done >= total:
        return ""
    return f", about {elapsed_s * (total - done) / done:.0f} s left"


def _gb(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
