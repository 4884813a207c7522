"""A file that an index replaced under the same name is noticed, by whatever can be known without a download."""

import os

import pytest

from envs import fetch, index, served
from envs.fetch import Look
from envs.lock import Distribution, Lock, Source, Wheel

NAME = "torch-2.13.0.dev20260601+cu130-cp311-cp311-manylinux_2_28_x86_64.whl"
LOCKED = Wheel(filename=NAME, sha256="a" * 64, size=1000, upload_time="2026-06-01T08:00:00Z")
NOON = 1_780_000_000.0


def _file(url="https://index.example/torch/", **fields):
    (file,) = index.from_filenames([NAME], url=url)
    return index.File(**{**{name: getattr(file, name) for name in index.File.__slots__}, **fields})


@pytest.mark.parametrize(
    ("told", "look", "why"),
    [
        ({"sha256": "b" * 64}, Look(), "with another hash, bbbbbbbbbbbb, than aaaaaaaaaaaa"),
        ({"size": 1001}, Look(), "with 1001 bytes, not 1000"),
        ({}, Look(size=999), "with 999 bytes, not 1000"),
        ({"upload_time": "2026-06-02T08:00:00.123Z"}, Look(), "as uploaded at 2026-06-02T08:00:00Z, not 2026-06-01T08"),
        ({}, Look(size=1000, modified=NOON + 3600), "which is newer than what was locked here"),
    ],
)
def test_another_file_under_the_same_name_is_noticed(told, look, why):
    """A search would mix the builds of two files, with a verdict that is right for neither."""
    assert why in served.difference(LOCKED, _file(**told), look, since=NOON)


@pytest.mark.parametrize(
    ("told", "look"),
    [
        ({"sha256": "a" * 64, "size": 7, "upload_time": "2026-06-09T08:00:00Z"}, Look(modified=NOON + 3600)),
        ({"size": 1000, "upload_time": "2026-06-01T08:00:00.5Z"}, Look(size=1000, modified=NOON - 3600)),
        ({}, Look(modified=NOON + 60)),
        ({}, Look()),
    ],
    ids=["the hash settles it", "all alike", "two clocks", "nothing told"],
)
def test_the_same_file_is_not_taken_for_another(told, look):
    """Every build would be resolved and downloaded again, and no search could go on."""
    assert served.difference(LOCKED, _file(**told), look, since=NOON) == ""


def test_a_file_on_disk_is_looked_at_too(tmp_path):
    """A wheelhouse has neither hashes nor sizes on a page."""
    path = tmp_path / NAME
    path.write_bytes(b"x" * 12)
    os.utime(path, (NOON, NOON))
    lock = Lock(
        name="x",
        request="",
        pythons=("3.11",),
        exclude_newer="",
        distributions=(Distribution(name="torch", version="2", source=Source.TORCH, wheels=(LOCKED,)),),
    )

    assert fetch.look(_file(url=tmp_path.as_uri()).url) == Look(size=12, modified=NOON)
    assert "with 12 bytes, not 1000" in served.replaced(lock, [_file(url=tmp_path.as_uri())], since=NOON)
    assert served.replaced(lock, [], since=NOON) == ""
