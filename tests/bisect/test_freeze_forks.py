"""A uv.lock holds what every platform installs: read as one environment it would name packages that never met."""

from bisect.packages import freeze
from bisect.packages.lists import listing_in, micro_notes
from dataclasses import replace

import pytest

from envs.errors import UsageError
from envs.index import Target

HERE = Target(python="3.11", architecture="x86_64", glibc="2.36")
PROJECT = """
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "trainer"
version = "0"
source = { virtual = "." }
dependencies = [
    { name = "torch", version = "2.11.0", source = { registry = "https://a" }, marker = "sys_platform != 'linux'" },
    { name = "torch", version = "2.12.0+cu130", source = { registry = "b" }, marker = "sys_platform == 'linux'" },
    { name = "tools", extra = ["fast"] },
]

[package.optional-dependencies]
gui = [{ name = "qt" }]

[package.dev-dependencies]
dev = [{ name = "checks" }]
"""
PACKAGE = """
[[package]]
name = "{name}"
version = "{version}"
source = {{ registry = "{source}" }}
{more}
"""
TOOLS = """dependencies = [{ name = "colorama", marker = "sys_platform == 'win32'" }]
[package.optional-dependencies]
fast = [{ name = "simd" }]
slow = [{ name = "tea" }]"""


def package(name, version="1.0", more="", source="https://a"):
    return PACKAGE.format(name=name, version=version, more=more, source=source)


def forks(*markers):
    """Two versions of torch, of which uv says for which platforms each is."""
    first, second = (f"resolution-markers = [{marker!r}]" if marker else "" for marker in markers)
    return package("torch", "2.11.0", first) + package("torch", "2.12.0+cu130", second, source="b")


def parsed(text, target=HERE, *extras):
    return freeze.parse(text, target=target, extras=extras)


def test_the_version_of_this_platform_is_chosen_by_its_resolution_markers():
    """The table of macOS comes first: two locks that differ on Linux only would be said to hold the same."""
    read = parsed(forks('sys_platform == "darwin"', 'sys_platform == "linux"'))

    assert [str(pin) for pin in read.pins] == ["torch==2.12.0+cu130"]
    assert [str(each) for each in read.elsewhere] == ["torch==2.11.0"]


def test_what_no_dependency_of_this_platform_leads_to_is_left_out():
    """uv.lock gives no marker to a package that Windows alone needs, nor to a version that another one asks for."""
    names = ("qt", "checks", "colorama", "simd", "tea")

    read = parsed(PROJECT + forks("", "") + package("tools", more=TOOLS) + "".join(map(package, names)))

    assert [str(pin) for pin in read.pins] == ["checks==1.0", "simd==1.0", "tools==1.0", "torch==2.12.0+cu130"]
    assert {each.name for each in read.elsewhere} == {"torch", "colorama", "tea"}


def test_no_extra_is_taken_that_nobody_named():
    """A package that was never installed would be searched, and could be found guilty; left out, it is told."""
    text = PROJECT + forks("", "") + package("tools", more=TOOLS) + "".join(map(package, ("qt", "checks", "simd")))

    plain, named = parsed(text), parsed(text, HERE, "gui")

    assert (plain.get("qt"), plain.taken, plain.untaken) == (None, ("dev",), ("gui",))
    assert [str(each) for each in plain.optional] == ["qt==1.0"]
    assert "qt" not in {each.name for each in plain.elsewhere}
    assert (named.get("qt").version, named.taken, named.untaken, named.optional) == ("1.0", ("dev", "gui"), (), ())


def test_the_python_of_the_environment_decides_too():
    """A lock for Python 3.11 and 3.12 has two numpys."""
    text = forks('python_full_version < "3.12"', 'python_full_version >= "3.12"')

    versions = [parsed(text, Target(python=python, architecture="x86_64", glibc="2.36")) for python in ("3.11", "3.12")]

    assert [read.get("torch").version for read in versions] == ["2.11.0", "2.12.0+cu130"]


@pytest.mark.parametrize(("full", "torch"), [("3.11.2", "2.11.0"), ("3.11.4", "2.12.0+cu130"), ("", "2.12.0+cu130")])
def test_the_micro_version_of_the_python_decides(full, torch):
    """A backport for 3.11 before 3.11.4 would be left out on 3.11.2, and what needs it fail to import in every mix."""
    target = replace(HERE, full=full)
    lock = forks('python_full_version < "3.11.4"', 'python_full_version >= "3.11.4"')
    freeze = 'torch==2.11.0 ; python_full_version < "3.11.4"\ntorch==2.12.0+cu130 ; python_full_version >= "3.11.4"\n'

    assert [parsed(text, target).get("torch").version for text in (lock, freeze)] == [torch, torch]


def test_how_a_marker_on_a_micro_version_was_read_is_told():
    """The other machine may have another one: a package that is there or not for it alone would look like a change."""
    text = forks('python_full_version < "3.11.4"', 'python_full_version >= "3.11.4"')
    both = 'python_full_version < "3.11.4", python_full_version >= "3.11.4"'

    assert micro_notes(text, replace(HERE, full="3.11.7")) == (
        f"markers on a micro version are read for Python 3.11.7, which every mix runs on: {both}",
    )
    assert micro_notes(text, HERE) == (f"markers on a micro version are read as if its last release ran: {both}",)
    assert micro_notes(text, replace(HERE, python="3.12", full="3.12.1")) == ()
    assert micro_notes(forks('python_full_version < "3.12"', 'python_full_version >= "3.12"'), HERE) == ()


EXTRAS = """
[[package]]
name = "trainer"
version = "0"
source = { virtual = "." }
[package.optional-dependencies]
cpu = [{ name = "torch", version = "2.11.0" }]
cu130 = [{ name = "torch", version = "2.12.0+cu130" }]
"""
CU130 = "extra == 'extra-7-trainer-cu130' and extra != 'extra-7-trainer-cpu'"
CONFLICT = f"""
[[package]]
name = "trainer"
version = "0"
source = {{ virtual = "." }}
dependencies = [{{ name = "kernels" }}]
[package.optional-dependencies]
cpu = []
cu130 = []

[[package]]
name = "kernels"
version = "1.0"
source = {{ registry = "https://a" }}
dependencies = [
    {{ name = "torch", version = "2.11.0", marker = "extra == 'extra-7-trainer-cpu'" }},
    {{ name = "torch", version = "2.12.0+cu130", marker = "{CU130}" }},
]
"""


@pytest.mark.parametrize(
    ("project", "extras"), [("", ()), (EXTRAS, ("cpu", "cu130"))], ids=["nothing decides", "both extras"]
)
def test_a_lock_that_leaves_two_versions_is_refused(project, extras):
    """Which of the two was installed the lock does not say: one of them would be taken at will."""
    with pytest.raises(ValueError, match=r"do not decide between torch 2\.11\.0 and 2\.12\.0\+cu130"):
        parsed(project + forks("", ""), HERE, *extras)


@pytest.mark.parametrize("project", [EXTRAS, CONFLICT], ids=["extras", "conflicting extras"])
def test_the_extra_that_is_named_decides_between_two_versions(project):
    """A project with a torch for each CUDA in extras of its own could not be compared at all."""
    text = project + forks("", "")

    assert [parsed(text, HERE, extra).get("torch").version for extra in ("cpu", "cu130")] == ["2.11.0", "2.12.0+cu130"]
    assert parsed(text).get("torch") is None
    assert {each.version for each in parsed(text).optional} == {"2.11.0", "2.12.0+cu130"}


def test_a_torch_in_an_extra_only_is_told_with_the_extras(tmp_path):
    """`lists no torch` would be said of a lock with two of them."""
    (tmp_path / "uv.lock").write_text("version = 1\n" + EXTRAS + forks("", ""))

    with pytest.raises(UsageError, match="has torch in an extra or group only") as refused:
        listing_in(tmp_path / "uv.lock", HERE)

    assert refused.value.hint == "name it: --extra cpu (it has cpu, cu130)"
    assert listing_in(tmp_path / "uv.lock", HERE, extras=["cu130"]).packages == {"torch": "2.12.0+cu130"}


def test_what_was_taken_of_a_lock_is_told(tmp_path):
    """The other machine may have installed an extra: whoever reads the answer must know that it was not tried."""
    text = PROJECT + forks("", "") + "".join(map(package, ("tools", "qt", "checks")))
    (tmp_path / "uv.lock").write_text(text)

    listed = listing_in(tmp_path / "uv.lock", HERE)

    assert listed.optional == {"qt": "1.0"}
    assert listed.notes[-1].endswith(
        "taken as `uv sync` installs it, with dev, without its extras and groups gui "
        "(--extra NAME for those that were installed)"
    )


def test_a_lock_of_other_platforms_is_refused():
    """Its packages would be installed on a platform that it was never resolved for."""
    with pytest.raises(ValueError, match=r"it is for sys_platform == 'darwin' only"):
        parsed("supported-markers = [\"sys_platform == 'darwin'\"]\n" + package("torch", "2.11.0"))
    with pytest.raises(ValueError, match=r"it has no torch for Linux with Python 3\.11"):
        parsed(EXTRAS + package("torch", "2.11.0", "resolution-markers = [\"sys_platform == 'darwin'\"]"), HERE, "cpu")
