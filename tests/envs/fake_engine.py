"""A container engine that answers on a unix socket what a test tells it to, and remembers what it was asked.

The real docker SDK talks to it. It runs nothing: a container "runs" for a given number of looks at it and then has
the end state it was given.
"""

from __future__ import annotations

import json
import re
import socketserver
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

from envs import sandbox

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class FakeEngine:
    """What it holds and what it will answer.

    Attributes:
        images: references it knows, with their ids.
        ends: `State` of a container once it has ended.
        looks: how often a container is seen running before it ends; None: until it is killed.
        refuse: error message by API path suffix (`start`, `create`).
        vanish_after: requests after which every connection is dropped; None: never.
        unnamed: images without a name, with the store they belong to.
        security: what it says of its own security.
        pulled: the lines of a pull.
        fetched: the queries of the pulls it was asked for.
        done: called with the number of each request once it was carried out, before it is answered.
    """

    images: dict[str, str] = field(default_factory=lambda: {"base:test": "sha256:" + "b" * 64})
    ends: dict = field(default_factory=lambda: {"Status": "exited", "ExitCode": 0, "OOMKilled": False, "Error": ""})
    looks: int | None = 1
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    vanish_after: int | None = None
    podman: bool = False
    unnamed: dict[str, str] = field(default_factory=dict)
    security: list[str] = field(default_factory=list)
    pulled: list[dict] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    created: list[dict] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)
    execs: list[list[str]] = field(default_factory=list)
    done: Callable[[int], None] = lambda _: None
    seen: dict[str, int] = field(default_factory=dict)
    num_requests: int = 0

    def answer(self, method: str, path: str, query: str, body: dict):  # noqa: PLR0911  (a table of routes)
        """(status, JSON or None) of one request; the path is without the API version."""
        for suffix, (status, message) in self.refuse.items():
            if path.endswith(suffix):
                return status, {"message": message}
        match method, path:
            case _, "/_ping":
                return 200, None
            case "POST", "/containers/create":
                self.created.append(body)
                return 201, {"Id": f"{len(self.created):064d}", "Warnings": []}
            case "GET", "/containers/json":
                return 200, [item for item in self.containers() if self._labelled(query, item["Labels"])]
            case "GET", "/info":
                return 200, {"SecurityOptions": self.security}
            case "GET", "/images/json":
                labels = {name: {sandbox.STORE_LABEL: store} for name, store in self.unnamed.items()}
                return 200, [{"Id": name} for name in labels if self._labelled(query, labels[name])]
            case "POST", "/images/create":
                self.fetched.append(query)
                return 200, self.pulled or [{"status": "sha256:" + "b" * 64}]
            case "DELETE", _ if path.startswith("/images/"):
                del self.unnamed[path.removeprefix("/images/")]
                return 200, []
        return self._of_container(method, path, query, body)

    def containers(self):
        """Those that are there."""
        named = {f"{index:064d}": body["Labels"] for index, body in enumerate(self.created, start=1)}
        return [{"Id": name, "Labels": labels} for name, labels in named.items() if name not in self.removed]

    def _labelled(self, query, labels):
        wanted = json.loads(parse_qs(query)["filters"][0]).get("label", [])
        return all(labels.get(name) == value for name, _, value in (text.partition("=") for text in wanted))

    def _of_container(self, method: str, path: str, query: str, body: dict):
        container = re.match(r"/containers/(\d+)(/\w+)?\Z", path)
        if container is None:
            return self._of_image(path)
        identifier, verb = container[1], container[2] or ""
        match method, verb:
            case "GET", "/json":
                return 200, {"State": self._state(identifier)}
            case "POST", "/kill":
                self.signals.append(query)
                self.seen[identifier] = -1
                return 204, None
            case "POST", "/exec":
                self.execs.append(body["Cmd"])
                self.seen[identifier] = -1
                return 201, {"Id": "e"}
            case "DELETE", "":
                self.removed.append(identifier)
                return 204, None
            case _:
                return (200, {"StatusCode": 0}) if verb == "/wait" else (204, None)

    def _of_image(self, path: str):
        image = re.match(r"/images/(.+)/json\Z", path)
        if path.startswith("/exec/"):
            return 200, {}
        if image and image[1] in self.images:
            return 200, {"Id": self.images[image[1]], "RepoDigests": ["base@sha256:" + "d" * 64], "Config": {"Env": []}}
        return 404, {"message": f"No such image: {image[1] if image else path}"}

    def _state(self, identifier: str) -> dict:
        looks = self.seen.get(identifier, 0)
        if looks == -1 or (self.looks is not None and looks >= self.looks):
            return self.ends
        self.seen[identifier] = looks + 1
        return {"Status": "running", "ExitCode": 0}


@contextmanager
def serving(engine: FakeEngine, directory):
    """Serve it; yields the value for DOCKER_HOST."""
    path = directory / "engine.sock"
    server = _Server(str(path), _handler(engine))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A dropped connection is what a test asked for."""


def _lines(answer):
    """A list of progress lines one by one, anything else as one document."""
    if answer is None:
        return b""
    if isinstance(answer, list) and answer and not answer[0].keys() & {"Id"}:
        return b"".join(json.dumps(line).encode() + b"\r\n" for line in answer)
    return json.dumps(answer).encode()


def _handler(engine: FakeEngine):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self):
            engine.num_requests += 1
            if engine.vanish_after is not None and engine.num_requests > engine.vanish_after:
                self.close_connection = True
                return
            path, _, query = re.sub(r"\A/v1\.\d+", "", self.path).partition("?")
            body = self._body()
            status, answer = engine.answer(self.command, unquote(path), query, body)
            engine.done(engine.num_requests)
            data = _lines(answer)
            self.send_response(status)
            self.send_header("Api-Version", "1.41")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _body(self):
            """The JSON of a request; an archive is read and forgotten."""
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    self.rfile.read(size + 2)
                self.rfile.readline()
                return {}
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return json.loads(data) if self.headers.get("Content-Type") == "application/json" and data else {}

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815  (names of the base class)

        def version_string(self):
            return "Libpod/1.2.3 (linux)" if engine.podman else "Docker/1.2.3 (linux)"

        def address_string(self):
            return "unix"

        def log_message(self, *args):
            pass

    return Handler
