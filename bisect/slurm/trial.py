"""What Slurm says to a job like those of a profile, for a plan: sbatch checks it, and none is submitted."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import submitit

from envs import process
from envs.errors import CannotRunError

from .profile import job_parameters

if TYPE_CHECKING:
    from .profile import Profile

HINT = "try the partition, account and time of the profile with sbatch by hand"
_NEVER = ("invalid", "unable to contact")
"""In what sbatch says of a job that it would not take. Any other may be queued, as where the nodes are down today."""


def objection(profile: Profile, *, root: Path, exclusive: bool) -> str:
    """Why Slurm could not start such a job as things are, or ''; CannotRunError where it would not take it."""
    with tempfile.TemporaryDirectory(prefix="slurm-trial-") as folder:
        executor = submitit.SlurmExecutor(folder=folder, python=shlex.quote(sys.executable))
        executor.update_parameters(
            **job_parameters(profile, name="trial", root=str(root), avoid=(), exclusive=exclusive)
        )
        script = Path(folder) / "trial.sh"
        script.write_text(executor._make_submission_file_text("true", "trial"), encoding="utf-8")  # noqa: SLF001
        asked = process.capture(["sbatch", "--test-only", str(script)], cwd=Path(folder), env=dict(os.environ))
    return "" if asked.returncode == 0 else judged(asked.stderr)


def judged(told: str) -> str:
    """What it means that sbatch refused a trial with these words."""
    lines = [line.removeprefix("sbatch: error: ") for line in told.strip().splitlines()] or ["it does not say why"]
    why = "; ".join(lines)
    if any(word in why.lower() for word in _NEVER):
        raise CannotRunError(f"Slurm does not take the job: {why}", hint=HINT)
    return f"as things are, Slurm would not start the jobs: {why}; {HINT}"
