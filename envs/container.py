"""The door to a container engine: docker's, or podman's socket as far as it speaks docker's API.

Decides nothing: `sandbox` says what to ask for and what the answers mean. Never falls back to running on the host:
no engine is an error. Whatever this tool creates carries its label, so that `remove_leftovers` finds it after a kill.
"""

from __future__ import annotations

import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import requests

from . import sandbox
from .errors import CannotBuildError, CannotRunError, ToolError
from .process import Completed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
    """One connection to an engine."""

    def __init__(self, client: docker.APIClient) -> None:
        self._client = client

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def name(self) -> str:
        """Engine and version for the evidence, `docker 28.2.2`; podman says so itself."""
        version = _asked(self._client.version)
        components = [str(item.get("Name", "")) for item in version.get("Components") or []]
        kind = "podman" if any("podman" in item.lower() for item in components) else "docker"
        return f"{kind} {version.get('Version', '?')}"

    def image(self, reference: str) -> dict[str, Any]:
        """Id and registry digests of an image that the engine holds; CannotBuildError when it does not."""
        found: dict[str, Any] = _asked(lambda: self._client.inspect_image(reference))  # type: ignore[no-untyped-call]
        return {
            "id": found["Id"],
            "digests": sorted(found.get("RepoDigests") or []),
        }

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
        _asked(lambda: self._client.pull(reference))

    def import_image(self, archive: Path, reference: str) -> str:
        """Make an image of a root file system archive; its id."""
        repository, _, tag = reference.rpartition(":")
        changes = [f"LABEL {sandbox.LABEL}=base"]
        with archive.open("rb") as data:
            _asked(lambda: self._client.import_image_from_data(data, repository=repository, tag=tag, changes=changes))
        return str(self.image(reference)["id"])

    def tag(self, reference: str, name: str) -> None:
        """Give an image another name."""
        repository, _, tag = name.rpartition(":")
        _asked(lambda: self._client.tag(reference, repository, tag))

    def load_image(self, archive: Path) -> str:
        """Load an image saved as a tarball; the id of the first image in it."""
        client = docker.DockerClient(base_url=self._client.base_url)
        try:
            with archive.open("rb") as data:
                return str(_asked(lambda: client.images.load(data))[0].id)
        finally:
            client.close()

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
        created = _asked(lambda: self._client.create_container_from_config(body))  # type: ignore[no-untyped-call]
        identifier = str(created["Id"])
        started = time.monotonic()
        try:
            _asked(lambda: self._client.start(identifier))
            timed_out = self._wait(identifier, started, timeout_s, watch)
            if timed_out:
                self._stop(identifier, warn_signal, grace_s)
            end = sandbox.ending(self._state(identifier))
        finally:
            self._remove(identifier)
        seconds = time.monotonic() - started
        completed = Completed(returncode=end.returncode, timed_out=timed_out, seconds=seconds)
        return Finished(completed=completed, out_of_memory=end.out_of_memory, note=end.note)

    def remove_leftovers(self, owner: str) -> tuple[str, ...]:
        """Remove every container of ours that belongs to `owner`, running or not; their ids."""
        label = f"{sandbox.LABEL}={owner}"
        found = _asked(lambda: self._client.containers(all=True, filters={"label": label}))
        for item in found:
            self._remove(item["Id"])
        return tuple(str(item["Id"])[:12] for item in found)

    def _state(self, identifier: str) -> Mapping[str, Any]:
        state: Mapping[str, Any] = _asked(lambda: self._client.inspect_container(identifier))["State"]
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
        try:
            self._client.remove_container(identifier, v=True, force=True)
        except (docker.errors.APIError, requests.RequestException):
            return


def connect(environ: Mapping[str, str]) -> Engine:
    """Connect to the engine that DOCKER_HOST names, else the default socket; CannotRunError when none answers."""
    address = environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        _knock(address)
        client = docker.APIClient(base_url=address, version="auto", timeout=600)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise CannotRunError(
            f"no container engine answers at {address}",
            hint="start docker or podman's socket, set DOCKER_HOST, or leave out --backend container",
            outcome="harness_error(engine)",
        ) from error
    return Engine(client)


def _knock(address: str) -> None:
    """Try the socket itself first: after a refused connection the SDK leaves its socket open."""
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.connect(address.removeprefix("unix://"))


def _asked(question: Callable[[], Any]) -> Any:  # noqa: ANN401  (the engine answers JSON)
    """Ask the engine; its refusals and its disappearance as errors of ours."""
    try:
        return question()
    except (docker.errors.APIError, requests.RequestException) as error:
        raise _error(error) from error


def _error(error: Exception) -> ToolError:
    if isinstance(error, docker.errors.APIError):
        refusal = sandbox.refusal(str(error.explanation or error))
        kind = CannotRunError if refusal.machine else CannotBuildError
        return kind(f"the container engine refused: {refusal.message}", hint=refusal.hint, outcome=refusal.outcome)
    return CannotRunError(
        f"the container engine went away: {type(error).__name__}", hint=_GONE_HINT, outcome="harness_error(engine_gone)"
    )
