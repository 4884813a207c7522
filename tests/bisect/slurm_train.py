"""The runs of a `train` as tiny real jobs: the real directory, loop and launcher; only the environment is a stub.

`python -m tests.bisect.slurm_train DIR` starts them or goes on with them, and may be killed at any instant. Each run
waits for the file `gate` in DIR's parent.
"""

from __future__ import annotations

import io
import json
import sys
from bisect.commands.train import Request, train
from bisect.files import only_one, write_atomically
from bisect.run_directory import ANSWER, take_up
from bisect.slurm.launcher import SlurmLauncher
from bisect.slurm.profile import Profile
from pathlib import Path

from envs import settings, spec

from .fake_python import CLEAN, FakeEnvironment, fake_environment

REPEAT = 2


def main(directory):
    """Start or go on, and write what ran."""
    root = directory.parent
    going_on = take_up(directory, command="train", argv=["cu130"], identity="train cu130 --repeat 2")
    sys.stdout.write(f"going on: {going_on}\n")
    sys.stdout.flush()
    with only_one(directory):
        answer = train(
            Request(
                definition=spec.load("cu130"), settings=settings.Settings(store=root / "store"), arguments=(),
                threads=None, repeat=REPEAT, control=True, cache="cold", token_budget=1e9, timeout_s=120.0,
                directory=directory, reproduce="", on="slurm", workers=REPEAT + 1,
            ),
            _environment(root),
            SlurmLauncher(profile=Profile(grace_s=2), folder=directory / "slurm", say=lambda _line: None),
            stderr=io.StringIO(),
        )  # fmt: skip
    write_atomically(directory / ANSWER, json.dumps([run.directory for run in answer.runs]))


def _environment(root):
    python = root / "env" / "bin" / "python"
    if python.exists():
        return FakeEnvironment(name="fake", digest="0123abcd", path=root / "env", python=python)
    gate = f"while not os.path.exists({str(root / 'gate')!r}):\n    time.sleep(0.1)\n"
    return fake_environment(root, gate + CLEAN)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
