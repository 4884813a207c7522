"""A lock says exactly what is installed, and a lock that was touched is refused."""

import tomllib
from dataclasses import replace

import pytest

from envs import index, lock, pylock, resolve, spec
from envs.errors import CannotBuildError, UsageError
from envs.index import Target

LINUX = Target(python="3.11", architecture="x86_64", glibc="2.36")
F = "https://files.example"
UV = f"""
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"

[[packages]]
name = "colorama"
version = "0.4.6"
marker = "sys_platform == 'win32'"
wheels = [{{ url = "{F}/colorama-0.4.6-py3-none-any.whl", hashes = {{ sha256 = "00" }} }}]

[[packages]]
name = "numpy"
version = "2.4.6"
marker = "python_full_version < '3.12'"

[[packages.wheels]]
url = "{F}/numpy-2.4.6-cp311-cp311-macosx_11_0_arm64.whl"
hashes = {{ sha256 = "01" }}

[[packages.wheels]]
url = "{F}/numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl"
upload-time = 2026-05-01T01:02:03Z
size = 5
hashes = {{ sha256 = "02" }}

[[packages.wheels]]
url = "{F}/numpy-2.4.6-cp311-cp311-manylinux_2_28_aarch64.whl"
size = 6
hashes = {{ sha256 = "03" }}

[[packages]]
name = "numpy"
version = "2.5.5"
marker = "python_full_version >= '3.12'"
wheels = [{{ url = "{F}/numpy-2.5.5-cp312-cp312-manylinux_2_28_x86_64.whl", hashes = {{ sha256 = "04" }} }}]

[[packages]]
name = "torch"
version = "2.11.0+cu128"

[[packages.wheels]]
url = "{F}/torch-2.11.0%2Bcu128-cp311-cp311-manylinux_2_28_x86_64.whl"
hashes = {{ sha256 = "05" }}

[[packages.wheels]]
url = "{F}/torch-2.11.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl"
hashes = {{ sha256 = "06" }}
"""


@pytest.fixture
def made():
    return pylock.from_uv(
        UV,
        name="cu128-old",
        request="r",
        pythons=("3.11", "3.12"),
        architectures=("x86_64", "aarch64"),
        exclude_newer="2026-11-22",
        torch_names=frozenset({"torch", "triton"}),
    )


def test_only_what_linux_installs_is_kept(made):
    """macOS wheels and Windows packages in a committed lock are noise that a reviewer has to read."""
    assert [(item.name, item.version, str(item.source)) for item in made.distributions] == [
        ("numpy", "2.4.6", "default"),
        ("numpy", "2.5.5", "default"),
        ("torch", "2.11.0+cu128", "torch"),
    ]
    assert [wheel.filename for wheel in made.distributions[0].wheels] == [
        "numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl",
        "numpy-2.4.6-cp311-cp311-manylinux_2_28_aarch64.whl",
    ]


def test_each_python_gets_its_own_wheels(made):
    """One lock serves several interpreters; the wrong wheel would not import."""
    by_python = {
        python: [pin.filename for pin in made.select(Target(python=python, architecture="x86_64", glibc="2.36"))]
        for python in ("3.11", "3.12")
    }

    assert by_python["3.11"] == [
        "numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.11.0+cu128-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]
    assert by_python["3.12"] == [
        "numpy-2.5.5-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.11.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl",
    ]


BACKPORT = """
lock-version = "1.0"
[[packages]]
name = "backport"
version = "1.0"
marker = "python_full_version < '3.11.4'"
wheels = [{ url = "https://a/backport-1.0-py3-none-any.whl", hashes = { sha256 = "01" } }]
"""


@pytest.mark.parametrize(("full", "held"), [("3.11.2", 1), ("3.11.4", 0), ("", 0)])
def test_a_lock_holds_what_some_micro_version_needs_and_a_build_takes_what_its_own_does(full, held):
    """The lock is made once and built with whichever 3.11 a machine has: a backport would be missing on 3.11.2."""
    made = pylock.from_uv(
        BACKPORT, name="x", request="", pythons=("3.11",), architectures=("x86_64",), exclude_newer="",
        torch_names=frozenset(),
    )  # fmt: skip

    assert len(made.select(replace(LINUX, full=full))) == held


def test_machine_without_wheels_is_told_which_there_are(made):
    """An interpreter or platform without wheels is a clear refusal, not an unsolvable resolution."""
    with pytest.raises(
        CannotBuildError, match=r"torch 2\.11\.0\+cu128 has no wheel for Python 3\.11 on aarch64"
    ) as caught:
        made.select(Target(python="3.11", architecture="aarch64", glibc="2.36"))

    assert caught.value.outcome == "not_published"
    with pytest.raises(CannotBuildError, match=r"does not serve Python 3\.13"):
        made.select(Target(python="3.13", architecture="x86_64", glibc="2.36"))


def test_written_lock_is_a_pylock_and_reads_back(made):
    """PEP 751 is what other tools read; a value lost on the way changes the identity."""
    text = pylock.to_toml(made)
    table = tomllib.loads(text)

    assert table["lock-version"] == "1.0"
    assert table["created-by"]
    assert all({"name", "version", "wheels"} <= package.keys() for package in table["packages"])
    assert all({"path", "hashes"} <= wheel.keys() for package in table["packages"] for wheel in package["wheels"])
    assert "://" not in text
    assert pylock.from_toml(text, origin="x") == made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('sha256 = "02"', 'sha256 = "aa"'),
        ("2.4.6", "2.4.7"),
        ("size = 5", "size = 50"),
        ('source = "torch"', 'source = "default"'),
    ],
)
def test_edited_lock_is_refused(made, old, new):
    """A lock edited by hand names what nobody resolved; the environment's identity would be a lie."""
    text = pylock.to_toml(made)
    assert old in text

    with pytest.raises(UsageError, match="was changed after it was written") as caught:
        pylock.from_toml(text.replace(old, new), origin="pylock.cu128-old.toml")
    assert "python -m envs lock cu128-old" in caught.value.hint


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("[tool.envs]", "[tool.other]"),
        lambda text: text.replace('version = "2.4.6"', 'version = "latest"'),
        lambda text: text.replace("packages", "package"),
        lambda text: text.replace("python_full_version < '3.12'", "python is new"),
        lambda text: text.replace('source = "torch"', 'source = "elsewhere"'),
        lambda _: "",
        lambda _: UV,
    ],
)
def test_damaged_lock_is_one_line(made, damage):
    """Truncated by a full disk or written by another tool: told, without a traceback."""
    with pytest.raises(UsageError, match="is not a lock of this tool"):
        pylock.from_toml(damage(pylock.to_toml(made)), origin="pylock.toml")


def test_lock_of_a_newer_version(made):
    """What a newer version means by its keys is unknown to this one."""
    text = pylock.to_toml(made).replace("schema = 1", "schema = 2")

    with pytest.raises(UsageError, match="written by a newer version"):
        pylock.from_toml(text, origin="pylock.toml")


def test_identity_covers_wheels_interpreter_and_history(made):
    """Two environments that differ in any of these must not share a directory."""
    pins = made.select(LINUX)
    plain = lock.pins_digest(pins, interpreter="cpython-3.11.7-x86_64")

    assert plain == lock.pins_digest(pins, interpreter="cpython-3.11.7-x86_64")
    assert (
        len(
            {
                plain,
                lock.pins_digest(pins[1:], interpreter="cpython-3.11.7-x86_64"),
                lock.pins_digest(pins, interpreter="cpython-3.11.8-x86_64"),
                lock.pins_digest(pins, interpreter="cpython-3.11.7-x86_64", history=("install sglang",)),
            }
        )
        == 4
    )


@pytest.mark.parametrize("name", [item.name for item in spec.shipped() if item.channel is spec.Channel.RELEASE])
def test_committed_locks_serve_the_promised_interpreters(name):
    """A fresh machine has any one of these; a stale or partial lock fails there and not here."""
    definition = spec.load(name)
    committed = resolve.committed_lock(definition)
    assert committed is not None

    assert {"3.11", "3.12", "3.13"} <= set(definition.pythons)
    for python in definition.pythons:
        pins = committed.select(Target(python=python, architecture="x86_64", glibc="2.28"))
        versions = {pin.name: pin.version for pin in pins}

        assert versions["torch"] == definition.torch
        assert {"numpy", "setuptools", "triton"} <= versions.keys()
        assert all(pin.size > 0 and len(pin.sha256) == 64 for pin in pins)
        assert len(versions) == len(pins)


def test_architectures_of_committed_locks():
    """The default index had no CUDA for aarch64 before 2.11: a lock from it would build one without CUDA there."""
    serves = {
        name: [machine for machine in ("x86_64", "aarch64") if committed.serves(machine)]
        for name in ("cu128", "cu130")
        if (committed := resolve.committed_lock(spec.load(name))) is not None
    }

    assert serves == {"cu128": ["x86_64"], "cu130": ["x86_64", "aarch64"]}


def test_stale_committed_lock_is_refused(tmp_path, monkeypatch):
    """A definition that was changed without its lock would silently build the old one."""
    text = (spec.DIRECTORY / "cu130.toml").read_text()
    (tmp_path / "cu130.toml").write_text(text.replace("2026-11-22", "2026-11-23"))
    monkeypatch.setattr(spec, "DIRECTORY", tmp_path)

    with pytest.raises(UsageError, match="is stale"):
        resolve.committed_lock(spec.load("cu130"))


@pytest.mark.parametrize(
    ("said", "kept"), [("2025-11-11T17:51:44.090277Z", "2025-11-11T17:51:44Z"), ("last week", ""), ("", "")]
)
def test_an_exchanged_lock_reads_back_as_itself(said, kept):
    """The default index says microseconds, a lock keeps seconds: every search over triton ended at its own lock."""
    base = lock.Lock(name="base", request="r", pythons=("3.11",), exclude_newer="", distributions=())
    (file,) = index.from_filenames(["leaf-1.0-py3-none-any.whl"], url="")
    found = lock.exchanged(
        base, name="leaf-1.0", request="q", files=[replace(file, upload_time=said)], source=lock.Source.DEFAULT
    )

    assert found.distributions[0].wheels[0].upload_time == kept
    assert pylock.from_toml(pylock.to_toml(found), origin="here") == found
