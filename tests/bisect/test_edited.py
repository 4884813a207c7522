"""An environment that somebody changed after it was built is told before its runs are believed."""

import subprocess
import sys

import pytest

from .stub_index import Stub, served
from .test_search_end_to_end import ROOT

pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]


@pytest.fixture
def bisect(tmp_path):
    """Runs a command of this tool in an environment of a stub torch alone; gives what it said."""
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n')
    with served(tmp_path / "index", [Stub(version="2.11.0+cu130", commit="c")]) as url:
        places = ("--index", url, "--default-index", url, "--store", str(tmp_path / "store"))

        def run(number, *words):
            argv = [sys.executable, "-m", "bisect", *words, str(bare), *places, "--out", str(tmp_path / f"{number}")]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False).stderr

        yield run


def test_a_changed_environment_is_told_in_one_line(tmp_path, bisect):
    """The answer would be about somebody's edit and stand there as the answer about the build."""
    built = bisect(1, "hazards")
    (module,) = (tmp_path / "store" / "environments").glob("*/venv/lib/python3*/site-packages/torch/version.py")
    for harmless in ("__pycache__/gone.cpython-311.pyc", "kernel_cache/k.so", "tuned.json"):
        (module.parent / harmless).parent.mkdir(exist_ok=True)
        (module.parent / harmless).write_text("left by a run")
    untouched = bisect(2, "hazards")
    module.write_text(module.read_text() + "answer = 42\n")

    edited, trained = bisect(3, "hazards"), bisect(4, "train", "--no-control")

    assert "was changed" not in built + untouched
    for told in (edited, trained):
        (line,) = (line for line in told.splitlines() if "was changed" in line)
        assert line.startswith("warning: bare was changed after it was built: changed lib/python3.")
    command = line.partition("`python -m ")[2].removesuffix("`").split()
    assert subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, check=False).returncode == 3
