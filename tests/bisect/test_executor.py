"""The effects of a search on this machine, with a fake interpreter in place of built environments."""

import json
import math
import re
from bisect.builds import Builder
from bisect.executor import ProbeRunner
from bisect.files import LOG_BYTES
from bisect.judge import Question
from bisect.launch import LocalLauncher
from bisect.model import Conclusion, Outcome
from bisect.probe import RunKind, RunRequest
from pathlib import Path

import pytest

from envs.settings import Settings

from .fake_python import CLEAN, RACE, fake_environment
from .killing import size, wait_until

pytestmark = pytest.mark.subprocess
RACE_QUESTION = Question(kind=RunKind.TRAIN, hunted=Outcome.parse("fx_flag_race"))
SPEED = """
content = json.loads(golden)
content["threads"] = [t for t in content["threads"] if not t["exceptions"]]
content["throughput"]["ktok_s"] = {ktok_s}
result(json.dumps(content))
"""


class FakeBuilder(Builder):
    """Environments are there already; everything else is real."""

    environments = None

    def built(self, candidate):
        return self.environments[candidate]


def runner(tmp_path, bodies, **fields):
    builder = FakeBuilder(
        names=tuple(bodies),
        define=None,
        settings=Settings(store=tmp_path / "store"),
        directory=tmp_path / "out",
        say=repr,
    )
    builder.environments = {name: fake_environment(tmp_path / name, body) for name, body in bodies.items()}
    values = {
        "builder": builder,
        "launcher": LocalLauncher(),
        "request": RunRequest(kind=RunKind.TRAIN, timeout_s=30),
        "question": RACE_QUESTION,
        "directory": tmp_path / "out",
        "say": repr,
    }
    return ProbeRunner(**{**values, **fields})


def run(here, candidate, *runs):
    """One run after the other."""
    for name in runs:
        here.start(candidate, name)
        yield here.take()


def test_a_race_is_bad_once_the_control_passed(tmp_path):
    """The word race needs the same run with one thread, made once, before the first run at the bad endpoint."""
    here = runner(tmp_path, {"a": RACE}, control_at="a")
    found = list(run(here, "a", "run-0001", "run-0002"))

    assert [item.observation.conclusion for item in found] == [Conclusion.BAD] * 2
    assert found[0].observation.outcome == "fx_flag_race"
    argv = json.loads((tmp_path / "out" / "control" / "record.json").read_text())["argv"]
    assert argv[-2:] == ["--threads", "1"]


def test_a_failure_of_one_thread_too_is_no_race(tmp_path):
    """Then the search must not go looking for the build that brought in a race."""
    here = runner(tmp_path, {"a": "result(golden); sys.exit(1)"}, control_at="a")
    (found,) = run(here, "a", "run-0001")

    assert found.observation.conclusion is not Conclusion.BAD


def test_a_run_that_ended_before_a_kill_is_judged_from_its_directory(tmp_path):
    """Recovering must give what the run would have given, and nothing for one that never ended."""
    here = runner(tmp_path, {"a": RACE}, control_at="a")
    (found,) = run(here, "a", "run-0001")
    (tmp_path / "out" / "run-0002").mkdir()

    assert here.resume("a", "run-0001")
    assert here.take() == found
    assert not here.resume("a", "run-0002")


def test_throughput_is_compared_in_pairs_of_alternating_order(tmp_path):
    """A drifting machine favours whoever runs second; ABBA order cancels it."""
    bodies = {"base": SPEED.format(ktok_s=2.0), "slow": SPEED.format(ktok_s=1.0)}
    question = Question(kind=RunKind.TRAIN, throughput=True)
    here = runner(tmp_path, bodies, question=question, baseline="base")
    found = list(run(here, "slow", "run-0001", "run-0002"))

    assert [item.observation.value for item in found] == [pytest.approx(math.log(0.5))] * 2
    started = sorted((tmp_path / "out").glob("run-*/record.json"), key=lambda path: path.stat().st_ctime_ns)
    assert [path.parent.name for path in started] == ["run-0001", "run-0001-baseline", "run-0002-baseline", "run-0002"]


MEETING = """
mine, other = ("base", "other") if "/base/" in sys.argv[0] or "/base/" in os.environ["PATH"] else ("other", "base")
meet = {meet!r}
open(os.path.join(meet, mine), "w").close()
started = time.monotonic()
while not os.path.exists(os.path.join(meet, other)):
    if time.monotonic() - started > {patience_s}:
        sys.exit("the other one never came")
    time.sleep(0.01)
"""


@pytest.mark.parametrize(("together", "met"), [(True, True), (False, False)])
def test_the_runs_of_a_pair_are_made_at_the_same_time_where_asked(tmp_path, together, met):
    """One after the other, two runs of one environment differ by 9 % on a shared machine, and no search ends."""
    (tmp_path / "meet").mkdir()
    meeting = MEETING.format(meet=str(tmp_path / "meet"), patience_s=30 if met else 0.2)
    bodies = {"base": meeting + SPEED.format(ktok_s=2.0), "slow": meeting + SPEED.format(ktok_s=1.0)}
    here = runner(
        tmp_path,
        bodies,
        question=Question(kind=RunKind.TRAIN, throughput=True),
        baseline="base",
        launcher=LocalLauncher(together=together),
    )
    (found,) = run(here, "slow", "run-0001")

    assert (found.observation.value is not None) is met


def test_a_pair_carries_what_makes_its_ratio_doubtful(tmp_path):
    """A GPU that throttles within the run and a build that stalls would pass for a loss, and for none."""
    calm = SPEED.format(ktok_s=1.0) + _steps("[0.1] * 40")
    hot = SPEED.format(ktok_s=1.0) + _steps("[0.1] * 20 + [0.2] * 19 + [20.0]")
    here = runner(
        tmp_path,
        {"base": calm, "hot": hot},
        question=Question(kind=RunKind.TRAIN, throughput=True),
        baseline="base",
    )
    (found,) = run(here, "hot", "run-0001")

    assert found.observation.drift == pytest.approx(-0.25)
    assert found.observation.stalled > 0.5


def _steps(times):
    return f"""
for thread in content["threads"]:
    thread.update(steps=40, step_times_s={times}, step_compiles=[0] * 40)
result(json.dumps(content))
"""


def test_the_baseline_of_a_pair_may_be_run_otherwise(tmp_path):
    """A variable that makes it slow, set for both halves of a pair, would cancel out."""
    body = SPEED.format(ktok_s="1.0 if 'SLOW' in os.environ else 2.0")
    slow = RunRequest(kind=RunKind.TRAIN, timeout_s=30, environment=(("SLOW", "1"),))
    question = Question(kind=RunKind.TRAIN, throughput=True)
    here = runner(tmp_path, {"base": body}, question=question, baseline="base", request=slow)
    here.baseline_request = RunRequest(kind=RunKind.TRAIN, timeout_s=30)
    (found,) = run(here, "base", "run-0001")

    assert found.observation.value == pytest.approx(math.log(0.5))


def test_a_pair_without_a_measurement_says_nothing(tmp_path):
    """A crashed half of a pair is no loss of throughput."""
    bodies = {"base": SPEED.format(ktok_s=2.0), "broken": "sys.exit(1)"}
    here = runner(tmp_path, bodies, question=Question(kind=RunKind.TRAIN, throughput=True), baseline="base")
    (found,) = run(here, "broken", "run-0001")

    assert (found.observation.conclusion, found.observation.value) == (Conclusion.SKIP, None)


def test_compile_caches_of_a_search_are_dropped_and_evidence_kept(tmp_path):
    """A search makes hundreds of runs; each would keep gigabytes that prove nothing."""
    here = runner(tmp_path, {"a": RACE})
    list(run(here, "a", "run-0001"))

    kept = {path.name for path in (tmp_path / "out" / "run-0001").iterdir()}
    assert {"record.json", "result.json", "log.txt", "staged"} <= kept
    assert not {"caches", "home"} & kept


MEET = """
import pathlib
mine, other = {names}
pathlib.Path({folder!r}, mine).touch()
deadline = time.monotonic() + 20
while not pathlib.Path({folder!r}, other).exists():
    if time.monotonic() > deadline:
        sys.exit(7)
    time.sleep(0.01)
exec(CLEAN)
"""


def meeting(folder, *names):
    return f"CLEAN = {CLEAN!r}\n" + MEET.format(names=names, folder=str(folder))


def test_several_workers_run_at_the_same_time(tmp_path):
    """Two workers that take turns are one: each of these runs ends only if the other one has started."""
    bodies = {"a": meeting(tmp_path, "a", "b"), "b": meeting(tmp_path, "b", "a")}
    here = runner(tmp_path, bodies)
    here.start("a", "run-0001")
    here.start("b", "run-0002")
    found = [here.take(), here.take()]

    assert {item.observation.run for item in found} == {"run-0001", "run-0002"}
    records = [json.loads((tmp_path / "out" / item.observation.run / "record.json").read_text()) for item in found]
    assert [record["ended"]["returncode"] for record in records] == [0, 0]


SLEEPS = "open({pid!r}, 'w').write(str(os.getpid())); time.sleep(60)"


def test_ctrl_c_ends_every_child_and_none_of_them_counts_as_ended(tmp_path):
    """A run that was cut short must be made again, not be judged as a hang; and nothing may go on in the background."""
    here = runner(tmp_path, {"a": CLEAN, "b": SLEEPS.format(pid=str(tmp_path / "pid"))})
    here.start("a", "run-0001")
    here.start("b", "run-0002")
    first = here.take()
    wait_until(lambda: size(tmp_path / "pid") > 0)
    here.close()

    assert first.observation.run == "run-0001"
    assert not here.resume("b", "run-0002")
    wait_until(lambda: not Path("/proc", (tmp_path / "pid").read_text()).exists())


def test_a_cancelled_run_is_ended_and_never_taken(tmp_path):
    """A pointless run that goes on holds its worker; one that is taken all the same would count."""
    here = runner(tmp_path, {"a": CLEAN, "b": SLEEPS.format(pid=str(tmp_path / "pid"))})
    here.start("b", "run-0001")
    wait_until(lambda: size(tmp_path / "pid") > 0)
    here.cancel("run-0001")
    here.start("a", "run-0002")

    assert here.take().observation.run == "run-0002"
    assert not here.has_ended
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.parametrize("gone", ["$(dirname $HOME)", "$(dirname $HOME)/log.txt"])
def test_a_command_that_removes_its_evidence_gives_no_vote(tmp_path, gone):
    """The search would end in a traceback, or count a run of which nothing is left."""
    question = Question(kind=RunKind.COMMAND)
    request = RunRequest(kind=RunKind.COMMAND, command=("sh", "-c", f"rm -rf {gone}; exit 1"), timeout_s=30)

    (found,) = run(runner(tmp_path, {"a": ""}, question=question, request=request), "a", "run-0001")

    assert (found.observation.conclusion, found.observation.outcome) == (Conclusion.SKIP, "harness_error")
    assert str(tmp_path / "out" / "run-0001") in found.reason


def test_a_long_log_is_judged_whole_and_kept_in_part(tmp_path):
    """Hundreds of runs would fill the disk; a line in the middle would be lost before it was looked for."""
    body = "yes x | head -c 12000000; echo KeyError; yes y | head -c 12000000; echo the end"
    question = Question(kind=RunKind.COMMAND, signature="KeyError")
    request = RunRequest(kind=RunKind.COMMAND, command=("sh", "-c", body), timeout_s=60)

    (found,) = run(runner(tmp_path, {"a": ""}, question=question, request=request), "a", "run-0001")

    assert (found.observation.conclusion, found.evidence) == (Conclusion.BAD, ("KeyError",))
    kept = (tmp_path / "out" / "run-0001" / "log.txt").read_bytes()
    assert len(kept) < LOG_BYTES + 200
    assert kept.startswith(b"x\n")
    assert kept.endswith(b"y\nthe end\n")
    assert re.search(rb"\n\[72\d{5} bytes were left out here", kept)
