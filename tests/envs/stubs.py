"""Tiny wheels and a simple index on loopback, for the real uv."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import http.server
import platform
import sys
import threading
import zipfile
from pathlib import Path
from urllib.parse import quote, unquote

from envs import settings, spec

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_CP = f"cp{PYTHON.replace('.', '')}"
TAG = f"{_CP}-{_CP}-manylinux_2_17_{platform.machine()}"
TORCH = """\
__version__ = {version!r}


class version:
    cuda = {cuda!r}
    git_version = {git!r}
"""


def wheel(directory, name, version, *, tag="py3-none-any", files=None, requires=()):
    """Write a wheel and return its path; `files` are texts by path, one module by default."""
    directory.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    contents = dict({f"{module}/__init__.py": f"__version__ = {version!r}\n"} if files is None else files)
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: stub\nRoot-Is-Purelib: true\nTag: {tag}\n"
    rows = [f"{path},{record_hash(text)},{len(text.encode())}\n" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    path = directory / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), text)
    return path


def record_hash(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def torch(directory, version, *, cuda="13.0", says=None, git="0" * 40, tag=TAG, requires=(), code=None):
    """Write a torch that says a version, the one in its file name unless told otherwise."""
    text = code if code is not None else TORCH.format(version=says or version, cuda=cuda, git=git)
    return wheel(directory, "torch", version, tag=tag, files={"torch/__init__.py": text}, requires=requires)


def definition(version="2.12.0.dev20260215", **changes):
    nightly = "dev" in version
    values = {
        "name": "stub",
        "summary": "a stub",
        "torch": version,
        "cuda": "cu130",
        "channel": spec.Channel.NIGHTLY if nightly else spec.Channel.RELEASE,
        "pythons": (PYTHON,),
        "requirements": ("leaf",),
        **changes,
    }
    return spec.Definition(**values)


def places(tmp_path, **changes):
    return settings.Settings(store=tmp_path / "store", **changes)


class Index:
    """A simple index of `root/PROJECT/*.whl`; `requests` are the paths that were asked for.

    With `hashes` the links carry the hash of the wheel, as release pages do; without, as nightly pages do not.
    With `metadata` the METADATA of a wheel lies beside it.
    """

    def __init__(self, root, *, hashes=True, metadata=False):
        self.root = Path(root)
        self.hashes = hashes
        self.metadata = metadata
        self.requests = []
        self.url = ""

    def project(self, name):
        return self.root / name

    def page(self, name):
        links = []
        for path in sorted(self.project(name).glob("*.whl")):
            fragment = f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}" if self.hashes else ""
            href = quote(path.name).replace("%2B", "%2B")
            beside = ' data-core-metadata="true"' if self.metadata else ""
            links.append(f'<a href="{href}{fragment}"{beside}>{html.escape(path.name)}</a><br>')
        return "<!DOCTYPE html><html><body>\n" + "\n".join(links) + "\n</body></html>\n"


@contextlib.contextmanager
def serving(index):
    """Serve an Index on loopback while the block runs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            index.requests.append(self.path)
            parts = [unquote(part) for part in self.path.split("/") if part]
            if len(parts) == 1 and index.project(parts[0]).is_dir():
                self._answer(index.page(parts[0]).encode(), "text/html")
            elif len(parts) == 2 and parts[1].endswith(".whl.metadata") and index.metadata:
                wheel_path = index.project(parts[0]) / parts[1].removesuffix(".metadata")
                with zipfile.ZipFile(wheel_path) as archive:
                    name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
                    self._answer(archive.read(name), "text/plain")
            elif len(parts) == 2 and (index.project(parts[0]) / parts[1]).is_file():
                self._answer((index.project(parts[0]) / parts[1]).read_bytes(), "application/octet-stream")
            else:
                self.send_error(404)

        do_HEAD = do_GET  # noqa: N815  (the name that http.server calls)

        def _answer(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
