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


@dataclass
class FakeEngine:
    """What it holds and what it will answer.

    Attributes:
        images: references it knows, with their ids.
        ends: `State` of a container once it has ended.
        looks: how often a container is seen running before it ends; None: until it is killed.
        refuse: error message by API path suffix (`start`, `create`).
        vanish_after: requests after which every connection is dropped; None: never.
    """

    images: dict[str, str] = field(default_factory=lambda: {"base:test": "sha256:" + "b" * 64})
    ends: dict = field(default_factory=lambda: {"Status": "exited", "ExitCode": 0, "OOMKilled": False, "Error": ""})
    looks: int | None = 1
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    vanish_after: int | None = None
    podman: bool = False
    created: list[dict] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)
    execs: list[list[str]] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    num_requests: int = 0

    def answer(self, method: str, path: str, query: str, body: dict):
        """(status, JSON or None) of one request; the path is without the API version."""
        for suffix, (status, message) in self.refuse.items():
            if path.endswith(suffix):
                return status, {"message": message}
        match method, path:
            case _, "/version":
                names = [{"Name": "Podman Engine"}] if self.podman else [{"Name": "Engine"}]
                return 200, {"Version": "1.2.3", "ApiVersion": "1.41", "MinAPIVersion": "1.24", "Components": names}
            case "POST", "/containers/create":
                self.created.append(body)
                return 201, {"Id": f"{len(self.created):064d}", "Warnings": []}
            case "GET", "/containers/json":
                return 200, [{"Id": f"{index + 1:064d}"} for index, _ in enumerate(self.created)]
        return self._of_container(method, path, query, body)

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


def _handler(engine: FakeEngine):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self):
            engine.num_requests += 1
            if engine.vanish_after is not None and engine.num_requests > engine.vanish_after:
                self.close_connection = True
                return
            path, _, query = re.sub(r"\A/v1\.\d+", "", self.path).partition("?")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}") if length else {}
            status, answer = engine.answer(self.command, path, query, body)
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815  (names of the base class)

        def address_string(self):
            return "unix"

        def log_message(self, *args):
            pass

    return Handler
