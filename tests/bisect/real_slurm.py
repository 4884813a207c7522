"""A real single-node Slurm from the system's packages, with two job slots, for the length of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmctldPort={port}
SlurmdPort={node_port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why a real Slurm cannot be started here; '' when it can."""
    absent = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "starting slurmd needs root"


@contextmanager
def slurm(root: Path):
    """Start munged, slurmctld and slurmd below `root`; yields the variables that point clients at them."""
    root.mkdir(mode=0o755)
    (root / "state").mkdir()
    (root / "spool").mkdir()
    host = socket.gethostname().split(".")[0]
    ports = _free_ports(2)
    text = CONF.format(root=root, host=host, port=ports[0], node_port=ports[1], cpus=os.cpu_count())
    (root / "slurm.conf").write_text(text)
    key = root / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    variables = {"SLURM_CONF": str(root / "slurm.conf"), "MUNGE_SOCKET": str(root / "munge.socket")}
    environ = {**os.environ, **variables}
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log"}
    munge = [f"--{name}={root}/{file}" for name, file in {**files, "seed-file": "munged.seed"}.items()]
    daemons = [
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", host],
    ]
    started = []
    try:
        with (root / "daemons.log").open("wb") as log:
            for argv in daemons:
                started.append(subprocess.Popen(argv, env=environ, stdout=log, stderr=log, cwd=root))
                time.sleep(1.0)
        _wait_until_idle(environ, root)
        yield variables
    finally:
        subprocess.run(["scancel", "--me"], env=environ, check=False, capture_output=True)
        for child in reversed(started):
            child.terminate()
        for child in started:
            child.wait(timeout=30)


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for item in held:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in held]
    finally:
        for item in held:
            item.close()


def _wait_until_idle(environ, root):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        asked = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"], env=environ, check=False, capture_output=True, text=True
        )
        if asked.stdout.strip() in ("idle", "mixed"):
            return
        time.sleep(0.5)
    raise AssertionError("Slurm did not come up: " + (root / "slurmctld.log").read_text()[-2000:])
