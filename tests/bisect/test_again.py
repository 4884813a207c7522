"""The commands that are printed to be pasted do what they say, and leave the evidence alone."""

import argparse
import json
import shlex
import subprocess
from bisect.again import engine_variables, repeat_run, resume_command, script_again, with_variables
from bisect.commands import hazards, train_options, workarounds
from bisect.probe import RunKind, RunRequest, run_once
from bisect.record_file import record_in
from dataclasses import replace
from pathlib import Path

import pytest

from envs.run_line import Sealed
from envs.sandbox import Mount, Sandbox
from envs.settings import Settings
from envs.spec import Definition

from .fake_python import CLEAN, fake_environment


def pasted(command, **more):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.subprocess
@pytest.mark.parametrize("out", ["runs/out", "absolute"])
@pytest.mark.parametrize("kind", [RunKind.TRAIN, RunKind.HAZARDS])
def test_a_repeated_run_runs_as_printed_and_leaves_its_evidence_alone(tmp_path, monkeypatch, out, kind):
    """It ended in FileNotFoundError, or wrote over the result that the verdict rests on."""
    monkeypatch.chdir(tmp_path)
    body = CLEAN if kind is RunKind.TRAIN else "result(golden)"
    built = fake_environment(tmp_path, body, kind="train" if kind is RunKind.TRAIN else "hazards")
    run = (tmp_path / out if out == "absolute" else Path(out)) / "run-0001"
    run_once(built, RunRequest(kind=kind, arguments=("--threads", "3"), timeout_s=30.0), run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}

    done = pasted(repeat_run(record_in(run), run, cwd=str(tmp_path)), cwd="/")

    assert done.returncode == 0, done.stderr
    assert json.loads((run / "again" / "result.json").read_text())["schema"] == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.subprocess
def test_a_repeated_command_runs_in_the_environment_it_ran_in(tmp_path):
    """`python -c ...` alone would ask the Python of the shell it is pasted into, and answer about another torch."""
    built = fake_environment(tmp_path, "print('the environment of the run', here)")
    request = RunRequest(kind=RunKind.COMMAND, command=("python", "-c", "1 + 1"), cwd=str(tmp_path), timeout_s=30.0)
    run_once(built, request, tmp_path / "run-0001")
    told = repeat_run(record_in(tmp_path / "run-0001"), tmp_path / "run-0001", cwd=str(tmp_path))

    assert pasted(told, cwd="/").stdout == f"the environment of the run {tmp_path}\n"
    assert "the environment was removed" not in told
    built.python.unlink()
    built.python.parent.rmdir()
    gone = repeat_run(record_in(tmp_path / "run-0001"), tmp_path / "run-0001", cwd=str(tmp_path))
    assert gone.endswith("  # the environment was removed: run the search's command again for it")


RUN = Path("/runs/run-0001")


def sealed(run=RUN, **changes):
    values = {
        "image": "sha256:1234",
        "argv": ("/env/bin/python", "-m", "dflash", "--output", f"{run}/result.json"),
        "cwd": f"{run}/staged",
        "environment": {"HOME": f"{run}/home", "TMPDIR": f"{run}/caches/tmp", "MY_TOKEN": "hunter2", "A": "b c"},
        "mounts": (Mount(path="/env"), Mount(path=str(run), read_only=False), Mount(path=f"{run}/staged")),
        "user": "7:8",
    }
    return Sealed(client=("docker", "--host", "unix:///sock"), box=Sandbox(**{**values, **changes}))


def lines_of(script):
    """The commands of a script, each as its words."""
    return [shlex.split(line) for line in script.replace("\\\n", "").splitlines() if not line.startswith("#")]


def test_a_run_in_a_container_is_repeated_by_the_engines_own_client():
    """The argv alone names a Python and paths that only the container has."""
    *before, line = lines_of(script_again(sealed(), RUN, cache=None))

    assert before[-3:] == [
        ["rm", "-rf", f"{RUN}/again"],
        ["mkdir", f"{RUN}/again"],
        ["mkdir", "-p", f"{RUN}/again/home", f"{RUN}/again/caches/tmp"],
    ]
    assert line[:5] == ["exec", "docker", "--host", "unix:///sock", "run"]
    assert line[-6:] == ["sha256:1234", "/env/bin/python", "-m", "dflash", "--output", f"{RUN}/again/result.json"]
    assert f"type=bind,source={RUN}/again,target={RUN}/again" in line
    assert f"type=bind,source={RUN}/staged,target={RUN}/staged,readonly" in line
    assert line[line.index("--workdir") + 1] == f"{RUN}/staged"


def test_a_persons_own_command_is_repeated_word_for_word():
    """`--output` is a word of theirs, and means a file of theirs; a line break is a part of their program."""
    argv = ("python", "-c", "import torch\ntorch.answer", "--output", "x.json")
    line = lines_of(script_again(sealed(argv=argv, cwd="/my project"), RUN, cache=None).replace("torch\n", "torch;"))[
        -1
    ]

    assert line[-5:] == ["python", "-c", "import torch;torch.answer", "--output", "x.json"]
    assert line[line.index("--workdir") + 1] == "/my project"


def test_a_secret_is_supplied_by_the_shell_that_starts_the_script():
    """The run directory, and whatever it is attached to, would hold a token."""
    script = script_again(sealed(), RUN, cache=None)
    line = lines_of(script)[-1]

    assert "hunter2" not in script
    assert line[line.index("MY_TOKEN") - 1] == "--env"


def test_a_warm_run_is_repeated_with_the_caches_it_began_with():
    """A cold repetition of a warm run compiles where the run did not, and is another question."""
    lines = lines_of(script_again(sealed(), RUN, cache=Path("/caches/kept")))

    assert lines[-3] == ["cp", "-r", "/caches/kept", f"{RUN}/again/caches"]


@pytest.mark.subprocess
def test_a_repetition_whose_environment_was_removed_says_so(tmp_path):
    """The engine would say that a bind source is missing, and not what to do."""
    mounts = (Mount(path=str(tmp_path / "env")), Mount(path=str(tmp_path), read_only=False))
    box = sealed(tmp_path, mounts=mounts)
    (tmp_path / "again.sh").write_text(script_again(replace(box, client=("echo",)), tmp_path, cache=None))
    told = repeat_run({"image": "sha256:1234", "argv": ["python"]}, tmp_path, cwd="/")

    gone = pasted(told, cwd="/")
    (tmp_path / "env").mkdir()

    assert gone.stderr == f"{tmp_path / 'env'} was removed: run the search's command again for it\n"
    assert gone.returncode == 1
    assert not (tmp_path / "again").exists()
    assert pasted(told, cwd="/").stdout.startswith("run --rm --init --read-only --network none ")


def test_a_run_in_a_container_that_kept_no_script_is_not_told_as_one_on_the_host(tmp_path):
    """What an older version printed names a Python of the image."""
    told = repeat_run({"image": "sha256:1234", "argv": ["python"]}, tmp_path, cwd="/")

    assert told.startswith("# it ran in a container")


@pytest.mark.parametrize("module", [hazards, train_options, workarounds])
def test_a_repeated_command_builds_from_the_same_and_runs_in_the_same_place(module):
    """Without `--backend container` the command answers for the host, and nobody sees that it does."""
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    words = (
        "cu130 --backend container --base-image b:1 --default-index https://mirror.example/ --index https://a.example"
    )
    given = parser.parse_args(words.split(), argparse.Namespace(rest=()))

    told = shlex.split(module.command_line(given))

    assert parser.parse_args(told[4:], argparse.Namespace(rest=())) == given


@pytest.mark.parametrize(
    ("backend", "image", "kept"),
    [
        ("venv", "", {}),
        ("container", "", {"DOCKER_HOST": "unix:///my sock"}),
        ("venv", "found.tar", {"DOCKER_HOST": "unix:///my sock"}),
    ],
)
def test_the_engine_belongs_to_a_command_that_runs_in_containers(backend, image, kept):
    """Pasted into another shell, the command would find no engine, or another one."""
    chosen = Settings(store=Path("/store"), backend=backend)
    definition = Definition(name="a", summary="", torch="2.11.0", cuda="cu130", image=image)
    found = engine_variables(chosen, definition, environ={"DOCKER_HOST": "unix:///my sock", "HOME": "/root"})

    assert found == kept
    assert with_variables("python", found) == ("DOCKER_HOST='unix:///my sock' python" if kept else "python")


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({}, "python -m bisect resume 'my runs/a'"),
        ({"UV": "/bin/uv"}, "uv run python -m bisect resume 'my runs/a'"),
        ({"NOX_CURRENT_SESSION": "bisect", "UV": "/bin/uv"}, "nox -s bisect -- resume 'my runs/a'"),
    ],
)
def test_what_goes_on_works_where_the_search_was_started(environ, command):
    """`python -m bisect` in the shell of somebody who used uv or nox is the standard library's, and prints nothing."""
    assert resume_command(Path("my runs/a"), environ) == command
