"""A package index of tiny wheels named torch, served over loopback: what real uv installs in a test."""

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
    """One published file: `code` is what `import torch` runs beside the version."""

    version: str
    commit: str
    tags: str = OURS
    code: str = ""
    broken: bool = False


def write_wheel(folder: Path, stub: Stub) -> Path:
    """A valid wheel, or with `broken` one whose contents do not match their checksums."""
    path = folder / f"torch-{stub.version}-{stub.tags}.whl"
    cuda = stub.version.partition("+cu")[2]
    info = f"torch-{stub.version}.dist-info"
    python, abi, platform = stub.tags.split("-")
    files = {
        "torch/__init__.py": f"from . import version\n__version__ = {stub.version!r}\n{stub.code}\n",
        "torch/version.py": f"cuda = {f'{cuda[:-1]}.{cuda[-1]}'!r}\ngit_version = {stub.commit!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {stub.version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {python}-{abi}-{platform}\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    if stub.broken:
        data = path.read_bytes()
        path.write_bytes(data.replace(b"from . import version", b"from . import vermin.."[:21]))
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        """Keep the test's output clean."""


@contextmanager
def served(folder: Path, stubs: list[Stub]):
    """Write the wheels and the page of torch, and serve them; yields the root URL."""
    page = folder / "torch"
    page.mkdir(parents=True)
    names = [write_wheel(page, stub).name for stub in stubs]
    links = "".join(f'<a href="{name.replace("+", "%2B")}">{name}</a><br>\n' for name in names)
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
