"""The small image that container environments are built in: Python, its headers, a C++ compiler, certificates.

From a registry by digest where one can be reached (`--from`), from a root file system archive (`--rootfs`), or made
from Debian's packages by mmdebstrap where there is no registry at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from . import container, process, scrub
from .errors import CannotBuildError, CannotRunError
from .place import owner_of
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .settings import Settings

PACKAGES = ("python3", "python3-venv", "python3-dev", "ca-certificates", "gcc", "g++", "libc6-dev")


def make(
    settings: Settings,
    *,
    rootfs: Path | None = None,
    reference: str = "",
    suite: str = "bookworm",
    report: Callable[[str], None],
) -> str:
    """Give the engine the base image under the name of the settings; its id.

    CannotRunError without an engine, or without mmdebstrap when the image must be made here.
    """
    engine = container.connect(os.environ)
    try:
        if reference:
            report(f"pulling {reference}")
            engine.pull(reference)
            engine.tag(reference, settings.base_image)
            return engine.image(settings.base_image).id
        if rootfs is not None:
            return engine.import_image(rootfs, settings.base_image, owner=owner_of(settings.store))
        return _made_here(engine, settings, suite, report)
    finally:
        engine.close()


def _made_here(engine: container.Engine, settings: Settings, suite: str, report: Callable[[str], None]) -> str:
    """Make it below the store, where a kill's remains are found."""
    store = Store(settings.store)
    key = hashlib.sha256(f"base image {settings.base_image}".encode()).hexdigest()
    with store.locked(key, report):
        building = store.new_building(key)
        try:
            archive = building / "rootfs.tar"
            _bootstrap(archive, suite, report)
            return engine.import_image(archive, settings.base_image, owner=owner_of(settings.store))
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _bootstrap(archive: Path, suite: str, report: Callable[[str], None]) -> None:
    report(f"making a root file system of Debian {suite} with {', '.join(PACKAGES)}: about two minutes")
    log = archive.with_name("mmdebstrap.log")
    env = scrub.installer_environment(os.environ)
    argv = ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(archive)]
    if shutil.which("setpriv", path=env.get("PATH")):  # asked to end, it clears up; killed with this process, it cannot
        argv = ["setpriv", "--pdeathsig", "TERM", *argv]
    if shutil.which("mmdebstrap", path=env.get("PATH")) is None:
        raise CannotRunError(
            "a base image is made with mmdebstrap, which is not installed",
            hint="apt-get install mmdebstrap, or give --from IMAGE@DIGEST, or --rootfs ARCHIVE",
            outcome="tool_too_old",
        )
    done = process.run(argv, cwd=archive.parent, env=env, output=log, timeout_s=1800.0)
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise CannotBuildError(
            f"mmdebstrap failed: {lines[-1] if lines else 'no output'}", hint="can Debian's mirror be reached?"
        )
