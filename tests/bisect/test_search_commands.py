"""The search commands at their edges: plans, refusals, endpoints that cannot be built, other packages."""

import json
import os
import shlex
import subprocess
import sys
from bisect.commands.search_options import HAZARDS
from bisect.surroundings import refuse_no_command, refuse_no_room

import pytest

from envs.errors import CannotRunError

from .stub_index import Stub, served, write_wheel
from .test_search_end_to_end import ROOT, version

pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]
ANSWER = ("python", "-c", "import sys, torch; sys.exit(torch.answer)")


def bisect(*words, **options):
    argv = [sys.executable, "-m", "bisect", *map(str, words)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.fixture
def bare(tmp_path):
    """An environment of torch alone, so that nothing but the stub index is needed."""
    path = tmp_path / "bare.toml"
    path.write_text('summary = "torch alone"\ncuda = "cu130"\nchannel = "nightly"\npython = "3.11"\n')
    return path


def nightlies(url, bare, *words, out="out", command=ANSWER):
    options = ["--index", url, "--default-index", url, "--env", bare, "--store", bare.parent / "store"]
    ends = ["--good", "oldest", "--bad", "newest", "--out", bare.parent / out]
    return bisect("torch-nightlies", *options, *ends, "--probe", "command", *words, "--", *command)


def stub(day, code="answer = 0", **fields):
    return Stub(version=f"{version(day)}+cu130", commit=f"{day:040x}", code=code, **fields)


def test_a_dry_run_shows_the_plan_and_makes_nothing(tmp_path, bare):
    """People decide by the plan; it must not build, and not leave a run directory."""
    with served(tmp_path / "index", [stub(day) for day in (0, 1, 2, 5)]) as url:
        done = nightlies(url, bare, "--dry-run", "--json")

    plan = json.loads(done.stdout)
    assert (plan["candidates"], plan["cached"], plan["excluded"][0]["reason"]) == (4, 0, "not published")
    assert plan["runs"][0]["expected"] < plan["runs"][1]["expected"] < plan["runs"][2]["expected"]
    assert not (tmp_path / "out").exists()


def test_an_endpoint_that_cannot_be_installed_names_the_nearest_that_resolves(tmp_path, bare):
    """C10: exit 5, and a suggestion instead of a search without an end."""
    with served(tmp_path / "index", [stub(0, broken=True), stub(1), stub(2), stub(3, "answer = 1")]) as url:
        done = nightlies(url, bare)

    assert done.returncode == 5
    assert f"the endpoint {version(0)} cannot be built" in done.stderr
    assert f"the nearest that resolves is {version(1)}" in done.stderr
    report = bisect("report", tmp_path / "out")
    assert report.returncode == 5
    assert report.stdout.startswith(f"unfinished: the endpoint {version(0)} cannot be built: ")
    assert f" resume {tmp_path / 'out'}\n" in report.stdout


def test_a_pin_that_is_gone_for_every_build_stops_at_once(tmp_path, bare):
    """B16: a dependency removed from the index breaks every candidate; burning through the range helps nobody."""
    pin = "nvidia-cudnn-cu12==9.1.0.70"
    with served(tmp_path / "index", [stub(day, requires=pin) for day in range(6)]) as url:
        done = nightlies(url, bare)

    assert done.returncode == 5
    assert "nvidia-cudnn-cu12" in done.stderr
    assert "neighbours fail the same way" in done.stderr
    built = [line for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines() if '"built"' in line]
    assert built == []


def test_ends_that_behave_alike_end_with_a_reason(tmp_path, bare):
    """C20, C22: nothing changed is exit 3 with null neighbours, not a culprit."""
    with served(tmp_path / "index", [stub(day) for day in range(3)]) as url:
        done = nightlies(url, bare, "--json")

    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["verdict"]) == (3, "no-regression")
    assert (verdict["last_good"], verdict["first_bad"]) == (None, None)
    assert bisect("report", tmp_path / "out").returncode == 3


def test_a_signature_and_the_reports_and_the_next_run_in_the_same_directory(tmp_path, bare):
    """Only the signature is bad; the directory can be read again, and refuses another search."""
    codes = ["answer = 0", "answer = 0", "print('other'); answer = 1", "print('KeyError: custom'); answer = 1"]
    with served(tmp_path / "index", [stub(day, code) for day, code in enumerate(codes)]) as url:
        secret = url.replace("http://", "http://me:hunter2@")
        done = nightlies(secret, bare, "--json", "--signature", "KeyError")
        other = nightlies(url, bare, "--json", "--signature", "ValueError")

    verdict = json.loads(done.stdout)
    assert (verdict["verdict"], verdict["suspects"]) == ("narrowed", [version(2), version(3)])
    assert verdict["skipped"][0]["reason"].startswith("failed otherwise than hunted")
    assert verdict["proof"][0].endswith("KeyError: custom")
    assert other.returncode == 2
    assert "of another search: --default-index, --index, --signature differ" in other.stderr
    fourth = nightlies(secret, bare, "--signature", "KeyError", command=("python", "-c", "pass"))
    assert "of another search: the command after -- differs" in fourth.stderr
    out = tmp_path / "out"
    texts = (".json", ".jsonl", ".txt", ".md", ".html")
    kept = [path for path in out.rglob("*") if path.is_file() and path.suffix in texts]
    assert [path for path in kept if "hunter2" in path.read_text()] == []
    again = bisect("report", out, "--json")
    assert json.loads(again.stdout)["verdict"] == "narrowed"
    assert again.returncode == done.returncode == 4
    assert bisect("report", out, "--markdown").stdout.startswith("**narrowed: last good")
    assert "verdict   narrowed" in bisect("log", out).stdout
    assert "hint" in bisect("resume", out).stderr
    assert (out / "report.html").read_text().startswith("<!")


def test_the_releases_of_another_package_with_the_rest_of_the_lock_fixed(tmp_path, bare):
    """Only the package may differ between two candidates, or the answer blames the wrong thing."""
    gadgets = [
        Stub(name="gadget", version=f"1.{minor}", tags="py3-none-any", code=f"answer = {int(minor >= 3)}")
        for minor in range(5)
    ]
    torch = [Stub(version=f"2.11.{micro}+cu130", commit="c") for micro in range(2)]
    bare.write_text(
        'summary = "torch and gadget"\ntorch = "2.11.0"\ncuda = "cu130"\npython = "3.11"\n'
        'requirements = ["gadget==1.0"]\n'
    )
    command = ("python", "-c", "import sys, gadget; sys.exit(gadget.answer)")
    with served(tmp_path / "index", [*gadgets, *torch]) as url:
        options = ["--index", url, "--default-index", url, "--env", bare, "--store", tmp_path / "store"]
        ends = ["--good", "1.0", "--bad", "newest", "--probe", "command", "--out", tmp_path / "out", "--json"]
        done = bisect("releases", "gadget", *options, *ends, "--", *command)

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["last_good"], verdict["first_bad"]) == ("1.2", "1.3")
    assert verdict["lock_diff"] == ["gadget 1.2 -> 1.3"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--probe", "hazards"], "needs --for HAZARD"),
        (["--probe", "hazards", "--for", "fx_flag"], "no hazard is named 'fx_flag'"),
        (["--probe", "train", "--for", "sadness"], "is no outcome"),
        (["--probe", "command"], "needs the command after --"),
        (["--confidence", "1.5"], "is not between"),
        (["--cuda", "cu131"], "there is no wheel index for 'cu131'"),
        (["--signature", "("], "belongs to --probe command"),
        (["--for", "throughput", "--pairs", "together", "--on", "slurm"], "--pairs together is for this machine"),
    ],
)
def test_wrong_options_are_one_line_and_a_hint(words, reason):
    """A wrong option must fail before a byte is downloaded."""
    done = bisect("torch-nightlies", "--good", "2026-06-01", "--bad", "newest", *words)

    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


NOWHERE = ("--index", "http://127.0.0.1:1", "--default-index", "http://127.0.0.1:1")
RELEASES = ("torch-releases", "--good", "2.15.0", "--bad", "2.8.0", "--dry-run", *NOWHERE)
COMMAND = ("--probe", "command", "--")
HAZARD = ("--probe", "hazards", "--for", "fx_flag_trace")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ((*RELEASES, "--torch-repo", "/proc"), 2, "--torch-repo /proc: fatal: not a git repository"),
        ((*RELEASES, "--store", "/proc/store"), 6, "the store /proc/store cannot be written"),
        ((*RELEASES, "--store", "/etc/passwd"), 2, "/etc/passwd is a file"),
        ((*RELEASES, "--backend", "container"), 6, "no container engine answers"),
        ((*RELEASES, "--workaround", "lok"), 2, "unknown workaround 'lok'"),
        ((*RELEASES, "--workaround", "recompile-limit=x"), 2, "write recompile-limit=N"),
        ((*RELEASES, *HAZARD, "--workaround", "lok"), 2, "unknown workaround 'lok'"),
        ((*RELEASES, *HAZARD, "--workaround", "lock"), 2, "workaround lock acts on a run"),
        ((*RELEASES, *HAZARD, "--threads=4", "--amplify"), 2, "--probe hazards does not use --threads, --amplify"),
        ((*RELEASES, *HAZARD, "--set", "dynamic=none"), 2, "--probe hazards does not use --set"),
        ((*RELEASES, "--workaround=lock", *COMMAND, "true"), 2, "--probe command does not use --workaround"),
        (("torch-nightlies", *RELEASES[1:], *HAZARD, "--steps=9"), 2, "--probe hazards does not use --steps"),
        (("releases", "triton", "--env=cu130", *RELEASES[1:], *HAZARD, "--profile=gpu1"), 2, "not use --profile"),
        (("packages", "--good=cu128", "--bad=cu130", "--dry-run", *NOWHERE, *HAZARD, "--seed=1"), 2, "use --seed"),
        (("hazards", "cu130", *NOWHERE, "--workaround", "lok"), 2, "unknown workaround 'lok'"),
        ((*RELEASES, "--profile", "huge"), 2, "unknown profile 'huge'"),
        ((*RELEASES, "--set", "stepz=3"), 2, "cannot set 'stepz=3'"),
        ((*RELEASES, *COMMAND, "no-such-command"), 2, "there is no command 'no-such-command'"),
        ((*RELEASES, *COMMAND, "./no-such-command"), 2, "there is no command './no-such-command'"),
        ((*RELEASES, *COMMAND, "python", "no-such-file.py"), 2, "there is no file 'no-such-file.py'"),
        (("releases", "triton", "--env", "cu130", *RELEASES[1:], "--profile", "huge"), 2, "unknown profile"),
        (("releases", "tritn", "--env", "cu130", *RELEASES[1:6], *NOWHERE[2:]), 2, "did you mean triton?"),
        (("train", "my env.toml", "--dry-run", *NOWHERE), 2, "no such file: my env.toml"),
        (("torch-nightlies", *RELEASES[1:], "--profile", "huge"), 2, "unknown profile"),
        (("packages", "--good", "cu128", "--bad", "cu130", "--dry-run", *NOWHERE, "--profile", "huge"), 2, "profile"),
        (("train", "cu130", "--dry-run", *NOWHERE, "--workaround", "lok"), 2, "unknown workaround 'lok'"),
        (("train", "cu130", "--dry-run", *NOWHERE, "--cache", "from=nope"), 2, "named 'nope'"),
        (("train", "cu130", "--dry-run", *NOWHERE, "--", "--stepz", "3"), 2, "unrecognized arguments: --stepz 3"),
        (("train", "nightly", "--date=2026-02-15", "--dry-run", *NOWHERE, "--store=/proc/s"), 6, "cannot be written"),
        (("workarounds", "cu130", "--dry-run", *NOWHERE, "--only", "recompile-limit=x"), 2, "write recompile-limit=N"),
        (("matrix", "--dry-run", *NOWHERE, "--store", "/proc/store"), 6, "the store /proc/store cannot be written"),
    ],
    ids=lambda value: " ".join(value)[:80] if isinstance(value, tuple) else None,
)  # fmt: skip
def test_what_is_not_there_is_told_before_an_index_is_asked(words, code, reason):
    """A misspelled name would be told after a download of gigabytes, and a dry run would promise what cannot run."""
    environ = {**os.environ, "DOCKER_HOST": "unix:///nowhere/engine.sock"}

    done = bisect(*words, env=environ)

    assert done.returncode == code
    assert reason in f"{done.stderr}"
    assert done.stdout == ""
    assert "127.0.0.1" not in done.stderr


def test_a_search_whose_ends_do_not_fit_on_the_disk_does_not_start(tmp_path, bare):
    """The disk would be filled to the last byte before the search said so."""
    with served(tmp_path / "index", [stub(day) for day in (0, 1, 2)]) as url:
        planned = nightlies(url, bare, "--dry-run", "--json")

    assert json.loads(planned.stdout)["sizes_known"]
    assert json.loads(planned.stdout)["free_bytes"] > 0
    with pytest.raises(CannotRunError, match=r"the two endpoints need about 1000000000\.0 GB") as caught:
        refuse_no_room(10**18, tmp_path)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    "words",
    [
        ("python", "-c", "pass"),
        ("python3", str(ROOT / "noxfile.py")),
        (sys.executable, "-m", "anything"),
        ("true",),
        ("torchrun", "x"),
        ("gadget", "x"),
        ("bash", "-c", "exit 1"),
    ],
)
def test_a_command_that_the_environment_brings_is_not_refused(words):
    """Scripts of the environment's packages are not on the caller's PATH."""
    refuse_no_command(words, requirements=["gadget==1.0"])


def test_the_list_of_hazards_is_the_workloads():
    """The workload is another program; a hazard missing here cannot be searched for."""
    registry = (ROOT / "dflash" / "hazards" / "registry.py").read_text()

    assert [name for name in HAZARDS if f'name="{name}"' not in registry] == []
    assert registry.count("    Probe(\n") == len(HAZARDS)


def test_disk_is_capped_and_only_what_the_search_made_is_removed(tmp_path, bare):
    """G08: thirty nightlies are 150 GB; but an environment that was there before is somebody's."""
    codes = ["answer = 0", "answer = 0", "answer = 0", "answer = 1", "answer = 1"]
    environments = tmp_path / "store" / "environments"
    with served(tmp_path / "index", [stub(day, code) for day, code in enumerate(codes)]) as url:
        first = nightlies(url, bare, "--keep", "2", out="a")
        capped = {path.name for path in environments.iterdir()}
        second = nightlies(url, bare, "--keep", "9", out="b")
        everything = {path.name for path in environments.iterdir()}
        third = nightlies(url, bare, "--keep", "2", out="c")

    assert [done.returncode for done in (first, second, third)] == [0, 0, 0]
    assert len(capped) == 2
    assert len(everything) > 2
    assert {path.name for path in environments.iterdir()} == everything


def test_a_restored_journal_goes_on_from_another_directory_and_meets_no_old_run(tmp_path, bare):
    """After a backup is restored runs of the days since are on disk: the first new one would end in a traceback."""
    with served(tmp_path / "index", [stub(0), stub(1), stub(2, "answer = 1")]) as url:
        first = nightlies(url, bare)
        journal = tmp_path / "out" / "journal.jsonl"
        before = {path.name for path in journal.parent.glob("run-*")}
        lines = [line for line in journal.read_text().splitlines() if '"event"' not in line or '"plan"' in line]
        header = json.loads(lines[0])
        gone = tmp_path / "gone"
        journal.write_text("".join(f"{line}\n" for line in (json.dumps({**header, "cwd": str(gone)}), *lines[1:])))
        refused = bisect("resume", tmp_path / "out")
        words = shlex.split(refused.stderr.partition("python -m bisect ")[2])
        again = bisect(*words)

    assert (first.returncode, refused.returncode, again.returncode) == (0, 2, 0)
    assert f"is gone: {gone}" in refused.stderr
    assert again.stdout.splitlines()[0].partition("%")[0] == first.stdout.splitlines()[0].partition("%")[0]
    runs = [json.loads(line)["run"] for line in journal.read_text().splitlines() if '"started"' in line]
    assert runs
    assert not before & set(runs)


def test_a_search_whose_definition_was_edited_does_not_go_on(tmp_path, bare):
    """Half of the runs would have been made with the variable and half without: two questions, one verdict."""
    with served(tmp_path / "index", [stub(0), stub(1), stub(2, "answer = 1")]) as url:
        first = nightlies(url, bare, "--max-runs", "5")
        before = (tmp_path / "out" / "journal.jsonl").read_text()
        bare.write_text(bare.read_text() + 'environment = {TORCH_X = "hunter2"}\n')
        edited = nightlies(url, bare, "--max-runs", "5")
        resumed = bisect("resume", tmp_path / "out")
        unchanged = (tmp_path / "out" / "journal.jsonl").read_text() == before
        header, *entries = before.splitlines()
        older = {key: value for key, value in json.loads(header).items() if key != "definition"}
        (tmp_path / "out" / "journal.jsonl").write_text("\n".join([json.dumps(older), *entries, ""]))
        from_before = nightlies(url, bare, "--max-runs", "5")

    assert [done.returncode for done in (first, edited, resumed, from_before)] == [4, 2, 2, 4]
    for text in (edited.stderr, resumed.stderr):
        assert f"bare is not what it was when the search in {tmp_path / 'out'} began: environment differs" in text
    assert unchanged


def test_wheels_that_were_replaced_under_their_names_are_not_mixed_with_the_old_ones(tmp_path, bare):
    """The locks of the first search lie in the store: half of the second one's builds would be the old files."""
    with served(tmp_path / "index", [stub(day, f"answer = {int(day >= 4)}") for day in range(6)]) as url:
        first = nightlies(url, bare, "--json")
        for day in range(6):
            write_wheel(tmp_path / "index" / "torch", stub(day, f"answer = {int(day >= 2)}  # and other bytes"))
        mixed = nightlies(url, bare)
        fresh = nightlies(url, bare, "--json", out="again")
        read = bisect("report", tmp_path / "out", "--json")

    assert json.loads(first.stdout)["first_bad"] == version(4)
    assert mixed.returncode == 2
    assert "is not what it was when the search in" in mixed.stderr
    assert json.loads(fresh.stdout)["first_bad"] == version(2), fresh.stderr
    assert "is resolved anew: the index serves torch-" in fresh.stderr
    assert json.loads(read.stdout)["first_bad"] == version(4)
