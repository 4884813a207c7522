"""One run: the child is scrubbed and staged, the evidence is whole, and silence, not slowness, ends it."""

import json
from bisect.log_limit import GIB, too_long
from bisect.probe import RunKind, RunRequest, load_record, run_once
from bisect.redaction import without_secrets
from bisect.workload import code_digest
from dataclasses import replace
from pathlib import Path

import pytest

from envs.machine import process_name

from .fake_python import CLEAN, fake_environment
from .killing import wait_until

pytestmark = pytest.mark.subprocess


def run(tmp_path, body, **request):
    built = fake_environment(tmp_path, body)
    return run_once(built, RunRequest(**{"kind": RunKind.TRAIN, **request}), tmp_path / "run")


def test_the_run_directory_holds_the_evidence(tmp_path):
    """A result nobody can trace to its argv, code, lock and variables proves nothing."""
    record = run(tmp_path, CLEAN + "\nprint('hello')", arguments=("--steps", "10"))

    assert record.returncode == 0
    assert record.log() == "hello\n"
    kept = json.loads((tmp_path / "run" / "record.json").read_text())
    assert kept["argv"][1:3] == ["-m", "dflash"]
    assert kept["argv"][-2:] == ["--steps", "10"]
    assert kept["digest"] == "0123abcd"
    assert kept["ended"]["returncode"] == 0
    assert kept["code_sha256"] == code_digest(tmp_path / "run" / "staged" / "dflash")
    assert (tmp_path / "run" / "lock.toml").exists()
    assert json.loads(record.result_path.read_text())["kind"] == "train"


def test_the_child_sees_the_workload_alone(tmp_path):
    """A child that sees the repository root would import our `bisect` in place of the standard library's."""
    record = run(tmp_path, "print(here, sorted(os.listdir()), os.environ.get('PYTHONSAFEPATH'))")

    assert record.log().strip() == f"{tmp_path}/run/staged ['dflash'] None"


def test_the_child_is_scrubbed_and_secrets_are_not_kept(tmp_path, monkeypatch):
    """A leaked PYTHONPATH changes what runs; a token in a run directory ends up in an issue."""
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    extra = (("MY_API_KEY", "hunter3"), ("PROXY", "http://me:hunter4@host/"))
    body = "print(os.environ.get('PYTHONPATH'), os.environ['MY_API_KEY'], os.environ['FROM_DEFINITION'])"
    record = run(tmp_path, body, environment=extra)

    assert record.log().strip() == "None hunter3 yes"
    text = (tmp_path / "run" / "record.json").read_text()
    assert "hunter" not in text
    assert {"PYTHONPATH", "HF_TOKEN"} <= set(json.loads(text)["scrubbed"])


def test_a_secret_of_the_scheduler_does_not_reach_the_child(tmp_path, monkeypatch):
    """A token that lets anybody submit jobs would be in a child's hands, and in the run directory."""
    monkeypatch.setenv("SLURM_JWT", "hunter2")
    monkeypatch.setenv("SLURM_JOB_ID", "77")

    record = run(tmp_path, "print(os.environ.get('SLURM_JWT'), os.environ['SLURM_JOB_ID'])")

    assert record.log().strip() == "None 77"
    assert "hunter" not in (tmp_path / "run" / "record.json").read_text()


def test_what_leads_a_session_of_its_own_ends_with_the_run(tmp_path):
    """A server that a command left behind would slow the next run down, and write into a judged one."""
    body = "import subprocess; print(subprocess.Popen(['sleep', '3600'], start_new_session=True).pid)"
    pid = int(run(tmp_path, body).log())

    wait_until(lambda: not process_name(pid))


def test_a_variable_that_a_side_does_not_have_does_not_come_from_the_surroundings(tmp_path, monkeypatch):
    """The threads of this shell would be those of both sides, and the number of threads acquitted."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    body = "print(os.environ.get('OMP_NUM_THREADS'))"

    assert run(tmp_path / "kept", body).log().strip() == "7"
    assert run(tmp_path / "unset", body, unset=("OMP_NUM_THREADS",)).log().strip() == "None"


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "MY_PASSWORD",
        "API_KEY",
        "WANDB_API_KEY",
        "AUTHORIZATION",
        "SLURM_JWT",
        "SSH_KEYS",
        "DB_PASS",
    ],
)
def test_secret_names_are_recognised(name):
    """Any of these in a journal is a leak."""
    assert without_secrets({name: "x"}) == {name: "(kept out)"}


@pytest.mark.parametrize(
    "name",
    [
        "KEYBOARD_LAYOUT",
        "OMP_NUM_THREADS",
        "TORCHINDUCTOR_CACHE_DIR",
        "SLURM_JOB_ID",
        "PASSES",
        "TOKENIZERS_PARALLELISM",
    ],
)
def test_other_names_are_kept(name):
    """Evidence that hides harmless variables cannot be reproduced."""
    assert without_secrets({name: "x"}) == {name: "x"}


def test_a_child_that_gives_signs_of_life_is_not_ended(tmp_path):
    """A slow run must not be called a hang: the deadline counts from the last heartbeat."""
    body = "for i in range(6): progress(phase='training', step=i); time.sleep(0.3)"
    record = run(tmp_path, body, timeout_s=0.9)

    assert (record.returncode, record.timed_out) == (0, False)
    assert record.last_progress["step"] == 5


def test_a_silent_child_is_ended_and_its_last_step_is_known(tmp_path):
    """A hang must end, and say where it hung."""
    body = "progress(phase='training', thread='drafter-1', step=3); time.sleep(60)"
    record = run(tmp_path, body, timeout_s=0.6)

    assert record.timed_out
    assert record.seconds < 10
    assert record.last_progress["step"] == 3


FLOOD = """
sys.stdout.write("RuntimeError: the failure\\n")
while True:
    sys.stdout.write("warning, once more\\n" * 5000)
"""


def test_a_run_that_never_stops_printing_is_ended_with_its_log_whole(tmp_path):
    """One warning in a loop would fill the disk and take the whole search down with it."""
    body = f"print('the beginning')\n{FLOOD}"
    record = run_once(
        fake_environment(tmp_path, body), RunRequest(kind=RunKind.TRAIN), tmp_path / "run", log_bytes=1 << 20
    )

    assert record.cut == "its log passed 1 MiB"
    assert not record.timed_out
    assert load_record(tmp_path / "run") == replace(record, seconds=round(record.seconds, 3))
    log = record.log()
    assert log.startswith("the beginning\nRuntimeError: the failure\n")
    assert len(log) > 1 << 20


@pytest.mark.parametrize(
    ("log", "free", "told"),
    [
        (0, 0, ""),
        (GIB, 90 * GIB, ""),
        (GIB + 1, 90 * GIB, "its log passed 1 GiB"),
        (300 << 20, 200 << 20, "its log, 300 MiB, was filling the disk, which has 200 MiB left"),
        (100 << 20, 200 << 20, ""),
        (900 << 20, 2 * GIB, ""),
    ],
)
def test_a_log_ends_its_run_for_its_size_or_for_a_disk_that_it_fills(log, free, told):
    """A short log on a full disk would be blamed, or a long one be let on until nothing can be written any more."""
    assert too_long(log, free) == told


def test_a_crash_leaves_its_last_step(tmp_path):
    """A segfault writes no result; the step it died in must not be lost, even behind a torn line."""
    body = "progress(step=7)\nopen(option('--progress'), 'a').write('{\"st')\nos.kill(os.getpid(), signal.SIGSEGV)"
    record = run(tmp_path, body)

    assert record.returncode == -11
    assert record.last_progress["step"] == 7
    assert not record.result_path.exists()


def test_progress_is_passed_on(tmp_path):
    """Without it a person watches nothing for a minute."""
    seen = []
    built = fake_environment(tmp_path, CLEAN)
    run_once(built, RunRequest(kind=RunKind.TRAIN), tmp_path / "run", on_progress=seen.append)

    assert [entry["step"] for entry in seen] == [10]


def test_a_command_runs_where_it_was_given_with_the_environment_first_on_path(tmp_path):
    """`--probe command -- python repro.py` must mean the environment's python and the person's files."""
    built = fake_environment(tmp_path, "print('from the environment', argv, here)")
    request = RunRequest(kind=RunKind.COMMAND, command=("python", "repro.py"), cwd=str(tmp_path), timeout_s=30)
    record = run_once(built, request, tmp_path / "run")

    assert record.log() == f"from the environment ['repro.py'] {tmp_path}\n"


def test_a_warm_cache_is_copied_and_the_original_stays(tmp_path):
    """A warm start that writes into the kept cache would warm every later run too."""
    kept = tmp_path / "kept"
    (kept / "inductor").mkdir(parents=True)
    (kept / "inductor" / "graph").write_text("compiled")
    body = "d = os.environ['TORCHINDUCTOR_CACHE_DIR']\nprint(os.listdir(d))\nopen(d + '/more', 'w').close()"
    record = run(tmp_path, body, cache=kept)

    assert record.log() == "['graph']\n"
    assert [path.name for path in (kept / "inductor").iterdir()] == ["graph"]


def test_a_used_directory_is_refused(tmp_path):
    """Two runs in one directory mix their evidence."""
    run(tmp_path, CLEAN)

    with pytest.raises(FileExistsError):
        run_once(fake_environment(tmp_path / "b", CLEAN), RunRequest(kind=RunKind.TRAIN), tmp_path / "run")


def test_the_digest_changes_with_the_code(tmp_path):
    """All candidates of a search must have run the same workload; the digest is how one knows."""
    folder = Path(tmp_path)
    (folder / "a.py").write_text("1")
    before = code_digest(folder)
    (folder / "a.py").write_text("2")

    assert code_digest(folder) != before
