"""Freeze files from the wild are read whole: what cannot be had again is named, nothing is lost in silence."""

import json
from bisect.packages import freeze
from bisect.packages.freeze import Pin

import pytest

from envs.index import Target

WILD = """\
\ufeff# pip freeze of node-17
torch==2.11.0+cu128
numpy==2.3.5  # held by numba
Flash_Attn @ https://github.com/x/v2/flash_attn-2.8.3%2Bcu12torch2.11-cp311-cp311-linux_x86_64.whl
sglang @ git+https://user:token@github.com/sgl-project/sglang.git@0123456789abcdef#subdirectory=python
-e git+ssh://git@github.com/team/drafter.git@0123456789abcdef#egg=drafter
-e /home/jo/dflash
vllm @ git+https://github.com/vllm-project/vllm.git@main
packaging @ file:///croot/packaging_1693575174725/work
mylib @ file:///home/jo/mylib-1.2-py3-none-any.whl
--extra-index-url https://download.pytorch.org/whl/cu128
requests==2.32.0 \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb
triton==3.6.0 ; platform_system == "Linux"
tokenizers>=0.20
ca-certificates=2024.7.4=hbcca054_0
pip=24.0=pypi_0
nvidia-nccl-cu12==2.27.5
nvidia-nccl-cu12==2.28.9
!!! what is this
-r other.txt
"""


HERE = Target(python="3.11", architecture="x86_64", glibc="2.36")


def parsed(text):
    return freeze.parse(text, target=HERE)


@pytest.fixture
def wild():
    return parsed(WILD.replace("\n", "\r\n"))


def names(read):
    return {problem.name: problem.reason for problem in read.unreproducible}


def test_pins_of_every_kind_of_line_are_read(wild):
    """A local version, a comment, a hash, a marker or a URL would lose the pin."""
    versions = {pin.name: pin.version for pin in wild.pins}

    assert versions["torch"] == "2.11.0+cu128"
    assert versions["numpy"] == "2.3.5"
    assert versions["flash-attn"] == "2.8.3+cu12torch2.11"
    assert versions["triton"] == "3.6.0"
    assert versions["pip"] == "24.0"
    assert wild.get("requests").hashes == ("sha256:aaaa", "sha256:bbbb")
    assert wild.get("triton").marker == 'platform_system == "Linux"'
    assert wild.get("drafter").source.startswith("git+ssh://git@github.com/team/drafter.git@0123")


def test_a_token_in_a_url_never_reaches_a_report(wild):
    """A freeze of a private repository would leak its token into the journal."""
    assert "token" not in wild.get("sglang").source


def test_what_cannot_be_reproduced_is_named_with_the_reason(wild):
    """A line dropped in silence would make two different environments look equal."""
    found = names(wild)

    assert {
        "dflash",
        "vllm",
        "packaging",
        "mylib",
        "tokenizers",
        "ca-certificates",
        "other.txt",
    } <= found.keys()
    assert "editable" in found["dflash"]
    assert "commit" in found["vllm"]
    assert "conda build" in found["packaging"]
    assert "not pinned: >=0.20" in found["tokenizers"]
    assert "listed twice" in found["nvidia-nccl-cu12"]
    assert any("not understood" in reason for reason in found.values())


def test_the_two_shapes_of_pip_list_read_alike():
    """A cluster's `pip list` is often all there is."""
    columns = (
        "Package    Version       Editable project location\n---------- ------------- ----\n"
        "torch      2.11.0+cu130\nmine       0.1           /home/jo/mine\n"
    )
    entries = [
        {"name": "torch", "version": "2.11.0+cu130"},
        {"name": "mine", "version": "0.1", "editable_project_location": "/home/jo/mine"},
    ]

    read = parsed(columns)

    assert read.kind == "pip list"
    assert read == parsed(json.dumps(entries))
    assert read.pins == (Pin(name="torch", version="2.11.0+cu130"),)
    assert names(read) == {"mine": "an editable directory of the other machine"}


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (
            "Package Version      Editable project location Location         Installer",
            "torch   2.11.0+cu130                           /x/site-packages pip\nmine    0.1          /home/jo/mine\n",
        ),
        (
            "Package Version Editable project location Location Installer",
            "torch 2.11.0+cu130 /x/site-packages pip\nmine 0.1 /home/jo/mine /x/site-packages pip\n",
        ),
        (
            "Package Version      Location",
            "torch   2.11.0+cu130\nmine    0.1          /home/jo/mine\n",
        ),
    ],
    ids=["verbose", "verbose, columns moved", "an old pip"],
)
def test_only_editable_rows_of_a_pip_list_are_editable(header, rows):
    """`pip list -v` says where each package lies: every line would be called editable, and none of them be torch."""
    read = parsed(f"{header}\n{' '.join('-' * len(word) for word in header.split())}\n{rows}")

    assert [str(pin) for pin in read.pins] == ["torch==2.11.0+cu130"]
    assert names(read) == {"mine": "an editable directory of the other machine"}


def test_a_verbose_list_without_an_editable_row_has_none():
    """pip leaves the column out then."""
    read = parsed("Package Version Location Installer\n------- -----\ntorch 2.11.0 /x/site-packages pip\n")

    assert [str(pin) for pin in read.pins] == ["torch==2.11.0"]
    assert not read.unreproducible


def test_pip_inspect_keeps_the_commit():
    """`pip inspect` is the only listing of pip that says where a distribution came from."""
    direct = {"url": "https://a/k", "vcs_info": {"commit_id": "abcdef0"}}
    entries = [
        {"metadata": {"name": "torch", "version": "2.9.1"}},
        {"metadata": {"name": "k", "version": "1"}, "direct_url": direct},
    ]
    text = json.dumps({"installed": entries})

    read = parsed(text)

    assert read.get("k") == Pin(name="k", version="1", source="git+https://a/k@abcdef0")
    assert read.get("torch").version == "2.9.1"


def test_a_pylock_is_read_with_hashes_and_sources():
    """Two locks must be comparable without building either."""
    text = """
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.10.0"
[[packages.wheels]]
url = "https://files/torch-2.10.0-cp311-cp311-manylinux_2_28_x86_64.whl"
hashes = { sha256 = "aa" }
[[packages]]
name = "local"
directory = { path = "../local" }
[[packages]]
name = "repo"
vcs = { type = "git", url = "https://h/repo", commit-id = "abc" }
"""

    read = parsed(text)

    assert read.kind == "pylock"
    assert read.get("torch").hashes == ("sha256:aa",)
    assert read.get("repo").source == "git+https://h/repo@abc"
    assert names(read) == {"local": "a directory of the other machine"}


def test_a_uv_lock_is_read():
    """A project's own lock is a natural thing to hand in."""
    text = (
        'version = 1\n[[package]]\nname = "torch"\nversion = "2.10.0"\nsource = { registry = "https://x" }\n'
        '[[package]]\nname = "me"\nversion = "0"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "torch" }]\n'
    )

    read = parsed(text)

    assert (read.kind, [pin.name for pin in read.pins]) == ("uv.lock", ["torch"])
    assert names(read) == {}  # a virtual package has dependencies, and is never installed


def test_conda_builds_are_named_and_their_wheels_kept():
    """A conda build has other bytes than the wheel of that version: it must not be replaced in silence."""
    text = (
        "# packages in environment at /opt/conda:\n#\n# Name  Version  Build  Channel\n"
        "numpy 1.26.4 py311h64a7726_0 conda-forge\ntorch 2.11.0 pypi_0 pypi\n"
    )

    read = parsed(text)

    assert [str(pin) for pin in read.pins] == ["torch==2.11.0"]
    assert read.unreproducible[0].name == "numpy"
    assert read.unreproducible[0].version == "1.26.4"


def test_an_environment_yml_is_read():
    """`conda env export` nests pip's lines one level down."""
    text = (
        "name: x\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.11.7=abc\n  - pip:\n"
        "      - torch==2.11.0\n      - sglang==0.5.9\nprefix: /opt\n"
    )

    read = parsed(text)

    assert [str(pin) for pin in read.pins] == ["sglang==0.5.9", "torch==2.11.0"]
    assert [problem.name for problem in read.unreproducible] == ["python"]


def test_what_is_listed_for_another_platform_is_kept_apart():
    """A package that was never installed on Linux would be called guilty."""
    read = parsed(
        "p0==1.0 ; sys_platform == 'win32'\np0==2.0 ; sys_platform == 'linux'\n"
        "p1==1.0 ; python_version < '3.0'\np2>=1 ; sys_platform == 'win32'\np3==1.0 ; extra == 'gui'\n"
    )

    assert [str(pin) for pin in read.pins] == ["p0==2.0"]
    assert not read.unreproducible
    assert [each.name for each in read.elsewhere] == ["p0", "p1", "p2", "p3"]


PYLOCK = """
lock-version = "1.0"
default-groups = ["dev"]
[[packages]]
name = "p0"
version = "1.0"
marker = "{}"
[[packages]]
name = "p0"
version = "2.0"
marker = "'dev' in dependency_groups"
"""


def test_a_pylock_installs_what_its_markers_choose():
    """A lock for all platforms would be read as an environment with the packages of all of them."""
    read = parsed(PYLOCK.format("sys_platform == 'win32' or 'cuda' in extras"))

    assert [str(pin) for pin in read.pins] == ["p0==2.0"]
    assert [str(pin) for pin in read.elsewhere] == ["p0==1.0"]


def test_a_lock_that_leaves_two_versions_is_refused():
    """One of the two would be taken at will, and called the installed one."""
    with pytest.raises(ValueError, match=r"do not decide between p0 1\.0 and 2\.0"):
        parsed(PYLOCK.format("python_version >= '3.8'"))


@pytest.mark.parametrize("text", ["p0===of-today", '[[package]]\nname = "p0"\nversion = "of-today"\n'])
def test_what_is_no_version_is_named(text):
    """It would be looked up, and the command end as if it had a bug."""
    assert names(parsed(text)) == {"p0": "not a version: of-today"}


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "lock-version = \n[[packages]]"])
def test_a_broken_file_says_why(text):
    """A truncated upload must not be read as an empty environment."""
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


def test_bytes_of_any_platform_are_decoded():
    """PowerShell's `pip freeze > file` writes UTF-16 with a mark."""
    assert freeze.decode("torch==2.1".encode("utf-16")) == "torch==2.1"
    assert freeze.decode(b"\xef\xbb\xbftorch==2.1") == "torch==2.1"
    assert freeze.decode(b"caf\xe9==1") == "caf\ufffd==1"
