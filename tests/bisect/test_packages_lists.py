"""Lists from another machine mean exactly what was installed there: which build, on which platform, of which file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..envs import stubs

ROOT = Path(__file__).parent.parent.parent
TORCH = "torch==2.11.0+cu130"
pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]


@pytest.fixture
def index(tmp_path):
    """An index of torch as the default index serves it, and of a package with three builds of one release."""
    found = stubs.Index(tmp_path / "index")
    stubs.torch(found.project("torch"), "2.11.0", says="2.11.0+cu130", cuda="13.0")
    for version in ("1.0", "1.0+cu128", "1.0+cu130"):
        stubs.wheel(found.project("kernels"), "kernels", version)
    stubs.wheel(found.project("built"), "built", "1.0+cu130")
    for name in ("p0", "p1"):
        for version in ("1.0", "2.0"):
            stubs.wheel(found.project(name), name, version)
    with stubs.serving(found):
        yield found


@pytest.fixture
def search(tmp_path, index):
    """Run a search over two lists (a text, or the lines after torch) and return the process."""

    def searching(good, bad, *words, program="raise SystemExit(1)", suffix="txt"):
        for name, lines in (("good", good), ("bad", bad)):
            text = lines if isinstance(lines, str) else "\n".join([TORCH, *lines])
            (tmp_path / f"{name}.{suffix}").write_text(text)
        options = ["--good", str(tmp_path / f"good.{suffix}"), "--bad", str(tmp_path / f"bad.{suffix}")]
        options += ["--default-index", index.url, "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")]
        argv = [sys.executable, "-m", "bisect", "packages", *options, *words, "--probe", "command"]
        argv += ["--", "python", "-c", program]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)

    return searching


@pytest.fixture
def plan(search):
    """What a search over two lists would compare, without building: `{name: (good, bad)}` and the whole answer."""

    def planning(good, bad, **more):
        done = search(good, bad, "--dry-run", "--json", **more)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return {item["name"]: (item["good"], item["bad"]) for item in told["differences"]}, told

    return planning


def test_two_builds_of_one_release_are_a_difference(search):
    """1.0 would be looked up as the newest build of it, 1.0+cu130, and the guilty difference be lost."""
    program = "import importlib.metadata as m, sys; sys.exit(m.version('kernels') == '1.0')"

    done = search(["kernels==1.0+cu130", "p0==1.0"], ["kernels==1.0", "p0==2.0"], "--json", program=program)

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert [(item["id"], item["good"], item["bad"]) for item in verdict["members"]] == [("kernels", "1.0+cu130", "1.0")]
    assert any("kernels===1.0" in line for line in verdict["reproduce"])


def test_another_build_of_a_release_does_not_stand_in_for_it(plan):
    """An environment with 1.0+cu130 would be run as if 1.0 had been tested."""
    differences, told = plan(["built==1.0", "p0==1.0"], ["p0==2.0"])

    assert differences == {"p0": ("1.0", "2.0")}
    (gone,) = told["unreproducible"]
    assert (gone["name"], gone["reason"]) == (
        "built",
        "1.0 has no wheel on the index any more, only another build of it, 1.0+cu130",
    )


def test_torch_may_be_published_without_its_build(plan):
    """The default index publishes torch 2.11.0+cu130 as 2.11.0: a list that says either means the same file."""
    assert plan("torch==2.11.0\np0==1.0\n", f"{TORCH}\np0==2.0\n")[0] == {"p0": ("1.0", "2.0")}


def test_torch_of_a_mirror_is_the_build_that_was_listed(index, plan):
    """A mirror with several builds of torch under one release would serve whichever has the highest name."""
    for build in ("cu129", "cu130", "cu132"):
        stubs.torch(index.project("torch"), f"2.12.0+{build}", cuda=f"{build[2:4]}.{build[4]}")

    assert plan(["p0==1.0"], "torch==2.12.0+cu130\np0==1.0\n")[0] == {"torch": ("2.11.0", "2.12.0+cu130")}


def test_a_package_of_another_platform_is_no_difference(search):
    """Never installed on Linux, it would be installed here and found guilty."""
    good = ["p0==1.0 ; sys_platform == 'win32'", "p0==2.0 ; sys_platform == 'linux'"]
    bad = ["p0==2.0", "p1==1.0 ; sys_platform == 'win32'"]

    done = search(good, bad, "--dry-run")

    assert done.stdout.startswith("no difference between "), done.stderr
    assert "good.txt: left out, not for Linux with Python 3." in done.stderr
    assert done.stderr.rstrip().endswith(": p1 1.0")


def test_a_torch_of_another_platform_only_is_told(search):
    """`lists no torch` would send a person to look for a line that is there."""
    done = search("torch==2.11.0 ; sys_platform == 'darwin'\n", [], "--dry-run")

    assert done.returncode == 2
    assert "good.txt lists no torch for Linux with Python 3." in done.stderr


FORK = """
[[package]]
name = "torch"
version = "{version}"
source = {{ registry = "https://a" }}
resolution-markers = ["sys_platform == '{platform}'"]
"""


def test_two_locks_that_differ_on_this_platform_only_differ(index, plan):
    """The torch of macOS comes first in both: they would be said to hold the same."""
    stubs.torch(index.project("torch"), "2.12.0", says="2.12.0+cu130", cuda="13.0")
    good, bad = (
        FORK.format(version="2.11.0", platform="darwin") + FORK.format(version=version, platform="linux")
        for version in ("2.11.0+cu130", "2.12.0+cu130")
    )

    assert plan(good, bad, suffix="lock")[0] == {"torch": ("2.11.0", "2.12.0")}
