"""A file that an index replaced under the same name is noticed, by whatever can be known without a download."""

import hashlib
import http.server
import os
import threading
from dataclasses import replace

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


def _lock(wheel):
    torch = Distribution(name="torch", version="2.13.0.dev20260601", source=Source.TORCH, wheels=(wheel,))
    return Lock(name="x", request="", pythons=("3.11",), exclude_newer="", distributions=(torch,))


class _OnlyLengths(http.server.BaseHTTPRequestHandler):
    """Sends a file of twelve bytes and says nothing of it but its length."""

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(b"x" * 12)

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "12")
        self.end_headers()

    def log_message(self, *_args):
        pass


@pytest.fixture
def undated():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OnlyLengths)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/torch/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.socket
def test_a_small_file_of_the_same_length_is_read(undated):
    """A server that tells neither hash nor date hides a replaced file of the same length."""
    same = replace(LOCKED, size=12, sha256=hashlib.sha256(b"x" * 12).hexdigest())

    assert "with another hash" in served.replaced(_lock(replace(LOCKED, size=12)), [_file(url=undated)], since=NOON)
    assert served.replaced(_lock(same), [_file(url=undated)], since=NOON) == ""
    assert served.replaced(_lock(same), [_file(url="http://127.0.0.1:9/")], since=NOON) == ""


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

    assert fetch.look(_file(url=tmp_path.as_uri()).url) == Look(size=12, modified=NOON)
    assert "with 12 bytes, not 1000" in served.replaced(_lock(LOCKED), [_file(url=tmp_path.as_uri())], since=NOON)
    assert served.replaced(_lock(LOCKED), [], since=NOON) == ""


def test_one_of_two_files_under_a_name_may_be_another():
    """Two indexes publish one name with other bytes, and a search over both would say that it was replaced."""
    other, same = _file(sha256="b" * 64), _file(sha256="a" * 64)

    assert served.replaced(_lock(LOCKED), [other, same], since=NOON) == ""
    assert "with another hash" in served.replaced(_lock(LOCKED), [other, other], since=NOON)
