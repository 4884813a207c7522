"""Lists from another machine mean exactly what was installed there: which build, on which platform, of which file."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..envs import stubs

ROOT = Path(__file__).parent.parent.parent
TORCH = "torch==2.11.0+cu130"
HELD = "not part of the search, held equal for want of a wheel: "
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}-none-any"
pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]


@pytest.fixture
def index(tmp_path):
    """An index of torch as the default index serves it, and of a package with three builds of one release."""
    found = stubs.Index(tmp_path / "index")
    stubs.torch(found.project("torch"), "2.11.0", says="2.11.0+cu130", cuda="13.0")
    for version in ("1.0", "1.0+cu128", "1.0+cu130"):
        stubs.wheel(found.project("kernels"), "kernels", version)
    stubs.wheel(found.project("built"), "built", "1.0+cu130")
    stubs.wheel(found.project("twice"), "twice", "1.0", files={"twice.py": "FILE = 1\n"})
    stubs.wheel(found.project("twice"), "twice", "1.0", files={"twice.py": "FILE = 2\n"}, tag=TAG)
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
        "1.0 has no wheel on the index, only another build of it, 1.0+cu130",
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


PROJECT = """
version = 1
[[package]]
name = "trainer"
version = "0"
source = {{ virtual = "." }}
dependencies = [{{ name = "torch" }}]
[package.optional-dependencies]
serve-it = [{{ name = "p1" }}]

[[package]]
name = "torch"
version = "2.11.0+cu130"
source = {{ registry = "https://a" }}

[[package]]
name = "p1"
version = "{version}"
source = {{ registry = "https://a" }}
"""


def test_what_an_extra_brings_is_searched_when_it_is_named_and_never_acquitted_otherwise(search):
    """What was never installed would be found guilty, or what was installed be called innocent without a run of it."""
    locks = PROJECT.format(version="1.0"), PROJECT.format(version="2.0")

    done = search(*locks, suffix="lock")
    unknown = search(*locks, "--dry-run", "--extra", "gui", suffix="lock")
    named = search(*locks, "--dry-run", "--json", "--extra", "Serve_it", suffix="lock")

    assert done.returncode == 4, done.stdout + done.stderr
    assert "nothing could be tried; in extras that were not named with --extra: p1 1.0 -> 2.0" in done.stdout
    assert "good.lock: taken as `uv sync` installs it, without its extras and groups serve-it" in done.stderr
    assert unknown.returncode == 2
    assert "no side has an extra or group gui" in unknown.stderr
    assert "there is serve-it" in unknown.stderr
    (found,) = json.loads(named.stdout)["differences"]
    assert (found["name"], found["good"], found["bad"]) == ("p1", "1.0", "2.0")


def hashed(index, requirement, tag="py3-none-any"):
    """A line of a list with the hash of one file of the index."""
    (wheel,) = index.project(requirement.partition("==")[0]).glob(f"*-{requirement.partition('==')[2]}-{tag}.whl")
    return f"{requirement} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def test_lists_that_differ_in_hashes_alone_are_different_builds(index, search):
    """The best file of the version would be installed on both sides, and the two be said to hold the same."""
    good, bad = hashed(index, "twice==1.0"), hashed(index, "twice==1.0", TAG)
    program = "import twice, sys; sys.exit(twice.FILE == 2)"

    done = search([good, "p0==1.0"], [bad, "p0==2.0"], "--json", program=program)

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    (guilty,) = verdict["members"]
    assert guilty["id"] == "twice"
    assert [guilty[side] for side in ("good", "bad")] == [
        f"1.0 (sha256 {line.partition('sha256:')[2][:12]})" for line in (good, bad)
    ]
    assert any("install another file of twice: 1.0 (sha256" in line for line in verdict["reproduce"])


def test_a_file_that_no_listed_hash_fits_is_not_installed(index, plan):
    """Other bytes than those that were listed would be run, and their answer be told of the listed ones."""
    wrong = [f"p0==1.0 --hash=sha256:{digit * 64}" for digit in "01"]

    differences, told = plan([wrong[0], hashed(index, "p1==1.0")], [wrong[1], "p1==1.0"])

    assert not differences
    assert {item["reason"] for item in told["unreproducible"]} == {
        "no wheel of 1.0 on the index has a hash that is listed for it"
    }
    assert told["warnings"] == [f"{HELD}p0 1.0 (sha256 000000000000) -> 1.0 (sha256 111111111111)"]


def test_a_package_with_wrong_hashes_is_held_as_the_other_side_has_it(index, plan):
    """Its file on the other side would be a difference: one that the search removes, not one that was there."""
    differences, told = plan([f"p0==1.0 --hash=sha256:{'0' * 64}", "p1==1.0"], ["p0==1.0", "p1==2.0"])

    assert differences == {"p1": ("1.0", "2.0")}
    assert told["warnings"] == [f"{HELD}p0 1.0 (sha256 000000000000) -> 1.0"]


def test_a_torch_with_wrong_hashes_is_looked_for_on_its_own_index(tmp_path, index, search):
    """PyTorch's index and the default one publish 2.11.0+cu130 with other bytes: the list may mean the former."""
    lines = [f"torch==2.11.0+cu130 --hash=sha256:{'0' * 64}", "p0==1.0"]

    refused = search("\n".join(lines), [], "--dry-run", "--index", index.url)

    assert refused.returncode == 2
    assert "torch 2.11.0+cu130 cannot be had: no wheel of 2.11.0 on the index has a hash" in refused.stderr
    other = stubs.Index(tmp_path / "torchs")
    stubs.torch(other.project("torch"), "2.11.0+cu130")
    with stubs.serving(other):
        lines[0] = hashed(other, "torch==2.11.0+cu130", stubs.TAG)
        done = search("\n".join(lines), ["p0==1.0"], "--dry-run", "--json", "--index", other.url)
    assert done.returncode == 0, done.stderr
    (torch,) = json.loads(done.stdout)["differences"]
    assert (torch["good"], torch["bad"]) == ("2.11.0+cu130", "2.11.0")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("torch>=2.11", "not pinned: >=2.11"),
        (
            "torch @ https://a/torch-2.11.0%2Bcu130-cp311-cp311-linux_x86_64.whl",
            "comes from https://a/torch-2.11.0%2Bcu130-cp311-cp311-linux_x86_64.whl, not from an index",
        ),
    ],
)
def test_what_is_wrong_with_a_listed_torch_is_told(search, line, reason):
    """`lists no torch` would send a person to look for a line that is there."""
    done = search(f"{line}\np0==1.0\n", [], "--dry-run")

    assert done.returncode == 2
    assert f"good.txt: torch cannot be taken from this list: {reason}" in done.stderr
    assert "for instance torch==2.11.0" in done.stderr


def test_a_wheel_that_was_replaced_under_its_name_is_not_mixed_with_the_old_one(tmp_path, index, search):
    """The mixes that are built after it would hold other bytes than those before, under one name in the report."""
    program = "import importlib.metadata as m, sys; sys.exit(m.version('p0') == '2.0')"
    lists = ["p0==1.0", "p1==1.0"], ["p0==2.0", "p1==2.0"]
    first = search(*lists, "--max-runs", "5", program=program)
    again = search(*lists, "--max-runs", "6", program=program)

    stubs.wheel(index.project("p1"), "p1", "2.0", files={"p1.py": "OTHER = 1\n"})
    mixed = search(*lists, program=program)
    resumed = subprocess.run(
        [sys.executable, "-m", "bisect", "resume", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert [first.returncode, again.returncode] == [4, 4], first.stderr + again.stderr
    assert [mixed.returncode, resumed.returncode] == [2, 2], mixed.stderr + resumed.stderr
    for told in (mixed.stderr, resumed.stderr):
        assert "is not what it was when the search in" in told
        assert "the index serves p1-2.0-py3-none-any.whl with another hash" in told
