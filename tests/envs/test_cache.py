"""Compile caches: what is saved comes back byte for byte, fits where it is put, and nothing half-made is ever left."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace

import pytest

from envs import cache, cli
from envs.environment_file import Entry
from envs.errors import UsageError
from envs.fingerprint import Fingerprint
from envs.store import Store

SAID = Fingerprint(
    torch="2.11.0+cu130",
    git_version="70d99e998b49",
    cuda="13.0",
    triton="3.6.0",
    python="3.11.7",
    gpus=("H200 9.0",) * 8,
)
ENTRY = Entry(
    name="cu130",
    digest="0123456789abcdef01234567",
    lock="l",
    torch="2.11.0",
    cuda="cu130",
    interpreter="cpython-3.11.7-x86_64",
    fingerprint=SAID,
)


@pytest.fixture
def caches(tmp_path):
    """What a run leaves: compiled code, a lock file, scratch."""
    for name, content in {"inductor/fx/a.py": "code", "triton/k.cubin": "\x7f", "tmp/scratch": "x"}.items():
        path = tmp_path / "caches" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "caches" / "inductor" / "held.lock").touch()
    return tmp_path / "caches"


def saved(caches, archive, *, said=SAID):
    found = cache.sources(caches, {})
    manifest = cache.describe(
        found, said, environment="cu130", digest="0123", configuration={"profile": "gpu1"}, now=1.0
    )
    cache.save(found, manifest, archive)
    return manifest


def tree(directory):
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_a_cache_comes_back_as_it_was(caches, tmp_path):
    """353 MB of compiled kernels must not be lost, nor come back different."""
    manifest = saved(caches, tmp_path / "a.tar.gz")

    assert cache.restore(tmp_path / "a.tar.gz", tmp_path / "back", SAID) == manifest
    assert tree(tmp_path / "back") == {"inductor/fx/a.py": "code", "triton/k.cubin": "\x7f"}


def test_the_manifest_says_what_made_it_and_how_much_it_is(caches, tmp_path):
    """Without this nobody dares to reuse a cache, or should."""
    manifest = saved(caches, tmp_path / "a.tar.gz")

    assert manifest == cache.read(tmp_path / "a.tar.gz")
    assert [(each.name, each.files, each.bytes) for each in manifest.folders] == [("inductor", 1, 4), ("triton", 1, 1)]
    assert manifest.gpus == ("H200 9.0",)
    assert manifest.configuration == (("profile", "gpu1"),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"git_version": "deadbeef0000"}, "torch build"),
        ({"triton": "3.7.0"}, "triton 3.6.0 made it, 3.7.0 is here"),
        ({"cuda": "12.8"}, "CUDA"),
        ({"python": "3.12.1"}, "Python 3.11 made it, 3.12 is here"),
        ({"gpus": ("B200 10.0",)}, "GPU H200 9.0 made it, B200 10.0 is here"),
    ],
)
def test_a_cache_is_refused_by_a_build_it_does_not_fit(caches, tmp_path, change, words):
    """A stale kernel that is believed is worse than a cold start."""
    saved(caches, tmp_path / "a.tar.gz")
    other = replace(SAID, **change)

    with pytest.raises(UsageError) as refused:
        cache.restore(tmp_path / "a.tar.gz", tmp_path / "back", other)

    assert words in refused.value.message
    assert not (tmp_path / "back").exists()
    cache.restore(tmp_path / "a.tar.gz", tmp_path / "back", other, anyway=True)


def test_another_patch_release_of_python_fits(caches, tmp_path):
    """Compiled code depends on the minor version; refusing more would throw away good caches."""
    saved(caches, tmp_path / "a.tar.gz")

    cache.restore(tmp_path / "a.tar.gz", tmp_path / "back", replace(SAID, python="3.11.9"))


def test_nothing_is_written_over(caches, tmp_path):
    """An archive and a cache in use are both somebody's work."""
    saved(caches, tmp_path / "a.tar.gz")
    with pytest.raises(UsageError, match="exists already"):
        saved(caches, tmp_path / "a.tar.gz")
    with pytest.raises(UsageError, match="holds something"):
        cache.restore(tmp_path / "a.tar.gz", caches, SAID)


def test_a_damaged_archive_leaves_nothing_behind(caches, tmp_path):
    """A cache restored by half looks warm and is not."""
    saved(caches, tmp_path / "a.tar.gz")
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(UsageError):
        cache.restore(tmp_path / "a.tar.gz", tmp_path / "back", SAID)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "caches"]


def test_an_archive_with_other_files_than_its_manifest_is_refused(caches, tmp_path):
    """The manifest is what people judge by."""
    manifest = saved(caches, tmp_path / "a.tar.gz")
    (caches / "inductor" / "fx" / "a.py").write_text("edoc")
    cache.save(cache.sources(caches, {}), manifest, tmp_path / "b.tar.gz")

    with pytest.raises(UsageError, match="other files"):
        cache.restore(tmp_path / "b.tar.gz", tmp_path / "back", SAID)


def test_an_archive_cannot_write_outside_its_directory(caches, tmp_path):
    """Archives travel between people."""
    saved(caches, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        manifest = tar.extractfile("manifest.json").read()
    (tmp_path / "manifest.json").write_bytes(manifest)
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "manifest.json", arcname="manifest.json")
        tar.add(caches / "inductor" / "fx" / "a.py", arcname="../outside.py")

    with pytest.raises(UsageError):
        cache.restore(tmp_path / "evil.tar.gz", tmp_path / "deep" / "back", SAID)

    assert not (tmp_path / "deep" / "outside.py").exists()


def test_a_directory_without_compiled_code_is_refused(tmp_path):
    """An empty archive kept for a year would be found out on the day it is needed."""
    (tmp_path / "caches" / "tmp").mkdir(parents=True)
    with pytest.raises(UsageError, match="no compiled code"):
        cache.sources(tmp_path / "caches", {})


def test_a_cache_of_ones_own_is_named_by_its_kind(caches):
    """People's own caches lie in /tmp/torchinductor_USER, not in a run directory."""
    found = cache.sources(None, {"inductor": caches / "inductor"})

    assert {"inductor": caches / "inductor"} == found
    with pytest.raises(UsageError, match="no kind of cache"):
        cache.sources(None, {"indutcor": caches})


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ENVS_STORE", str(tmp_path / "store"))
    store = Store(tmp_path / "store")
    building = store.new_building(ENTRY.digest)
    store.finish(building, ENTRY)

    def call(*argv):
        code = cli.main(["cache", *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_save_list_restore_from_the_command_line(run, caches, tmp_path):
    """The three commands belong together: what one prints the next one takes."""
    code, archive, _ = run("save", str(caches), "--env", "cu130", "--config", "profile=gpu1")
    assert code == 0
    _, listed, _ = run("list", "--json")
    name = json.loads(listed)["caches"][0]["name"]
    assert archive.strip().endswith(f"store/caches/{name}.tar.gz")
    assert "2.11.0+cu130" in run("list")[1]

    code, printed, said = run("restore", name, str(tmp_path / "back"), "--env", "cu130")

    assert (code, printed.strip()) == (0, str(tmp_path / "back"))
    assert "made by cu130" in said
    assert (tmp_path / "back" / "inductor" / "fx" / "a.py").exists()


def test_a_missing_archive_is_an_error_with_a_hint(run, tmp_path):
    """Not a traceback."""
    code, _, said = run("restore", "nothing", str(tmp_path / "back"), "--env", "cu130")

    assert code == 2
    assert "hint: python -m envs cache list" in said


def test_a_pair_without_a_value_is_refused(run, caches):
    """`--config profile` would silently say nothing."""
    code, _, said = run("save", str(caches), "--env", "cu130", "--config", "profile")

    assert code == 2
    assert "KEY=VALUE" in said
