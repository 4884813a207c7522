"""The commits between two builds that touch what decides tracing and compilation, from a clone of pytorch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envs import process
from envs.errors import UsageError

from .state import commit_in

if TYPE_CHECKING:
    from .report_rows import Row

PATHS = (
    "torch/fx",
    "torch/_dynamo",
    "torch/_functorch",
    "torch/nn/attention",
    "torch/_higher_order_ops/flex_attention.py",
    "torch/_inductor/kernel/flex",
    "torch/_inductor/kernel/flex_attention.py",
    ".ci/docker/triton_version.txt",
    ".ci/docker/ci_commit_pins/triton.txt",
)
MAX_COMMITS = 60


def refuse_no_repository(repo: str) -> None:
    """UsageError when there is no git repository where a clone of pytorch is said to be."""
    argv = ["git", "-C", repo, "rev-parse", "--git-dir"]
    done = process.capture(argv, cwd=Path.cwd(), env=dict(os.environ))
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["git failed"])[0]
        raise UsageError(f"--torch-repo {repo}: {reason}", hint="give a clone of pytorch, or leave it out")


def between(before: Row, after: Row, *, repo: str) -> tuple[str, ...]:
    """One line a commit, newest first; nothing without a clone. UsageError when the clone cannot tell."""
    old, new = (commit_in(row.facts) for row in (before, after))
    if not repo or not old or not new or old == new:
        return ()
    argv = ["git", "-C", repo, "log", "--no-color", "--format=%h %ad %s", "--date=short", f"{old}..{new}"]
    done = process.capture([*argv, "--", *PATHS], cwd=Path.cwd(), env=dict(os.environ))
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["git failed"])[-1]
        raise UsageError(
            f"--torch-repo {repo} cannot list {old[:12]}..{new[:12]}: {reason}",
            hint="commits of nightlies are on the nightly branch: git fetch origin nightly",
        )
    lines = done.stdout.splitlines()
    more = [f"... and {len(lines) - MAX_COMMITS} more"] if len(lines) > MAX_COMMITS else []
    return (*lines[:MAX_COMMITS], *more)
