"""The small image that container environments are built in: Python, its headers, a C++ compiler, certificates.

From a registry by digest where one can be reached (`--from`), from a root file system archive (`--rootfs`), or made
from Debian's packages by mmdebstrap where there is no registry at all.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import container, process
from .errors import CannotBuildError, CannotRunError

if TYPE_CHECKING:
    from collections.abc import Callable

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
            return str(engine.image(settings.base_image)["id"])
        if rootfs is not None:
            return engine.import_image(rootfs, settings.base_image)
        with tempfile.TemporaryDirectory(prefix="base-image-") as directory:
            archive = Path(directory) / "rootfs.tar"
            _bootstrap(archive, suite, report)
            return engine.import_image(archive, settings.base_image)
    finally:
        engine.close()


def _bootstrap(archive: Path, suite: str, report: Callable[[str], None]) -> None:
    report(f"making a root file system of Debian {suite} with {', '.join(PACKAGES)}: about two minutes")
    log = archive.with_name("mmdebstrap.log")
    env = process.installer_environment(os.environ)
    argv = ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(archive)]
    try:
        done = process.run(argv, cwd=archive.parent, env=env, output=log, timeout_s=1800.0)
    except CannotRunError as error:
        raise CannotRunError(
            "a base image is made with mmdebstrap, which is not installed",
            hint="apt-get install mmdebstrap, or give --from IMAGE@DIGEST, or --rootfs ARCHIVE",
            outcome="tool_too_old",
        ) from error
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise CannotBuildError(
            f"mmdebstrap failed: {lines[-1] if lines else 'no output'}", hint="can Debian's mirror be reached?"
        )
