"""`bisect` is the command and, for everybody else in the process, still the standard library's module."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.subprocess


def _python(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def _has_its_own_tests() -> bool:
    return bool(importlib.util.find_spec("test") and importlib.util.find_spec("test.test_bisect"))


@pytest.mark.skipif(not _has_its_own_tests(), reason="this Python comes without its own tests")
def test_cpythons_own_test_of_bisect_passes_from_the_repository_root():
    """random, statistics and torch would get an API that differs from the one they were written for."""
    finished = _python("-m", "test.test_bisect", "-v")

    assert (finished.returncode, "OK" in finished.stderr) == (0, True), finished.stderr[-2000:]
    assert "skipped" not in finished.stderr


def test_the_pure_python_half_is_there_when_the_accelerator_is_missing():
    """PyPy and CPython's tests import the module with _bisect blocked."""
    finished = _python(
        "-c", "import sys; sys.modules['_bisect'] = None; import bisect; print(bisect.bisect([1, 2], 1))"
    )

    assert finished.stdout == "1\n"


def test_importing_it_imports_nothing_of_ours():
    """Every `import random` in the process would pay for the tool, or fail with it."""
    code = "import sys, bisect; print(sorted(m for m in sys.modules if m.startswith(('bisect.', 'envs', 'numpy'))))"

    assert _python("-c", code).stdout == "[]\n"


def test_the_command_prints_something():
    """Under a shadowed import runpy runs the standard module, prints nothing and exits 0."""
    finished = _python("-m", "bisect", "--help")

    assert "torch-nightlies" in finished.stdout


@pytest.mark.parametrize("argv", [("bisect", "classify", "tests/golden/train.json", "--json"), ("envs", "list")])
def test_a_reader_that_has_enough_is_no_bug(argv):
    """`... | head -1` would end in a traceback and in the exit code of a bug."""
    script = 'set -o pipefail; "$0" -m "$@" | true'
    finished = subprocess.run(
        ["bash", "-c", script, sys.executable, *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert finished.stderr == ""
    assert finished.returncode in (0, 141)


@pytest.mark.parametrize("command", [["bisect", "hazards", "cu130"], ["envs", "list"]])
def test_a_python_without_the_libraries_is_told_in_one_line(command):
    """`python -m bisect`, as the reports write it, with the system's Python ended in a traceback: a bug, it seems."""
    script = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]; import runpy; "
    script += f"sys.argv = {command}; runpy.run_module('{command[0]}', run_name='__main__', alter_sys=True)"

    finished = _python("-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {script}")

    assert finished.returncode == 6, finished.stderr
    assert "which this project needs" in finished.stderr
    assert "Traceback" not in finished.stderr
