"""Commands to paste: what goes on with a run directory, and what repeats one of its runs beside the evidence."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.run_line import run_line

from .redaction import KEPT_OUT, without_credentials, without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envs.run_line import Sealed
    from envs.settings import Settings
    from envs.spec import Definition

GONE = "  # the environment was removed: run the search's command again for it"
SCRIPT = "again.sh"
"""In the directory of a run in a container: what makes it once more."""
_NOT_KEPT = "# it ran in a container, and nothing there makes it once more: run the search's command again for it"
_SCRIPT = """\
#!/bin/sh
# Makes this run once more, in a container sealed as its own was; what it writes goes to `again` beside this file.
set -eu
for path in {needed}; do
  test -e "$path" || {{ echo "$path was removed: run the search's command again for it" >&2; exit 1; }}
done
rm -rf {fresh}
mkdir {fresh}{caches}
mkdir -p {directories}
exec {line}
"""
_OF_THE_ENGINE = ("DOCKER_HOST", "ENVS_SHM_SIZE")
"""Variables without an option: another value is another engine, or another seal."""
_WRITTEN = ("--output", "--progress")
"""Options of the workload that name a file it writes."""


def resume_command(directory: Path, environ: Mapping[str, str] = os.environ) -> str:
    """What goes on with a run directory, by nox, by uv, or with a Python."""
    return command_again(("resume", str(directory)), environ)


def command_again(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """A command of this program, started the way this process was."""
    told = shlex.join(words)
    if "NOX_CURRENT_SESSION" in environ:
        return f"nox -s bisect -- {told}"
    return f"{'uv run ' if 'UV' in environ else ''}python -m bisect {told}"


def engine_variables(
    settings: Settings, *definitions: Definition, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables that a command with containers must be given once more; none for one that runs on the host."""
    contained = settings.backend == "container" or any(definition.image for definition in definitions)
    return {name: without_credentials(environ[name]) for name in _OF_THE_ENGINE if contained and environ.get(name)}


def with_variables(command: str, variables: Mapping[str, str]) -> str:
    """The command under these variables."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), command])


def repeat_run(record: Mapping[str, Any], run: Path, *, cwd: str) -> str:
    """A line for a shell that makes a recorded run once more, and writes elsewhere than it did.

    Args:
        record: what the run wrote down of itself.
        run: its directory.
        cwd: where a person's own command is run.
    """
    here, argv = run.absolute(), list(record["argv"])
    if record.get("image"):
        return shlex.join(["sh", str(here / SCRIPT)]) if (here / SCRIPT).exists() else _NOT_KEPT
    if not (here / "staged").is_dir():
        return _repeat_command(record, argv, cwd=cwd)
    fresh = here / "again"
    words = [str(fresh / Path(word).name) if option in _WRITTEN else word for option, word in pairwise(("", *argv))]
    steps = (f"mkdir -p {shlex.quote(str(fresh))}", f"cd {shlex.quote(str(here / 'staged'))}", shlex.join(words))
    return " && ".join(steps) + (GONE if argv[0].startswith("/") and not Path(argv[0]).exists() else "")


def _repeat_command(record: Mapping[str, Any], argv: list[str], *, cwd: str) -> str:
    """A person's own command, with the programs of the environment first on PATH, as it ran."""
    programs = str(record.get("variables", {}).get("PATH", "")).partition(":")[0]
    told = shlex.join(argv)
    if programs:
        told = f"PATH={shlex.quote(programs)}:$PATH {told}"
    told = f"cd {shlex.quote(cwd)} && {told}" if cwd else told
    return told + (GONE if programs and not Path(programs).exists() else "")


def script_again(sealed: Sealed, run: Path, *, cache: Path | None) -> str:
    """The script that makes a run in a container once more, by the engine's own client.

    It begins with nothing but the caches that the run began with, and what it wrote into its own directory goes to
    `again` below it. No secret is in it: the shell that starts it supplies those.

    Args:
        sealed: the container of the run.
        run: its directory, absolute.
        cache: the compile caches it began with.
    """
    fresh, box = run / "again", sealed.box
    told = without_secrets(box.environment)
    hidden = {name for name, value in told.items() if KEPT_OUT in value}
    environment = {name: _moved(value, run, fresh) for name, value in box.environment.items()}
    mounts = [mount if mount.read_only else replace(mount, path=_moved(mount.path, run, fresh)) for mount in box.mounts]
    argv = tuple(_moved(without_credentials(word), run, fresh) for word in box.argv)
    cwd = _moved(box.cwd, run, fresh)
    again = replace(box, argv=argv, cwd=cwd, environment=environment, mounts=tuple(mounts))
    line = run_line(replace(sealed, box=again), hidden=hidden)
    return _SCRIPT.format(
        needed=shlex.join(mount.path for mount in mounts if mount.read_only),
        fresh=shlex.quote(str(fresh)),
        caches="" if cache is None else "\n" + shlex.join(["cp", "-r", str(cache.absolute()), str(fresh / "caches")]),
        directories=shlex.join(environment[name] for name in ("HOME", "TMPDIR") if environment.get(name)),
        line=" ".join(f"\\\n  {shlex.quote(word)}" if word.startswith("--") else shlex.quote(word) for word in line),
    )


def _moved(text: str, run: Path, fresh: Path) -> str:
    """A path in the run's directory as one in the fresh one; the staged code stays where it is."""
    path = Path(text)
    if not path.is_relative_to(run) or path.is_relative_to(run / "staged"):
        return text
    return str(fresh / path.relative_to(run))
