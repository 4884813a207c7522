"""The commands that a search in containers prints: pasted on the host, they run in the same seal and end the same."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envs import sandbox
from envs.run_line import Sealed, client_of, run_line

from . import stubs
from .conftest import ROOT

pytestmark = [pytest.mark.container, pytest.mark.uv]

TAG = f"cp311-cp311-manylinux_2_17_{platform.machine()}"
COMMAND = "import os, sys, torch; print(torch.__version__, sys.prefix, os.getuid()); sys.exit(torch.answer)"
NO_NETWORK = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"


def pasted(line, **variables):
    """A line in a shell that knows nothing of the search; the project's own Python is `python`, as its README says."""
    plain = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"], **variables}
    return subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=plain, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def client(engine):
    """The words that begin a command line of the engine's client."""
    words = client_of(engine.name, engine.address)
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


def test_the_line_asks_for_the_seal_of_the_run(engine, client, small_image, tmp_path):
    """A repetition that may reach the network, or has more memory, answers another question."""
    box = sandbox.Sandbox(
        image=small_image,
        argv=("python3", "-c", "print('a b')"),
        cwd=str(tmp_path),
        environment={"A": "b c", "PATH": "/usr/bin"},
        mounts=(sandbox.Mount(path=str(tmp_path)), sandbox.Mount(path="/etc/hosts", read_only=False)),
        user="7:8",
        limits=sandbox.Limits(memory_bytes=2**27, shm_bytes=2**20, num_processes=99, num_files=77, num_tasks=55),
    )
    line = run_line(Sealed(client=client, box=box))
    words = ["create" if word == "run" else word for word in line if word != "--rm"]
    made = [
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip(),
        engine._client.create_container_from_config(sandbox.create_body(box))["Id"],
    ]
    try:
        by_line, by_tool = (engine._client.inspect_container(each) for each in made)
    finally:
        for each in made:
            engine._client.remove_container(each)

    asked = sandbox.create_body(box)["HostConfig"]
    assert {key: by_line["HostConfig"][key] or None for key in asked} == {
        key: by_tool["HostConfig"][key] or None for key in asked
    }
    told = ("Env", "WorkingDir", "User")
    assert {key: by_line["Config"][key] for key in told} == {key: by_tool["Config"][key] for key in told}
    assert [by_line["Path"], *by_line["Args"]] == [*box.argv]


def test_what_a_search_in_containers_prints_can_be_pasted(client, tool, environ, small_image, tmp_path):
    """The printed argv named a Python that only the image has, and the printed search ran on the host."""
    days = [f"2.13.0.dev2026060{day}" for day in (1, 2)]
    for number, day in enumerate(days):
        code = stubs.TORCH.format(version=f"{day}+cu130", cuda="13.0", git="0" * 40) + f"answer = {number}\n"
        stubs.torch(tmp_path / "wheels", f"{day}+cu130", tag=TAG, code=code)
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ncuda = "cu130"\nchannel = "nightly"\npython = "3.11"\n')
    out = os.path.relpath(tmp_path / "out", ROOT)  # as `runs/...`, which a search without --out takes
    here = {**environ, "ENVS_BACKEND": "container", "ENVS_BASE_IMAGE": small_image}
    told = tool(
        here, "bisect", "torch-nightlies", "--env", str(bare), "--offline", "--wheelhouse", str(tmp_path / "wheels"),
        "--store", str(tmp_path / "store"), "--good", "oldest", "--bad", "newest", "--out", out,
        "--json", "--confidence", "0.8", "--probe", "command", "--", "python", "-c", COMMAND,
    )  # fmt: skip

    verdict = json.loads(told.stdout)
    again, _, *runs = verdict["reproduce"]
    lines = [line for line in runs if not line.startswith("#")]
    assert (verdict["last_good"], verdict["first_bad"], len(lines)) == (*days, 2)
    for line, day, code in zip(lines, days, (0, 1), strict=True):
        run = Path(shlex.split(line)[1]).parent
        repeated = pasted(line)
        assert (repeated.returncode, repeated.stdout) == (code, (run / "log.txt").read_text())
        assert f"{day}+cu130 {tmp_path / 'store'}" in repeated.stdout
    script = (run / "again.sh").read_text()
    assert "Network is unreachable" in pasted(script.replace(shlex.quote(COMMAND), shlex.quote(NO_NETWORK))).stderr
    searched = pasted(again.replace(" -- ", f" --out {tmp_path / 'again'} --json -- ", 1))
    assert json.loads(searched.stdout)["first_bad"] == verdict["first_bad"], searched.stderr
    assert json.loads((tmp_path / "again" / "run-0001" / "record.json").read_text())["image"]
