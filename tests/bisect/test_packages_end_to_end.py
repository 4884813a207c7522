"""Package searches through the command line: two lists, real uv, real environments of every mix, a real command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from bisect.packages.differences import Facts, items
from bisect.packages.freeze import Unreproducible
from bisect.packages.pair import level, sizes
from bisect.packages.sides import Side
from pathlib import Path

import pytest
from filelock import FileLock

from envs import spec, uv
from envs.lock import Distribution, Source, Wheel
from envs.progress import UNPACKED
from envs.settings import from_environ

from ..envs import stubs

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]

PAIR = """
import importlib.metadata as m, os, sys
have = {d.metadata["Name"]: d.version for d in m.distributions()}
sys.exit(1 if have.get("p3") == "2.0" and "leftover" in have else 0)
"""
VARIABLE = "import os, sys; sys.exit(1 if os.environ.get('CUBLAS_VERSION') == '12.9' else 0)"
SLOW = f"import time; time.sleep(0.4)\n{PAIR}"
NAMES = [f"p{number}" for number in range(6)]


@pytest.fixture
def index(tmp_path):
    """One index for everything: torch as the default index serves it, and packages in two versions."""
    found = stubs.Index(tmp_path / "index")
    stubs.torch(found.project("torch"), "2.11.0", says="2.11.0+cu130", cuda="13.0")
    for name in NAMES:
        for version in ("1.0", "2.0"):
            stubs.wheel(found.project(name), name, version)
    for name in ("leftover", "gone"):
        stubs.wheel(found.project(name), name, "1.0")
    with stubs.serving(found):
        yield found


@pytest.fixture
def sides(tmp_path):
    """Two freezes: six packages moved, one came, one went, and lines nobody can install here."""
    good = ["torch==2.11.0+cu130", "gone==1.0", *(f"{name}==1.0" for name in NAMES)]
    bad = ["torch==2.11.0+cu130", "leftover==1.0", *(f"{name}==2.0" for name in NAMES)]
    bad += ["-e /home/jo/dflash", "vanished==9.9"]
    for name, lines in (("good", good), ("bad", bad)):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    return tmp_path


def argv(sides, index, *words, program=PAIR, good="good.txt", bad="bad.txt"):
    options = ["--good", str(sides / good), "--bad", str(sides / bad), "--default-index", index.url]
    options += ["--store", str(sides / "store"), "--probe", "command", *words]
    return [sys.executable, "-m", "bisect", "packages", *options, "--", "python", "-c", program]


def run(words, **more):
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, **more)


def test_a_pair_among_eight_differences_is_found_and_confirmed(sides, index):
    """The command of the issue, on lists from a cluster: the two that only fail together, each way confirmed."""
    out = sides / "out"

    done = run(argv(sides, index, "--out", str(out), "--json"))

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["kind"], verdict["verdict"]) == ("packages", "found")
    assert {item["id"] for item in verdict["members"]} == {"p3", "leftover"}
    (alone,) = verdict["forward"]
    assert (set(alone["items"]), alone["bad"]) == ({"p3", "leftover"}, alone["runs"])
    assert [(each["bad"], each["runs"] > 0) for each in verdict["reverse"]] == [(0, True), (0, True)]
    assert len(verdict["differences"]) == 8
    names = {item["name"] for item in verdict["unreproducible"]}
    assert any("dflash" in name for name in names)
    assert any("vanished" in name for name in names)
    (install,) = (line for line in verdict["reproduce"] if "uv pip install" in line)
    assert f"--no-deps --default-index {index.url}" in install
    assert "leftover==1.0" in install
    assert verdict["environments"] <= 12
    built = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    candidates = [entry["candidate"] for entry in built if entry.get("event") == "built"]
    assert len(candidates) == len(set(candidates))
    again = run([sys.executable, "-m", "bisect", "report", str(out)])
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("guilty: leftover + p3 together")


def test_equal_packages_and_another_variable_name_the_variable(sides, index):
    """D22: the culprit is no Python package; `no difference` would be wrong."""
    (sides / "env-good").write_text("PATH=/bin\nCUBLAS_VERSION=12.8\nAWS_SECRET_ACCESS_KEY=hunter2\n")
    (sides / "env-bad").write_text("PATH=/bin\nCUBLAS_VERSION=12.9\nTORCH_HOME=/t\n")
    options = ["--good-env", str(sides / "env-good"), "--bad-env", str(sides / "env-bad"), "--json"]

    done = run(argv(sides, index, *options, "--out", str(sides / "out"), program=VARIABLE, bad="good.txt"))

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert [item["id"] for item in verdict["members"]] == ["variable:CUBLAS_VERSION"]
    assert {item["id"] for item in verdict["differences"]} == {"variable:CUBLAS_VERSION", "variable:TORCH_HOME"}
    assert "hunter2" not in (sides / "out" / "journal.jsonl").read_text()
    assert any("not set here: AWS_SECRET_ACCESS_KEY" in line for line in verdict["warnings"])


def test_an_answer_at_a_lower_confidence_is_an_answer(sides, index):
    """The report, made of the journal, held the runs to 95 %, and called a finished search interrupted."""
    (sides / "env-good").write_text("CUBLAS_VERSION=12.8\n")
    (sides / "env-bad").write_text("CUBLAS_VERSION=12.9\n")
    options = ["--good-env", str(sides / "env-good"), "--bad-env", str(sides / "env-bad"), "--confidence", "0.8"]

    done = run(argv(sides, index, *options, "--out", str(sides / "out"), program=VARIABLE, bad="good.txt"))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("guilty: variable:CUBLAS_VERSION")
    _as_if_in_containers(sides / "out")
    told = json.loads(run([sys.executable, "-m", "bisect", "report", str(sides / "out"), "--json"]).stdout)["reproduce"]
    assert "export CUBLAS_VERSION=12.9" in done.stdout
    assert not [line for line in told if line.startswith(("export", "uv pip"))]  # for a shell, which is not inside
    (script,) = (Path(line.removeprefix("sh ")) for line in told if line.endswith("/again.sh"))
    assert json.loads((script.parent / "record.json").read_text())["variables"]["CUBLAS_VERSION"] == "12.9"


def _as_if_in_containers(out):
    """Its records, as an engine would have them; `tests/envs/test_repeat_real.py` has a real one."""
    for path in out.glob("run-*/record.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "image": "sha256:1234"}))
        (path.parent / "again.sh").touch()


def test_sides_whose_other_variables_differ_are_not_called_the_same(sides, index):
    """What a search does not take of a dump may be the cause: it is told by name, and nothing is acquitted."""
    (sides / "env-good").write_text("OUR_MODE=1\nPWD=/a\nSSH_CONNECTION=x\n")
    (sides / "env-bad").write_text("OUR_MODE=2\nPWD=/b\nHF_ENDPOINT=https://me:hunter2@host/\n")
    options = ["--good-env", str(sides / "env-good"), "--bad-env", str(sides / "env-bad")]

    done = run(argv(sides, index, *options, "--out", str(sides / "out"), bad="good.txt"))

    assert done.returncode == 4, done.stderr
    assert "nothing could be tried; not set here: HF_ENDPOINT, OUR_MODE;" in done.stdout
    assert "hunter2" not in (sides / "out" / "journal.jsonl").read_text()


def test_a_version_check_that_the_dump_switches_off_is_told(sides, index):
    """D05: the crash of two halves of flashinfer would be taken for one of torch."""
    lines = "torch==2.11.0+cu130\nflashinfer-python==0.6.10\nflashinfer-cubin==0.6.8\n"
    (sides / "bad.txt").write_text(lines)
    (sides / "env-bad").write_text("export FLASHINFER_DISABLE_VERSION_CHECK=1\n")
    for name, version in (("flashinfer-python", "0.6.10"), ("flashinfer-cubin", "0.6.8")):
        stubs.wheel(index.project(name), name, version)

    planned = run(argv(sides, index, "--bad-env", str(sides / "env-bad"), "--dry-run"))

    assert "its version check is switched off" in planned.stdout
    assert "variable:FLASHINFER_DISABLE_VERSION_CHECK (absent) -> 1" in planned.stdout


def test_a_variable_of_both_sides_is_set_in_every_run(sides, index):
    """The failure needs it beside the guilty package: left out, the package would be called innocent."""
    for name in ("good", "bad"):
        moved = "p3==1.0" if name == "good" else "p3==2.0"
        (sides / f"{name}.txt").write_text(f"torch==2.11.0+cu130\n{moved}\n")
        (sides / f"env-{name}").write_text("TORCH_MODE=1\nTRITON_CACHE_DIR=/shared\n")
    options = ["--good-env", str(sides / "env-good"), "--bad-env", str(sides / "env-bad"), "--json"]
    program = "import os, sys, p3; sys.exit(p3.__version__ == '2.0' and os.environ.get('TORCH_MODE') == '1')"

    done = run(argv(sides, index, *options, "--out", str(sides / "out"), program=program))

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert [item["id"] for item in verdict["members"]] == ["p3"]
    assert "export TORCH_MODE=1" in verdict["reproduce"]
    kept = json.loads((sides / "out" / "run-0001" / "record.json").read_text())["variables"]
    assert kept["TORCH_MODE"] == "1"
    assert kept["TRITON_CACHE_DIR"] != "/shared"


def test_a_dump_that_can_be_read_only_once_is_read_once(sides, index):
    """`--bad-env <(ssh node env)` would be empty the second time, and its variables would be told of no side."""
    reading, writing = os.pipe()
    os.write(writing, b"CUBLAS_VERSION=12.9\n")
    os.close(writing)

    done = run(argv(sides, index, "--bad-env", f"/dev/fd/{reading}", "--dry-run", bad="good.txt"), pass_fds=[reading])

    os.close(reading)
    assert done.returncode == 0, done.stderr
    assert "variable:CUBLAS_VERSION (absent) -> 12.9" in done.stdout


def test_a_pth_that_only_the_bad_side_has_is_a_candidate(sides, index):
    """Code that runs at every start is in no list of packages; it acts from site-packages, where it was found."""
    (sides / "evil.pth").write_text("import sys; sys.flagged = sitedir\n")
    options = ["--bad-pth", str(sides / "evil.pth"), "--json", "--out", str(sides / "out")]
    program = "import sys; sys.exit('site-packages' in getattr(sys, 'flagged', ''))"

    done = run(argv(sides, index, *options, program=program))

    assert done.returncode == 0, done.stderr
    assert [item["id"] for item in json.loads(done.stdout)["members"]] == ["pth:evil.pth"]


def test_the_ends_that_a_search_builds_for_its_plan_count_for_what_it_keeps(sides, index):
    """Each is 5 GB: with --keep 2 the disk would hold four, and run full without a word."""
    (sides / "good.txt").write_text("torch==2.11.0+cu130\np3==1.0\np4==1.0")
    (sides / "bad.txt").write_text("torch==2.11.0+cu130\np3==2.0\np4==2.0\nleftover==1.0")

    done = run(argv(sides, index, "--out", str(sides / "out"), "--keep", "2", "--json"))

    assert done.returncode == 0, done.stderr
    assert {item["id"] for item in json.loads(done.stdout)["members"]} == {"p3", "leftover"}
    assert len(list((sides / "store" / "environments").iterdir())) == 2
    built = [entry for entry in _entries(sides / "out") if entry.get("event") == "built"]
    assert [entry["seconds"] > 0 for entry in built] == [True] * len(built)
    assert "3 differences, about 6 environments" in done.stderr
    assert len(built) > 3


def test_a_command_that_changes_its_environment_is_no_evidence_here_or_later(sides, index):
    """`pip install` in a test script would poison the store: the guilty package is innocent in every later search."""
    for name, version in (("good", "1.0"), ("bad", "2.0")):
        (sides / f"{name}.txt").write_text(f"torch==2.11.0+cu130\np3=={version}\n")
    poison = "import p3, pathlib, sys; pathlib.Path(p3.__file__).write_text('__version__ = \"1.0\"'); sys.exit(0)"
    clean = "import p3, sys; sys.exit(p3.__version__ == '2.0')"

    first = run(argv(sides, index, "--out", str(sides / "first"), program=poison))
    again = run(argv(sides, index, "--out", str(sides / "first"), program=poison))
    later = run(argv(sides, index, "--out", str(sides / "later"), program=clean))
    mending = re.search(r"`python (-m envs prune .*?)`", later.stderr)[1].split()
    mended = run([sys.executable, *mending])
    found = run(argv(sides, index, "--out", str(sides / "later"), program=clean))

    changed = r"changed its environment: changed lib/python3\S+/p3/__init__.py"
    for done, number in ((first, "0001"), (again, "0002")):
        assert done.returncode == 6
        assert re.search(rf"{changed}.*run-{number}", done.stderr), done.stderr
    assert "anew, for it was changed" in again.stderr
    assert (later.returncode, mended.returncode) == (6, 0), later.stderr + mended.stderr
    assert "was changed after it was built" in later.stderr
    assert (found.returncode, found.stdout[:10]) == (0, "guilty: p3"), found.stderr


def test_a_list_without_what_torch_requires_is_said_to_be_incomplete(sides, index):
    """After two builds of 5 GB `No module named` said nothing of the two lines that somebody forgot to write."""
    stubs.wheel(index.project("lib-of-torch"), "lib-of-torch", "1.0")
    code = "import lib_of_torch\n" + stubs.TORCH.format(version="2.11.0+cu130", cuda="13.0", git="0" * 40)
    stubs.torch(index.project("torch"), "2.11.0", requires=("lib-of-torch",), code=code)
    (sides / "good.txt").write_text("torch==2.11.0+cu130\np3==1.0\nlib_of_torch==1.0")
    (sides / "bad.txt").write_text("torch==2.11.0+cu130\np3==2.0")
    out = sides / "out"

    planned = run(argv(sides, index, "--dry-run"))
    done = run(argv(sides, index, "--out", str(out)))
    report = run([sys.executable, "-m", "bisect", "report", str(out)])

    incomplete = "bad.txt is incomplete, it lacks what its torch requires: lib-of-torch"
    assert report.returncode == 5
    assert incomplete in planned.stdout
    assert "good.txt is incomplete" not in planned.stdout
    assert done.returncode == 5
    assert "No module named 'lib_of_torch'" in done.stderr
    assert "hint: a list is incomplete" in done.stderr
    assert report.stdout.startswith("unfinished: the endpoint bad cannot be built: torch cannot be imported")
    assert f" resume {out}\n" in report.stdout


def test_two_start_files_of_one_name_are_refused(sides, index):
    """The first would be lost, and acquitted without a run."""
    for folder in ("one", "two"):
        (sides / folder).mkdir()
        (sides / folder / "x.pth").write_text(f"import {folder}\n")
    options = [word for folder in ("one", "two") for word in ("--bad-pth", str(sides / folder / "x.pth"))]

    done = run(argv(sides, index, *options, "--dry-run"))

    assert done.returncode == 2
    assert "have the same file name" in done.stderr


def test_innocent_packages_are_said_to_be_innocent(sides, index):
    """It fails on both sides: the packages have nothing to do with it."""
    done = run(argv(sides, index, "--out", str(sides / "out"), program="raise SystemExit(1)"))

    assert done.returncode == 3, done.stderr
    assert "innocent: none of the 8 differences matters" in done.stdout
    assert "it fails without the differences" in done.stdout


def test_a_killed_search_goes_on_and_repeats_nothing(sides, index):
    """A search of hours on a cluster is killed sooner or later."""
    out = sides / "out"
    words = argv(sides, index, "--out", str(out), "--json", program=SLOW)
    child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and _observed(out) < 5:
        time.sleep(0.1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = _observed(out)

    done = run([sys.executable, "-m", "bisect", "resume", str(out), "--json"])

    assert before >= 5
    assert done.returncode == 0, done.stderr
    assert {item["id"] for item in json.loads(done.stdout)["members"]} == {"p3", "leftover"}
    runs = [entry["run"] for entry in _entries(out) if entry.get("event") == "observed"]
    assert len(runs) == len(set(runs))


def test_the_plan_lists_the_differences_without_building(sides, index):
    """What would be built is told before it is."""
    done = run(argv(sides, index, "--dry-run"))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 differences")
    assert "runs: about 12 if it fails in 100% of runs" in done.stdout
    assert " min\n" in done.stdout
    plan = json.loads(run(argv(sides, index, "--dry-run", "--json")).stdout)
    assert (plan["runs"][0]["expected"], plan["max_runs"], len(plan["seconds_each"])) == (12, 300, 3)
    assert "gone 1.0 -> (absent)" in done.stdout
    assert not (sides / "store" / "environments").exists()


def test_sizes_that_the_index_does_not_tell_are_not_called_zero(sides, index):
    """`0.0 GB of disk` would be believed."""
    done = run(argv(sides, index, "--dry-run"))

    assert "sizes unknown" in done.stdout
    assert "0.0 GB" not in done.stdout


def test_a_search_takes_every_wheel_once_and_the_larger_environment(tmp_path):
    """Wheels that both sides have would be downloaded twice, or an environment of 5 GB told as one of 4."""
    here = from_environ({"ENVS_STORE": str(tmp_path / "store")})

    def side(name, *sizes):
        held = {
            project: Distribution(
                name=project,
                version="1.0",
                source=Source.DEFAULT,
                wheels=(Wheel(filename=f"{project}-1.0-py3-none-any.whl", sha256="0" * 64, size=size),),
            )
            for project, size in sizes
        }
        facts = Facts(packages=dict.fromkeys(held, "1.0"))
        return Side(name=name, facts=facts, definition=spec.load("cu130"), distributions=held)

    sides = level(side("a", ("torch", 1000), ("one", 10)), side("b", ("torch", 1000), ("two", 500)))
    found = sizes(sides, here)

    assert found.download_bytes == 1510
    assert found.environment_bytes == int(1500 * UNPACKED)


def test_what_a_history_left_without_a_wheel_is_part_of_the_history():
    """The good side's version would be called removed, and the removal found guilty; no mix can do without it."""

    def side(name, packages, **more):
        held = {
            each: Distribution(name=each, version=version, source=Source.DEFAULT, wheels=())
            for each, version in packages.items()
        }
        return Side(name=name, definition=spec.load(name), distributions=held, **more)

    good = {"torch": "2.10.0", "local": "1.0", "left": "1.0"}
    bad = {"torch": "2.10.0", "left": "2.0"}
    sides = level(
        side("cu128", good, facts=Facts(packages=good)),
        side(
            "cu128+sglang-residue",
            bad,
            facts=Facts(packages=bad, history=("install sglang",)),
            unreproducible=(Unreproducible(name="local", reason="no wheel", version="2.0"),),
        ),
    )
    changes = {item.id: item for item in items(sides.good.facts, sides.bad.facts)}

    assert set(changes) == {"left", "residue:all"}
    assert changes["residue:all"].bad == "install sglang; local 1.0 -> 2.0, without a wheel"
    assert sides.bad.definition.history
    assert not sides.hidden


def test_a_dry_run_builds_no_history(tmp_path):
    """`--dry-run` would download and install SGLang; what it can tell is what building the side takes."""
    words = ["--good", "cu128", "--bad", "cu128+sglang", "--store", str(tmp_path / "store"), "--dry-run"]

    done = run([sys.executable, "-m", "bisect", "packages", *words, "--probe", "train"])

    assert done.returncode == 0, done.stderr
    assert "python -m envs build cu128+sglang" in done.stdout
    assert "GB of disk, before what its history installs" in done.stdout
    assert not (tmp_path / "store").exists()


def test_equal_lists_are_said_to_be_equal_without_a_build(sides, index):
    """Two environments would be built and run to learn that nothing differs."""
    done = run(argv(sides, index, "--out", str(sides / "out"), bad="good.txt"))
    planned = run(argv(sides, index, "--dry-run", bad="good.txt"))

    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("no difference: ")
    assert planned.stdout.startswith("no difference between ")
    assert not (sides / "store" / "environments").exists()


def test_two_directories_that_differ_in_a_file_are_not_called_the_same(sides, index):
    """A patched torch or a sitecustomize is in no list of packages: the two would be said to hold the same."""
    venvs = {name: _venv(sides / name, index) for name in ("a", "b")}
    (site,) = venvs["b"].glob("lib/python3*/site-packages")
    (site / "p0" / "__init__.py").write_text("patched = True\n")
    (site / "sitecustomize.py").write_text("import os\n")
    (site / "loose").mkdir()
    (site / "loose" / "__init__.py").write_text("")

    same = run(argv(sides, index, "--out", str(sides / "same"), good="a", bad="a"))
    done = run(argv(sides, index, "--out", str(sides / "out"), "--json", good="a", bad="b"))

    assert (same.returncode, same.stdout[:14]) == (3, "no difference:"), same.stderr
    assert done.returncode == 4, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "exhausted"
    for told in ("edited p0/__init__.py", "of no package sitecustomize.py", "of no package loose/"):
        assert f"{told} ({venvs['b']})" in verdict["reason"]
        assert any(told in line for line in verdict["warnings"])


def _venv(path, index):
    """A virtual environment of torch and p0, as somebody made it."""
    subprocess.run([uv.program(), "venv", "-q", "--no-config", path, "--python", sys.executable], check=True)
    words = ["torch==2.11.0", "p0==1.0", "--index-url", index.url, "--python", path, "--link-mode", "copy"]
    subprocess.run([uv.program(), "pip", "install", "-q", "--no-config", *words], check=True)
    return path.resolve()


def test_a_second_process_leaves_the_journal_of_the_first_alone(sides, index):
    """It would cut off the line that the first one is writing, and only then be refused."""
    out = sides / "out"
    words = argv(sides, index, "--out", str(out), bad="good.txt")
    run(words)
    with (out / "journal.jsonl").open("a") as file:
        file.write('{"event": "half')
    before = (out / "journal.jsonl").read_bytes()

    with FileLock(out / ".lock"):
        second = run(words)

    assert second.returncode == 2
    assert "another process is at work" in second.stderr
    assert (out / "journal.jsonl").read_bytes() == before


def test_a_file_that_is_not_there_is_said_to_be_missing(sides, index):
    """`no environment definition named bad.txt` sends a person to the definitions."""
    done = run(argv(sides, index, bad="missing.txt"))

    assert done.returncode == 2
    assert f"there is no file {sides / 'missing.txt'}" in done.stderr


def test_a_list_without_torch_is_refused(sides, index):
    """Two lists of something else would be searched in vain."""
    (sides / "none.txt").write_text("numpy==2.3.5\n")

    done = run(argv(sides, index, bad="none.txt"))

    assert done.returncode == 2
    assert "lists no torch" in done.stderr


def _entries(out):
    path = out / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _observed(out):
    return sum(entry.get("event") == "observed" for entry in _entries(out))
