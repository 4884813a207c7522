"""Index pages are read as they really are, and only wheels that fit count."""

import pytest
from packaging.version import Version

from envs import index

LINUX = index.Target(python="3.12", architecture="x86_64", glibc="2.35")
URL = "https://example.org/whl/cu128/torch/"


def filenames(*names):
    return index.from_filenames(names, url="https://example.org/torch")


def one(html):
    (file,) = index.parse(f"<html><body>{html}</body></html>", url=URL)
    return file


def test_hash_of_the_metadata_is_not_the_hash_of_the_wheel():
    """B11: taken for the wheel's, every download would fail its check."""
    file = one(
        '<a href="https://files.example.net/whl/torch-2.11.0%2Bcu128-cp310-cp310-manylinux_2_28_x86_64.whl"'
        f' data-core-metadata="sha256={"ab" * 32}" data-dist-info-metadata="sha256={"ab" * 32}">torch</a>'
    )

    assert file.sha256 == ""
    assert file.metadata
    assert file.filename == "torch-2.11.0+cu128-cp310-cp310-manylinux_2_28_x86_64.whl"
    assert file.version == Version("2.11.0+cu128")
    assert file.url.startswith("https://files.example.net/whl/torch-2.11.0%2Bcu128")


def test_attributes_of_a_link():
    """Cut-offs need the upload time, installers the hash, the Python and whether it was withdrawn."""
    file = one(
        f'<a href="../f/torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl#sha256={"0f" * 32}"'
        ' data-upload-time="2026-03-01T10:00:00Z" data-requires-python="&gt;=3.10" data-yanked="bad">x</a>'
    )

    assert file.url == "https://example.org/whl/cu128/f/torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert (file.sha256, file.upload_time) == ("0f" * 32, "2026-03-01T10:00:00Z")
    assert (file.requires_python, file.yanked, file.metadata) == (">=3.10", True, False)


def test_base_element():
    """A mirror behind another path says so with <base>; links resolved against the page would all be 404."""
    page = '<html><head><base href="/mirror/torch/"></head><body><a href="a-1-py3-none-any.whl">a</a></body></html>'

    assert index.parse(page, url=URL)[0].url == "https://example.org/mirror/torch/a-1-py3-none-any.whl"


def test_json_page():
    """The default index answers JSON with sizes."""
    page = """{"meta": {"api-version": "1.1"}, "name": "torch", "files": [
      {"filename": "torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl", "url": "t.whl", "size": 7,
       "hashes": {"sha256": "aa"}, "upload-time": "2026-03-01T10:00:00Z", "core-metadata": {"sha256": "bb"},
       "yanked": false},
      {"filename": "torch-2.11.0.tar.gz", "url": "t.tar.gz", "hashes": {}}]}"""

    (file,) = index.parse(page, url=URL)

    assert (file.size, file.sha256, file.metadata, file.yanked) == (7, "aa", True, False)


@pytest.mark.parametrize("text", ["", "Service unavailable", '{"message": "rate limited"}', '{"files": [1]}', "{"])
def test_what_is_no_index_page_is_told(text):
    """An error page read as an empty index would say 'no such version'."""
    with pytest.raises(index.PageError):
        index.parse(text, url=URL)


def test_empty_page_is_a_page():
    """An index may have a project without files."""
    assert index.parse("<!DOCTYPE html><html><body></body></html>", url=URL) == ()


def test_tags():
    """B09: a cp36-none wheel is for 3.6 only, cp313t is not for the ordinary 3.13, abi3 and py3 fit later ones."""
    names = {
        "torch-1.10.0-cp36-none-manylinux1_x86_64.whl": False,
        "torch-2.9.0-cp312-cp312t-manylinux_2_28_x86_64.whl": False,
        "torch-2.9.0-cp314-cp314t-manylinux_2_28_x86_64.whl": False,
        "torch-2.9.0-py3-none-any.whl": True,
        "torch-2.9.0-cp39-abi3-manylinux2014_x86_64.whl": True,
        "torch-2.9.0-cp312-cp312-manylinux_2_28_x86_64.whl": True,
        "torch-2.9.0-cp312-cp312-manylinux_2_36_x86_64.whl": False,
        "torch-2.9.0-cp312-cp312-win_amd64.whl": False,
        "torch-2.9.0-cp312-none-macosx_11_0_arm64.whl": False,
    }

    assert {file.filename: index.rank(file, LINUX) is not None for file in filenames(*names)} == names


def test_why_a_wheel_does_not_fit():
    """B05, B08: 'only aarch64' and 'no cp312 that day' lead to different advice."""
    arm, old, fits = filenames(
        "torch-2.12.0.dev20260402+cu129-cp312-cp312-manylinux_2_28_aarch64.whl",
        "torch-2.12.0.dev20260402+cu129-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.12.0.dev20260402+cu129-cp312-cp312-manylinux_2_28_x86_64.whl",
    )

    assert index.fit(arm, LINUX) is index.Fit.OTHER_PLATFORM
    assert index.fit(old, LINUX) is index.Fit.OTHER_PYTHON
    assert index.fit(fits, LINUX) is index.Fit.FITS


def test_best_takes_the_newest_build_of_the_best_tag():
    """torch 2.10.0 was uploaded again with a build tag: the same version, other bytes."""
    files = filenames(
        "torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl",
    )

    found = index.best(files, LINUX)

    assert found is not None
    assert found.filename == "torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl"


def test_version_without_local_part_takes_any_local_part():
    """`==2.12.0.dev20260215` means the nightly of that date, whatever its variant."""
    files = filenames("torch-2.12.0.dev20260215+cu130-cp312-cp312-manylinux_2_28_x86_64.whl")

    assert index.best(files, LINUX, version=Version("2.12.0.dev20260215")) is not None
    assert index.best(files, LINUX, version=Version("2.12.0.dev20260215+cu126")) is None


def test_yanked_wheels_are_not_taken():
    """A withdrawn build is no candidate."""
    page = '<html><a href="torch-2.9.0-py3-none-any.whl" data-yanked="">a</a></html>'

    assert index.best(index.parse(page, url=URL), LINUX) is None


def test_urls_in_messages_carry_no_secret():
    """Index URLs with a password end up in logs and reports."""
    assert index.redacted("https://user:secret@example.org/simple?token=x") == "https://example.org/simple"
    assert index.redacted("/srv/wheels") == "/srv/wheels"
