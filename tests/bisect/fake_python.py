"""A fake interpreter: an executable that does what the benchmark does, with files instead of training."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from envs.place import HOST, HostPlace

GOLDEN = Path(__file__).parent.parent / "golden"
_SCRIPT = """#!{python}
import json, os, signal, sys, time
here = os.getcwd()
argv = sys.argv[1:]
def option(name, default=None):
    return argv[argv.index(name) + 1] if name in argv else default
threads = int(option("--threads", "3"))
def progress(**entry):
    if option("--progress"):
        with open(option("--progress"), "a") as file:
            file.write(json.dumps(entry) + "\\n")
def result(content):
    with open(option("--output"), "w") as file:
        file.write(content)
golden = {golden!r}
{body}
"""


@dataclass(frozen=True)
class FakeEnvironment:
    """What a run needs to know of a built environment."""

    name: str
    digest: str
    path: Path
    python: Path
    place: HostPlace = HOST
    environment: tuple[tuple[str, str], ...] = (("FROM_DEFINITION", "yes"),)


def fake_environment(root: Path, body: str, *, kind: str = "train") -> FakeEnvironment:
    """An environment whose interpreter runs `body`; see the names defined in `_SCRIPT`."""
    python = root / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    golden = (GOLDEN / f"{kind}.json").read_text()
    python.write_text(_SCRIPT.format(python=sys.executable, golden=golden, body=body))
    python.chmod(0o755)
    (root / "env" / "pylock.toml").write_text('lock-version = "1.0"\n')
    return FakeEnvironment(name="fake", digest="0123abcd", path=root / "env", python=python)


CLEAN = """
content = json.loads(golden)
for thread in content["threads"]:
    thread.update(exceptions=[], completed=True, steps=10)
content["threads"] = [t for t in content["threads"] if t["role"] == "target"] + [
    t for t in content["threads"] if t["role"] == "drafter"][:threads]
progress(t=0.0, phase="training", thread="drafter-0", step=10, steps=10)
result(json.dumps(content))
"""
RACE_WITH_SEVERAL_THREADS = """
if threads == 1:
    exec(CLEAN)
else:
    progress(t=0.0, phase="training", thread="drafter-1", step=2, steps=10)
    result(golden)
    sys.exit(1)
"""
RACE = f"CLEAN = {json.dumps(CLEAN)}\n{RACE_WITH_SEVERAL_THREADS}"
