"""Says what this container really is held to, as JSON into the file named by the first argument.

An engine may ignore what it was asked for without a word. Standard library only, any Python 3.
"""

import json
import os
import resource
import sys
from pathlib import Path

_LIMITS = {
    "memory_bytes": ("memory/memory.limit_in_bytes", "memory.max"),
    "num_processes": ("pids/pids.max", "pids.max"),
}


def main(output: str) -> None:
    """Write the facts; a limit that cannot be read is null, one that is not set is 0."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    shm = os.statvfs("/dev/shm")  # noqa: S108
    facts = {
        "pid": os.getpid(),
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo"),
        "root_read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "no_new_privileges": status.get("NoNewPrivs", "").strip() == "1",
        "capabilities": int(status["CapEff"], 16),
        "core_bytes": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "shm_bytes": shm.f_blocks * shm.f_frsize,
        "gpus": len([*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]),
    }
    facts.update({name: _limit(files) for name, files in _LIMITS.items()})
    Path(output).write_text(json.dumps(facts), encoding="utf-8")


def _limit(files: "tuple[str, ...]") -> "int | None":
    for name in files:
        try:
            text = Path("/sys/fs/cgroup", name).read_text().strip()
        except OSError:
            continue
        return 0 if text == "max" else int(text)
    return None


if __name__ == "__main__":
    main(sys.argv[1])
