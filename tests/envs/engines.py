"""Real engines for the tests: started by them, killed by them, and nothing left of them."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

from envs import container, sandbox
from envs.errors import CannotRunError


class Daemon:
    """A program that serves an engine's API on a socket of its own; `address` is the value for DOCKER_HOST."""

    def __init__(self, home, argv, environ=None):
        self.home = home
        self.address = f"unix://{home}/sock"
        self._argv = argv
        self._environ = environ
        self._child = None

    def start(self):
        """Whether it answers in the end. On a busy machine dockerd gives its containerd up after 15 s: begun anew."""
        for _ in range(4):
            with (self.home / "log").open("ab") as log:
                self._child = subprocess.Popen(self._argv, cwd=self.home, stdout=log, stderr=log, env=self._environ)
            eventually(lambda: self._child.poll() is not None or answers(self.address), seconds=60)
            if self._child.poll() is None:
                return answers(self.address)
        return False

    def kill(self):
        """As the kernel's out-of-memory killer would."""
        self._child.kill()
        self._child.wait()

    def stop(self):
        """Ask it to end; a stopped daemon leaves its network namespace mounted, which would stay for ever."""
        self._child.terminate()
        self._child.wait(timeout=90)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for path in sorted((path for path in mounted if path.startswith(f"{self.home}/")), reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False)

    def why(self):
        """Its last line."""
        lines = (self.home / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "no output"


def docker(home):
    """A dockerd with all of its data in `home`."""
    argv = ["dockerd", "--host", f"unix://{home}/sock", "--pidfile", home / "pid"]
    return Daemon(home, [*argv, "--data-root", home / "data", "--exec-root", home / "exec"])


def podman(home, environ):
    """Podman's docker-compatible service with all of its data in `home`."""
    lines = ["[storage]", 'driver = "overlay"', f'graphroot = "{home}/graph"', f'runroot = "{home}/run"']
    (home / "storage.conf").write_text("\n".join(lines) + "\n")
    argv = ["podman", "--cgroup-manager=cgroupfs", "--runtime", "runc", "system", "service", "--time=0"]
    own = {**environ, "CONTAINERS_STORAGE_CONF": str(home / "storage.conf")}
    return Daemon(home, [*argv, f"unix://{home}/sock"], own)


def answers(address):
    try:
        container.connect({"DOCKER_HOST": address}).close()
    except CannotRunError:
        return False
    return True


def eventually(question, *, seconds=120):
    """The first true answer, or the last one when the time is up."""
    deadline = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer


@contextlib.contextmanager
def registry(home):
    """Debian's docker-registry on loopback; yields HOST:PORT, or None where it is not installed."""
    program = shutil.which("docker-registry")
    if program is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = home / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {home}/registry\nhttp:\n  addr: 127.0.0.1:{port}\n"
    )
    child = subprocess.Popen([program, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: _listens(port), seconds=60)
        yield f"127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait()


def _listens(port):
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


def with_files(client, base, name, wheels, directory, *, extra=(), changes=()):
    """An image `name`: `base` with wheels unpacked into `directory`, and `extra` (path, text) beside them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as contents:
                for member in contents.namelist():
                    _add(archive, f"{directory}/{member}", contents.read(member))
        for path, text in extra:
            _add(archive, path, text.encode())
    made = client.create_container(base, ["true"])["Id"]
    try:
        client.put_archive(made, "/", packed.getvalue())
        repository, _, tag = name.rpartition(":")
        return client.commit(made, repository=repository, tag=tag, changes=list(changes))["Id"]
    finally:
        client.remove_container(made)


def _add(archive, path, data):
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size = len(data)
    member.mode = 0o644
    archive.addfile(member, io.BytesIO(data))


# Run inside the base image: a root file system with a Python and a shell, a tenth of its size.
SMALL = """
import glob, os, subprocess, sys, tarfile
programs = [f"/usr/bin/{name}" for name in ("dash", "sh", "sleep", "true", "cat", "python3", "python3.11")]
needed_by_uv = [path for name in ("gcc_s", "rt", "pthread", "dl") for path in
                glob.glob(f"/usr/lib/*-linux-gnu/lib{name}.so.*")]
linked = [*programs, *needed_by_uv, *glob.glob("/usr/lib/python3.11/lib-dynload/*.so")]
told = subprocess.run(["ldd", *linked], capture_output=True, text=True).stdout.split()
libraries = {os.path.realpath(word) for word in told if word.startswith("/") and not word.endswith(":")}
sonames = {word for word in told if word.startswith("/") and not word.endswith(":")}
unwanted = ("/test", "/idlelib", "/tkinter", "/lib2to3", "/config-3.11-", "/__pycache__", ".a")
with tarfile.open(sys.argv[1], "w") as archive:
    for name in ("bin", "lib", "lib64", "etc/passwd", "etc/group", "tmp"):
        archive.add(f"/{name}", name, recursive=name == "etc")
    for path in sorted({*programs, *needed_by_uv, *libraries, *(os.path.realpath(os.path.dirname(name)) + "/" +
                        os.path.basename(name) for name in sonames)}):
        archive.add(path, path.lstrip("/"))
    keep = lambda item: None if any(part in item.name for part in unwanted) else item
    for tree in ("usr/lib/python3.11", "usr/lib/python3", "usr/include/python3.11/Python.h"):
        archive.add(f"/{tree}", tree, filter=keep)
"""


def small_rootfs(engine, base, directory):
    """Write it to a file in `directory`, which is returned."""
    made = directory / "small.tar"
    box = sandbox.Sandbox(
        image=base,
        argv=("python3", "-c", SMALL, str(made)),
        cwd="/",
        environment={"PATH": sandbox.SYSTEM_PATH},
        mounts=(sandbox.Mount(path=str(directory), read_only=False),),
        output=str(directory / "log.txt"),
        owner="test",
    )
    finished = engine.run(box, timeout_s=300)
    assert finished.completed.returncode == 0, (directory / "log.txt").read_text()
    return made
