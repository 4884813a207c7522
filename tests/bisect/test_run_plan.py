"""The plan of `train` and `workarounds` says what would fail: it asks what a build asks, and downloads nothing."""

import json
import subprocess
import sys

import pytest

from .stub_index import Stub, served
from .test_search_end_to_end import ROOT

pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]


@pytest.mark.parametrize("command", ["train", "workarounds"])
def test_a_wheel_that_the_index_does_not_list_any_more_is_told_by_the_plan(tmp_path, command):
    """Nightlies are removed after a while: the plan of a night promised minutes, and its first build failed."""
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n')
    with served(tmp_path / "index", [Stub(version="2.11.0+cu130", commit="c"), Stub(version="2.10.0+cu130")]) as url:
        places = ("--index", url, "--default-index", url, "--store", str(tmp_path / "store"), "--json")

        def plan():
            argv = [sys.executable, "-m", "bisect", command, str(bare), "--dry-run", *places]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

        listed = plan()
        page = tmp_path / "index" / "torch" / "index.html"
        page.write_text("".join(line for line in page.read_text().splitlines(keepends=True) if "2.11.0" not in line))
        removed = plan()

    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["disk_bytes"] > 0
    assert (removed.returncode, removed.stdout) == (5, "")
    assert "cannot install bare" in removed.stderr
    assert "torch==2.11.0+cu130" in removed.stderr
    assert not list((tmp_path / "store").glob("environments/*"))


def test_an_index_that_does_not_answer_is_told_by_the_plan(tmp_path):
    """`size unknown` and exit code 0 was all that a plan said of a build that could not be resolved."""
    nowhere = "http://127.0.0.1:1"
    places = ("--index", nowhere, "--default-index", nowhere, "--store", str(tmp_path / "store"))
    argv = [sys.executable, "-m", "bisect", "train", "cu130", "--dry-run", *places]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (5, "")
    assert f"cannot reach {nowhere}" in done.stderr
