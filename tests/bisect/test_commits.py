"""The commits between two builds, from a real clone."""

import subprocess
from bisect.commits import between
from bisect.report_rows import Row

import pytest

from envs.errors import UsageError

pytestmark = pytest.mark.subprocess


@pytest.fixture
def clone(tmp_path):
    """A repository with one commit that matters among others; yields it and the commit of each step."""

    def git(*words):
        argv = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for name in ("README.md", "torch/fx/graph.py", "docs/index.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        git("add", ".")
        git("commit", "-q", "-m", f"Change {name}")
        commits.append(git("rev-parse", "HEAD"))
    return tmp_path, commits


def row(commit):
    return Row(name=commit[:4], facts={"git_version": commit})


def test_only_the_commits_that_matter_are_listed(clone):
    """A range of two nightlies has a hundred commits; the few that touch tracing are what one reads."""
    repo, commits = clone
    (line,) = between(row(commits[0]), row(commits[2]), repo=str(repo))

    assert line.endswith("Change torch/fx/graph.py")


def test_a_clone_without_the_commits_says_where_they_are(clone):
    """B30: a nightly's commit is on the nightly branch, which a plain clone does not have."""
    repo, commits = clone
    with pytest.raises(UsageError) as caught:
        between(row(commits[0]), row("f" * 40), repo=str(repo))

    assert "nightly branch" in caught.value.hint


def test_nothing_without_a_clone_or_a_commit(clone):
    """Unknown is not an error: most people have no clone at hand."""
    _, commits = clone

    assert between(row(commits[0]), row(commits[2]), repo="") == ()
    assert between(row(""), row(commits[2]), repo="x") == ()
