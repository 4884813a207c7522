"""A package index of tiny wheels, most of them named torch, served over loopback: what real uv installs in a test."""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OURS = "cp311-cp311-manylinux_2_28_x86_64"


@dataclass(frozen=True, kw_only=True)
class Stub:
    """One published file: `code` is what importing it runs beside the version."""

    version: str
    commit: str = ""
    tags: str = OURS
    code: str = ""
    broken: bool = False
    requires: str = ""
    name: str = "torch"


def write_wheel(folder: Path, stub: Stub) -> Path:
    """A valid wheel, or with `broken` one whose contents do not match their checksums."""
    path = folder / f"{stub.name}-{stub.version}-{stub.tags}.whl"
    cuda = stub.version.partition("+cu")[2] or "130"
    info = f"{stub.name}-{stub.version}.dist-info"
    python, abi, platform = stub.tags.split("-")
    needs = f"Requires-Dist: {stub.requires}\n" if stub.requires else ""
    files = {
        f"{stub.name}/__init__.py": f"from . import version\n__version__ = {stub.version!r}\n{stub.code}\n",
        f"{stub.name}/version.py": f"cuda = {f'{cuda[:-1]}.{cuda[-1]}'!r}\ngit_version = {stub.commit!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {stub.name}\nVersion: {stub.version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {python}-{abi}-{platform}\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    if stub.broken:
        path.write_bytes(path.read_bytes().replace(b"from . import version", b"from . import vermin."))
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        """Keep the test's output clean."""

    def end_headers(self):
        """Forbid to keep a page: uv would take it, minutes later, for that of another test with the same port."""
        if self.path.endswith("/"):
            self.send_header("Cache-Control", "no-store")
        super().end_headers()


@contextmanager
def served(folder: Path, stubs: list[Stub]):
    """Write the wheels and one page a project, and serve them; yields the root URL."""
    for name in sorted({stub.name for stub in stubs}):
        page = folder / name
        page.mkdir(parents=True)
        wheels = [write_wheel(page, stub) for stub in stubs if stub.name == name]
        links = "".join(_link(path) for path in wheels)
        (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _link(path: Path) -> str:
    """An entry of the page; nightlies of torch carry no hash of the wheel, everything else does."""
    hashed = "" if path.name.startswith("torch-") else f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"
    return f'<a href="{path.name.replace("+", "%2B")}{hashed}">{path.name}</a><br>\n'
