"""How throughput is measured stays as it began: rates of pairs and of runs made alone are never compared."""

from __future__ import annotations

from bisect.journal import read
from bisect.matrix.pairs import begun, settled
from bisect.matrix.store import MatrixDirectory

import pytest

from envs.errors import UsageError

HERE, THERE = ("n1", "linux", "none", ""), ("n2", "linux", "none", "")


@pytest.mark.parametrize("before", [True, False])
def test_a_matrix_goes_on_as_it_began_and_a_change_is_refused(before):
    """Every rate measured so far would be thrown away without a word, or every one measured from now on."""
    assert settled(before, together=not before, is_asked=False) is before
    assert settled(before, together=before, is_asked=True) is before
    with pytest.raises(UsageError, match="this matrix measures throughput"):
        settled(before, together=not before, is_asked=True)


def test_what_began_on_another_machine_binds_nobody(tmp_path):
    """A node with GPUs could not join a matrix that a laptop began."""
    for machine, together in ((HERE, True), (THERE, False), (HERE, False)):
        directory = MatrixDirectory(tmp_path / "m")
        directory.keep_pairs(machine, together=together)
        directory.close()
    contents = read(tmp_path / "m" / "journal.jsonl")

    assert (begun(contents, HERE), begun(contents, THERE), begun(contents, ("n3", "", "", ""))) == (True, False, None)
    assert settled(None, together=True, is_asked=True) is True
