"""A real Slurm from the system's packages for the length of a test: one controller and three nodes on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmctldPort={port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmdParameters=config_overrides
JobCompType=jobcomp/filetxt
JobCompLoc={root}/jobs.log
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=2
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_ports}] CPUs=2 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


NODES = ("n1", "n2", "n3")


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
    for folder in ("state", *(f"spool-{node}" for node in NODES)):
        (root / folder).mkdir()
    host = socket.gethostname().split(".")[0]
    port, *node_ports = _free_ports(1 + len(NODES))
    text = CONF.format(root=root, host=host, port=port, node_ports=",".join(map(str, node_ports)))
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
        *(["slurmd", "-D", "-N", node] for node in NODES),
    ]
    started = []
    try:
        with (root / "daemons.log").open("wb") as log:
            for argv in daemons:
                started.append(subprocess.Popen(argv, env=environ, stdout=log, stderr=log, cwd=root))
                if argv[0] == "munged":
                    _wait_for(root / "munge.socket")
        _wait_until_idle(environ, root)
        yield variables
    finally:
        subprocess.run(["scancel", "--me"], env=environ, check=False, capture_output=True)
        for child in reversed(started):
            child.terminate()
        for child in started:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """A slurmd waits for its jobs, also for ones that hang."""
    try:
        child.wait(timeout=15)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


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
        if asked.stdout.split() == ["idle"]:
            return
        time.sleep(0.5)
    raise AssertionError("Slurm did not come up: " + (root / "slurmctld.log").read_text()[-2000:])


def jobs_of(environ) -> list[dict[str, str]]:
    """Every job that ended, in Slurm's own words (its accounting file, not ours), once nothing is under way."""
    deadline = time.monotonic() + 120
    while _asked(environ, "squeue", "--noheader"):
        assert time.monotonic() < deadline, "jobs go on"
        time.sleep(0.2)
    path = Path(environ["SLURM_CONF"]).with_name("jobs.log")
    lines = path.read_text().splitlines() if path.exists() else []
    return [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]


def _asked(environ, *argv: str) -> str:
    return subprocess.run(argv, env=environ, check=True, capture_output=True, text=True).stdout.strip()
