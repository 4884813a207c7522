"""What an environment says of itself, and how long it may take to say it."""

import sys
from pathlib import Path

import pytest

from envs import fingerprint

pytestmark = pytest.mark.subprocess


def ask(tmp_path, torch, **fields):
    """Ask this interpreter, with a torch that is the given lines of Python."""
    (tmp_path / "torch.py").write_text(torch)
    environment = (("PYTHONPATH", str(tmp_path)),)
    return fingerprint.ask(Path(sys.executable), scratch=tmp_path, driver="", environment=environment, **fields)


def test_a_torch_whose_import_hangs_is_told_while_it_does_and_given_up(tmp_path):
    """A build would be silent for as long as the import hangs, and its end would not say where."""
    told = []

    found = ask(tmp_path, "import time\ntime.sleep(3600)\n", report=told.append, report_s=0.5, patience_s=3.0)

    assert found.torch_error.startswith("importing torch took longer than 3 s")
    assert f'{tmp_path}/torch.py", line 2' in found.torch_error
    assert "given up after 3 s" in told[0]


def test_a_torch_that_answers_at_once_is_not_told_of(tmp_path):
    """Every build would print a line of a wait that there was not."""
    told = []

    assert ask(tmp_path, "__version__ = '9.9'\n", report=told.append).torch == "9.9"
    assert told == []
