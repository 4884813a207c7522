"""An environment that somebody changed after it was built: no command passes what runs in it off as the build."""

import json
import shlex
import subprocess
import sys
from bisect.changed import Changed
from bisect.cures import Cure, price_all
from bisect.cures_report import CureAnswer, as_json, exit_code, recommended, verdict
from bisect.hazards_report import ProbedEnvironment
from bisect.hazards_report import render as hazards_table
from bisect.launch import Recipe, Task
from bisect.probe import RunKind, RunRequest
from bisect.slurm.job import REFUSED, run_tasks
from pathlib import Path

import pytest

from envs import spec
from envs.settings import Settings

from .stub_index import Stub, served
from .test_cures import FIXED, result, run
from .test_hazards_command import result as hazards_result
from .test_matrix_end_to_end import CODE, GOLDEN
from .test_search_end_to_end import ROOT

CHANGED = Changed(environment="cu130", what="changed torch/a.py", rebuild="python -m envs prune abc --store s")


@pytest.fixture
def bisect(tmp_path):
    """Runs a command of this tool in an environment of a stub torch that trains well; gives what it said."""
    bare = tmp_path / "bare.toml"
    bare.write_text('summary = "torch alone"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n')
    code = CODE.format(golden=GOLDEN, races=False, rate=10.0)
    with served(tmp_path / "index", [Stub(version="2.11.0+cu130", commit="c", code=code)]) as url:
        places = ("--index", url, "--default-index", url, "--store", str(tmp_path / "store"))

        def run(*words, out="", env=str(bare)):
            given = (*([env] if env else ()), *places, *(("--out", str(tmp_path / out)) if out else ()))
            argv = [sys.executable, "-m", "bisect", *words, *(given if out else ())]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

        run.url = url
        yield run


def edit(store):
    """Change a file of the one environment of a store, as somebody who tries a fix in place does."""
    (module,) = (store / "environments").glob("*/venv/lib/python3*/site-packages/torch/version.py")
    module.write_text(module.read_text() + "answer = 42\n")
    return module


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_training_in_a_changed_environment_is_never_ok(tmp_path, bisect):
    """`ok` about somebody's edit would be acted on as the answer about the build: a week of a cluster."""
    store = tmp_path / "store"
    built = bisect("train", "--no-control", out="1")
    as_built = bisect("train", "--no-control", "--dry-run", out="0")
    module = edit(store)
    planned = bisect("train", "--no-control", "--dry-run", out="0")
    for harmless in ("__pycache__/gone.cpython-311.pyc", "kernel_cache/k.so", "tuned.json"):
        (module.parent / harmless).parent.mkdir(exist_ok=True)
        (module.parent / harmless).write_text("left by a run")

    changed = bisect("train", "--no-control", out="2")

    assert (built.returncode, built.stdout[:3]) == (0, "ok:")
    assert "was changed" not in built.stderr + as_built.stdout
    assert "warning: it was changed after it was built, so this would be no answer about it: " in planned.stdout
    (line,) = (line for line in changed.stderr.splitlines() if "was changed" in line)
    assert line.startswith("warning: bare was changed after it was built: changed lib/python3.")
    command = line.partition("`python -m ")[2].removesuffix("`").split()
    assert subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, check=False).returncode == 3
    assert changed.returncode == 6
    sentence = changed.stdout.splitlines()[0]
    assert sentence.startswith("inconsistent_env: bare was changed after it was built (changed lib/python3.")
    assert "torch/version.py; see" in sentence
    assert "so this is no answer about it; as it is now: ok: " in sentence
    answer = json.loads((tmp_path / "2" / "answer.json").read_text())
    assert (answer["verdict"], answer["sentence"], answer["exit_code"]) == ("inconsistent_env", sentence, 6)

    remedy = next(line for line in changed.stdout.splitlines() if line.startswith("remove it: "))
    subprocess.run([sys.executable, *shlex.split(remedy.partition(":")[2])[1:]], cwd=ROOT, check=True)
    anew, old = bisect("train", "--no-control", out="3"), bisect("train", "--no-control", out="2")

    assert (anew.returncode, anew.stdout[:3]) == (0, "ok:")
    assert (old.returncode, old.stdout) == (6, changed.stdout)


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_runs_kept_of_a_changed_environment_stay_what_they_are(tmp_path, bisect):
    """Built anew between a kill and the resumption, the environment would lend its name to runs of the old one."""
    bisect("train", "--no-control", out="1")
    edit(tmp_path / "store")
    bisect("train", "--no-control", out="2")
    answer = tmp_path / "2" / "answer.json"
    remedy = json.loads(answer.read_text())["changed"]["rebuild"]
    answer.unlink()
    subprocess.run([sys.executable, *shlex.split(remedy)[1:]], cwd=ROOT, check=True)

    resumed = bisect("resume", str(tmp_path / "2"))

    assert "going on with the runs" in resumed.stderr
    assert resumed.returncode == 6
    assert resumed.stdout.startswith("inconsistent_env: bare was changed after it was built")


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_hazards_and_workarounds_of_a_changed_environment_say_so_in_their_verdict(tmp_path, bisect):
    """A warning on stderr is not in the report that is read the next morning."""
    bisect("hazards", out="1")
    edit(tmp_path / "store")

    probed = bisect("hazards", "--json", out="2")
    priced = bisect("workarounds", "--only", "none", "--repeat", "1", "--no-control", out="3")

    reports = [bisect("report", str(tmp_path / number)).returncode for number in "23"]
    assert [probed.returncode, priced.returncode, *reports] == [6] * 4
    (environment,) = json.loads(probed.stdout)["environments"]
    for told in (environment["sentence"], priced.stdout, (tmp_path / "3" / "report.txt").read_text()):
        assert told.startswith("inconsistent_env: bare was changed after it was built (changed lib/python3.")
    assert (tmp_path / "2" / "report.txt").read_text().startswith(environment["sentence"])


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_node_that_builds_for_itself_runs_nothing_in_a_changed_environment(tmp_path, bisect):
    """Whoever mends a node in place would answer for the build on every node."""
    bisect("train", "--no-control", out="1")
    edit(tmp_path / "store")
    here = Settings(store=tmp_path / "store", index=bisect.url, default_index=bisect.url)
    recipe = Recipe(definition=spec.load(str(tmp_path / "bare.toml")), settings=here)
    ask = RunRequest(kind=RunKind.TRAIN, timeout_s=60.0)

    run_tasks([Task(built=recipe, request=ask, directory=tmp_path / "run-0001")])

    told = json.loads((tmp_path / "run-0001" / REFUSED).read_text())
    assert told["outcome"] == "inconsistent_env"
    assert "torch/version.py" in told["message"]
    assert not (tmp_path / "run-0001" / "log.txt").exists()


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_a_matrix_shows_no_cell_of_a_changed_environment_as_the_build(tmp_path, bisect):
    """`ok 0/6` would be the upgrade of a cluster on the strength of somebody's edit."""
    axes = tmp_path / "axes.toml"
    axes.write_text(
        f'builds = ["{tmp_path / "bare.toml"}"]\nworkarounds = ["none"]\nprofile = "smoke"\nhazards = false\n'
        "[rules]\nallowed_rate = 0.8\nmax_runs = 4\n"
    )

    def matrix(*words):
        done = bisect("matrix", "--axes", str(axes), "--node", "n1", "--budget", "1 runs", *words, out="m", env="")
        return done, json.loads((tmp_path / "m" / "matrix.json").read_text())["cells"][0]

    _, built = matrix()
    edit(tmp_path / "store")
    planned = bisect("matrix", "--axes", str(axes), "--dry-run", out="n", env="").stdout
    done, changed = matrix("--fail-on", "inconsistent-env")
    remedy = changed["unblock"].partition("`")[2].partition("`")[0]
    subprocess.run([sys.executable, *shlex.split(remedy)[1:]], cwd=ROOT, check=True)
    _, anew = matrix()

    assert (built["state"], built["failures"]) == ("ok", 0)
    assert "cannot run: inconsistent env: bare was changed after it was built" in planned
    assert remedy in planned
    assert (changed["state"], changed["count"], changed["runs"]) == ("inconsistent env", "-", [])
    assert "changed lib/python3." in changed["detail"]
    assert "; 1 run from before" in changed["detail"]
    assert done.returncode == 7
    assert "ok" not in done.stdout.split()
    assert (anew["state"], anew["runs"][:1]) == ("ok", built["runs"])


def test_no_workaround_is_recommended_of_a_changed_environment():
    """A script reads `recommended` and never the sentence."""
    prices = price_all((Cure(name="none", runs=(run(found=result()),)),), FIXED)
    fields = {"environment": "cu130", "torch": "2.11.0", "prices": prices, "control": "clean", "amplified": False}
    plain = CureAnswer(**fields, directory="d", reproduce="r")
    changed = CureAnswer(**fields, directory="d", reproduce="r", changed=CHANGED)

    assert recommended(plain).name == as_json(plain)["recommended"] == "none"
    assert recommended(changed) is as_json(changed)["recommended"] is None
    assert verdict(changed).startswith("inconsistent_env: cu130 was changed after it was built (changed torch/a.py), ")
    assert verdict(changed).endswith(verdict(plain))
    assert [exit_code(plain), exit_code(changed)] == [0, 6]


def test_the_column_of_a_changed_environment_says_so():
    """A table is pasted without the sentence above it."""
    found = ProbedEnvironment(
        name="cu130", result=hazards_result(mask_flag="safe"), trouble="", directory=str(Path("d")), changed=CHANGED
    )

    table = hazards_table([found], reproduce="r")

    assert "cu130 (changed)" in table
    assert CHANGED.remedy in table
