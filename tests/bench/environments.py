"""Building an environment against plain `uv pip install` of the same lock, a cached one, and verifying it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from envs import build, interpreter, outlook, process, resolve, settings, spec, uv, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]


def rows(*, seed: int = 0, searches: int = 0, name: str = "cu130") -> Iterator[list[str]]:
    """One row a measurement. uv's download cache is warm for every arm, and each environment is removed at once.

    `plain, links` is uv's own default on ext4, hard links into its cache: environments made that way change
    together, so it is no arm to compare with, only what isolation costs.
    """
    yield ["what", "seconds", "against plain uv", "target"]
    with tempfile.TemporaryDirectory(prefix="envs-bench-") as scratch:
        directory = Path(scratch)
        chosen = settings.Settings(store=directory / "store")
        definition = spec.load(name)
        requirements = _requirements(definition, directory)
        _plain(directory, requirements, "copy")  # warms the download cache and the page cache
        plain = [_plain(directory, requirements, "copy")]
        built = _timed(lambda: build.build(definition, chosen, report=_say))
        shutil.rmtree(chosen.store)
        plain.append(_plain(directory, requirements, "copy"))
        again = _timed(lambda: build.build(definition, chosen, report=_say))
        base = sum(plain) / 2
        yield ["plain uv pip install, copies (mean of 2)", f"{base:.1f}", "1", ""]
        yield ["plain uv pip install, links", f"{_plain(directory, requirements, 'hardlink'):.1f}", "", ""]
        ratio = (built + again) / 2 / base
        yield ["python -m envs build (mean of 2)", f"{(built + again) / 2:.1f}", f"{ratio:.2f}", "1.15"]
        asked = outlook.entry_of(definition, chosen)
        assert asked is not None
        yield ["  of which `import torch` for the first time", f"{asked.fingerprint.import_seconds:.1f}", "", ""]
        yield ["cached, a whole command", f"{_cached(definition, chosen):.2f}", "", "0.5"]
        yield from _verified(chosen, asked.digest)


def _verified(chosen: settings.Settings, digest: str) -> Iterator[list[str]]:
    path = chosen.store / "environments" / digest[:24]
    memory = path / "verified.json"
    for what, target in (("first", "20"), ("unchanged", "2")):
        found = verify.verify(path / "venv", memory=memory)
        label = f"verify {found.bytes / 1e9:.1f} GB, {what}"
        yield [label, f"{found.seconds:.1f}", "", f"{target} for 6 GB"]


def _requirements(definition: spec.Definition, directory: Path) -> Path:
    locked = resolve.committed_lock(definition)
    assert locked is not None
    python = interpreter.find(locked.pythons, uv=uv.program(), offline=False)
    lines = [f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n" for pin in locked.select(python.target())]
    path = directory / "requirements.txt"
    path.write_text("".join(lines))
    return path


def _plain(directory: Path, requirements: Path, mode: str) -> float:
    venv, log = directory / "plain", directory / "plain.log"
    extra = [("UV_LINK_MODE", mode)]

    def install() -> None:
        uv.run(["venv", "--no-project", "--quiet", "--python", sys.executable, str(venv)], log=log, extra=extra)
        arguments = ["pip", "install", "--python", str(venv / "bin" / "python"), "--no-deps", "--require-hashes"]
        code, text = uv.run([*arguments, "--requirements", str(requirements)], log=log, extra=extra)
        assert code == 0, text

    seconds = _timed(install)
    shutil.rmtree(venv)
    return seconds


def _cached(definition: spec.Definition, chosen: settings.Settings) -> float:
    """The best of three: the others are the machine's."""
    command = [sys.executable, "-m", "envs", "build", definition.name, "--store", str(chosen.store), "--json"]
    return min(_timed(lambda: process.capture(command, cwd=ROOT, env=os.environ)) for _ in range(3))


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
