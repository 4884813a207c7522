"""The door to a container engine: docker's, or podman's socket as far as it speaks docker's API.

Decides nothing: `sandbox` says what to ask for and what the answers mean. Never falls back to running on the host:
no engine is an error. Whatever this tool creates carries its label, so that `remove_leftovers` finds it after a kill.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import docker
import docker.constants
import docker.errors
import requests

from . import sandbox
from .errors import CannotBuildError, CannotRunError, ToolError
from .process import Completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_POLL_S = 0.2
_GONE_HINT = "is it still running? look at its log; what was finished is kept, give the same command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A container that ended, like `process.Completed`, with what only the engine knows."""

    completed: Completed
    out_of_memory: bool = False
    note: str = ""


class Engine:
    """One connection to an engine; `name` is engine and version for the evidence, `docker 28.2.2`."""

    def __init__(self, client: docker.APIClient, *, address: str, name: str) -> None:
        self._client = client
        self.address = address
        self.name = name

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def image(self, reference: str) -> sandbox.Image:
        """An image that the engine holds; CannotBuildError when it does not."""
        return sandbox.image_of(self._asked(lambda: self._client.inspect_image(reference)))  # type: ignore[no-untyped-call]

    def has_image(self, reference: str) -> bool:
        """Whether the engine holds the image."""
        try:
            self._client.inspect_image(reference)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            return False
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _error(error) from error
        return True

    def pull(self, reference: str) -> None:
        """Fetch an image from its registry."""
        self._followed(lambda: self._client.pull(reference))

    def rootless(self) -> bool:
        """Whether its containers' root is an ordinary user here: then the user's own files are root's inside."""
        options = self._asked(self._client.info).get("SecurityOptions") or []
        return any("rootless" in str(option) for option in options)

    def import_image(self, archive: Path, reference: str, *, owner: str) -> str:
        """Make an image of a root file system archive; its id. One request: the image has its name or is not there."""
        changes = [f"LABEL {sandbox.LABEL}=base {sandbox.STORE_LABEL}={owner}"]
        with archive.open("rb") as data:
            self._followed(lambda: self._client.import_image_from_data(data, repository=reference, changes=changes))
        return self.image(reference).id

    def tag(self, reference: str, name: str) -> None:
        """Give an image another name."""
        repository, _, tag = name.rpartition(":")
        self._asked(lambda: self._client.tag(reference, repository, tag))

    def load_image(self, archive: Path) -> sandbox.Image:
        """Load an image that was saved as an archive; CannotBuildError for a file that holds none, or several."""
        with archive.open("rb") as data:
            told = self._followed(lambda: self._client.load_image(data))  # type: ignore[no-untyped-call]
        names = sandbox.loaded_names("".join(str(item.get("stream", "")) for item in told))
        if len(names) != 1:
            raise CannotBuildError(
                f"{archive} holds {len(names)} images: {', '.join(names) or 'none'}",
                hint="save one image with `docker save IMAGE -o FILE`, or give its name",
            )
        return self.image(names[0])

    def run(
        self,
        box: sandbox.Sandbox,
        *,
        timeout_s: float | None = None,
        watch: Callable[[float], bool] | None = None,
        warn_signal: signal.Signals = signal.SIGTERM,
        grace_s: float = 5.0,
    ) -> Finished:
        """Run a container to its end and remove it; see `process.run` for the arguments."""
        body = sandbox.create_body(box)
        created = self._asked(lambda: self._client.create_container_from_config(body))  # type: ignore[no-untyped-call]
        identifier = str(created["Id"])
        started = time.monotonic()
        try:
            self._asked(lambda: self._client.start(identifier))
            timed_out = self._wait(identifier, started, timeout_s, watch)
            if timed_out:
                self._stop(identifier, warn_signal, grace_s)
            end = sandbox.ending(self._state(identifier), box.limits)
        finally:
            self._remove(identifier)
        seconds = time.monotonic() - started
        completed = Completed(returncode=end.returncode, timed_out=timed_out, seconds=seconds)
        return Finished(completed=completed, out_of_memory=end.out_of_memory, note=end.note)

    def remove_leftovers(self, owner: str, *, alive: Callable[[str], bool]) -> tuple[str, ...]:
        """Remove the containers of `owner`, running or not, whose driver is not `alive`; their ids."""
        label = f"{sandbox.LABEL}={owner}"
        found = self._asked(lambda: self._client.containers(all=True, filters={"label": label}))
        gone = [item["Id"] for item in found if not alive((item.get("Labels") or {}).get(sandbox.DRIVER_LABEL, ""))]
        for identifier in gone:
            self._remove(identifier)
        return tuple(str(identifier)[:12] for identifier in gone)

    def remove_old_images(self, owner: str, *, used: frozenset[str]) -> tuple[str, ...]:
        """Remove the base images of `owner` that lost their name and that no environment lives in; their ids."""
        filters = {"dangling": True, "label": f"{sandbox.STORE_LABEL}={owner}"}
        found = self._asked(lambda: self._client.images(filters=filters))
        gone = [str(item["Id"]) for item in found if item["Id"] not in used]
        for identifier in gone:
            self._asked(partial(self._client.remove_image, identifier))
        return tuple(gone)

    def _state(self, identifier: str) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self._asked(lambda: self._client.inspect_container(identifier))["State"]
        return state

    def _running(self, identifier: str) -> bool:
        return self._state(identifier).get("Status") in ("created", "running", "restarting", "removing")

    def _wait(
        self, identifier: str, started: float, timeout_s: float | None, watch: Callable[[float], bool] | None
    ) -> bool:
        """Wait for the end; True when its time is up or `watch` says so."""
        while self._running(identifier):
            elapsed = time.monotonic() - started
            if (timeout_s is not None and elapsed >= timeout_s) or (watch is not None and watch(elapsed)):
                return True
            time.sleep(_POLL_S)
        return False

    def _stop(self, identifier: str, warn_signal: signal.Signals, grace_s: float) -> None:
        """Signal the program (init forwards it), wait a little, then kill."""
        deadline = time.monotonic() + grace_s
        try:
            self._signal(identifier, warn_signal)
            while self._running(identifier) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if self._running(identifier):
                self._client.kill(identifier)
                self._client.wait(identifier, timeout=30)
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):  # 409: it ended by itself meanwhile
                raise _error(error) from error
        except requests.RequestException as error:
            raise _error(error) from error

    def _signal(self, identifier: str, warn_signal: signal.Signals) -> None:
        """Signal the program. The init forwards what the engine sends it, but not SIGABRT: that is sent from inside."""
        if warn_signal is not signal.SIGABRT:
            self._client.kill(identifier, signal=int(warn_signal))
            return
        started = self._client.exec_create(identifier, ["sh", "-c", sandbox.ABORT_PROGRAM])
        self._client.exec_start(started["Id"], detach=True)

    def _remove(self, identifier: str) -> None:
        """Remove a container; one that is gone, or an engine that is gone, leaves nothing to do here."""
        with contextlib.suppress(docker.errors.APIError, requests.RequestException, OSError):
            _knock(self.address)
            self._client.remove_container(identifier, v=True, force=True)

    def _asked(self, question: Callable[[], Any]) -> Any:  # noqa: ANN401  (the engine answers JSON)
        """Ask the engine; its refusals and its disappearance as errors of ours."""
        try:
            _knock(self.address)
            return question()
        except (docker.errors.APIError, requests.RequestException, OSError) as error:
            raise _error(error) from error

    def _followed(self, question: Callable[[], Any]) -> list[Mapping[str, Any]]:
        """Ask for something whose progress the engine tells line by line; an error may come with any of them."""
        answer = self._asked(lambda: _whole(question()))
        told: list[Mapping[str, Any]] = [json.loads(item) if isinstance(item, str) else item for item in answer]
        for item in told:
            if item.get("error"):
                raise _refused(str(item["error"]))
        return told


def connect(environ: Mapping[str, str]) -> Engine:
    """Connect to the engine that DOCKER_HOST names, else the default socket; CannotRunError when none answers."""
    address = environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        _knock(address)
        headers = _pinged(address)
        client = docker.APIClient(base_url=address, version=headers["Api-Version"], timeout=600)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise CannotRunError(
            f"no container engine answers at {address}",
            hint="start docker or podman's socket, set DOCKER_HOST, or leave out --backend container",
            outcome="harness_error(engine)",
        ) from error
    return Engine(client, address=address, name=sandbox.engine_name(headers))


def _pinged(address: str) -> Mapping[str, str]:
    """The headers of a ping: they name engine and API. `/version`, which the SDK would ask, takes seconds at times."""
    client = docker.APIClient(base_url=address, version=docker.constants.MINIMUM_DOCKER_API_VERSION, timeout=600)
    try:
        headers: Mapping[str, str] = client.get(f"{client.base_url}/_ping").headers
        if "Api-Version" not in headers:
            raise docker.errors.DockerException("what answers is no container engine")
        return headers
    finally:
        client.close()


def _knock(address: str) -> None:
    """Try the socket itself first: after a refused connection the SDK leaves its socket open."""
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.connect(address.removeprefix("unix://"))


def _whole(answer: str | Iterable[Any]) -> list[Any]:
    """The lines of an answer, which the SDK gives as one text, as decoded lines, or as several texts."""
    parts = [answer] if isinstance(answer, str) else list(answer)
    lines = [part.splitlines() if isinstance(part, str) else [part] for part in parts]
    return [line for group in lines for line in group if line]


def _refused(message: str) -> ToolError:
    refusal = sandbox.refusal(message)
    kind = CannotRunError if refusal.machine else CannotBuildError
    return kind(f"the container engine refused: {refusal.message}", hint=refusal.hint, outcome=refusal.outcome)


def _error(error: Exception) -> ToolError:
    if isinstance(error, docker.errors.APIError):
        return _refused(str(error.explanation or error))
    return CannotRunError(
        f"the container engine went away: {type(error).__name__}", hint=_GONE_HINT, outcome="harness_error(engine_gone)"
    )
