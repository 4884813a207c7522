"""Builds that are said to be the same code: one candidate, as long as their runs do not say otherwise."""

import dataclasses
import json
import random
from bisect.engine import next_step, ordered_line
from bisect.engine.certain import next_certain_step
from bisect.model import Contradiction, Found, Observation, Probe, Problem
from bisect.report_rows import Row, same_code
from bisect.state import State
from bisect.throughput import next_step as next_speed_step

import pytest

from .searches import BAD, GOOD, problem, seen
from .stub_index import Stub, served
from .test_search_end_to_end import nightlies, version

ALL = tuple(f"c{number}" for number in range(12))


def _searched(decide, equal, answer):
    """The verdict where builds are known to be of one commit once they were run, as in a search."""
    asked, observations = problem(12), []
    for _ in range(100):
        run = {each.candidate for each in observations}
        known = dataclasses.replace(asked, equal=(tuple(name for name in equal if name in run),))
        step = decide(known, observations)
        if not isinstance(step, Probe):
            return step
        observations += [answer(name) for name in (step.candidate, *step.also)]
    raise AssertionError("no verdict in 100 steps")


@pytest.mark.parametrize("equal", [ALL, ("c6", "c7")], ids=["every build", "the two around the change"])
def test_builds_of_one_commit_that_behave_differently_are_told_apart(equal):
    """`no regression`, or a last good one that always failed, after runs that show the change without exception."""
    verdict = _searched(
        next_step, equal, lambda name: Observation(candidate=name, conclusion=BAD if int(name[1:]) >= 7 else GOOD)
    )

    assert isinstance(verdict, Found)
    assert (verdict.last_good, verdict.first_bad) == ("c6", "c7")
    assert "are said to be the same code, but the runs say otherwise" in verdict.notes[-1]


@pytest.mark.parametrize("both", ["c2:gggg c3:b", "c5:bgggbg c6:g", "c5:gggg c6:b", "c0:g c8:b"])
def test_a_failure_that_shows_now_and_then_is_no_contradiction(both):
    """Where a third of the runs fail, two builds of one commit differ by chance, and would be run twice for nothing."""
    asked = problem(9, equal=(("c2", "c3"), ("c5", "c6")))
    line = ordered_line(asked, seen(f"c0:ggggggg c8:bgbggbgg {both}"))

    assert line.apart == ()
    assert line.size == 7


def test_the_ends_of_one_commit_are_asked_again_before_they_are_said_to_be_alike():
    """2 of 2 beside 0 of 2 is neither: `both endpoints are the same code` ended the search there."""
    asked = problem(3, equal=(("c0", "c1", "c2"),))

    assert isinstance(next_step(asked, seen("c0:gg c2:bb")), Probe)
    assert "same code" in next_step(asked, seen("c0:gg c2:gg")).reason


def test_a_build_that_only_failed_is_never_named_as_the_last_good_one():
    """Its equal neighbour passed, but the table beside the verdict says `1/1, last good`."""
    asked = problem(9, equal=(("c4", "c5"),))
    often, seldom = "b" * 36 + "g" * 24, "b" * 15 + "g" * 45
    shown = f"c0:{seldom} c4:{seldom} c6:{often} c8:{often}"
    step = next_step(asked, seen(f"{shown} c5:b"))

    assert isinstance(step, Probe)
    assert step.candidate == "c5"
    after = next_step(asked, seen(f"{shown} c5:bg"))
    assert isinstance(after, Found)
    assert (after.last_good, after.first_bad) == ("c5", "c6")


def test_a_torch_built_outside_a_clone_is_no_commit():
    """All such builds say `Unknown`: they would all be one candidate, and `no regression` the answer."""
    said = {"a": "Unknown", "b": "Unknown", "c": "", "d": "", "e": "1" * 40, "f": "1" * 40}
    entries = [{"event": "built", "candidate": name, "facts": {"code": code}} for name, code in said.items()]
    known = State.replay(entries).problem(Problem(candidates=tuple(said), good="a", bad="f"))

    assert known.equal == (("e", "f"),)


@pytest.mark.parametrize("equal", [ALL, ("c6", "c7")], ids=["every build", "the two around the change"])
def test_rates_of_one_commit_that_differ_are_told_apart(equal):
    """-5 % in every pair of one end and 0 % in every pair of the other is a loss, whatever commit both name."""
    dice = random.Random(4)

    def pair(name):
        value = dice.gauss(-0.05 if int(name[1:]) >= 7 else 0.0, 0.005)
        return Observation(candidate=name, conclusion=GOOD, value=value)

    verdict = _searched(next_speed_step, equal, pair)

    assert (verdict.last_good, verdict.first_bad) == ("c6", "c7")
    assert "are said to be the same code, but the runs say otherwise" in verdict.notes[-1]


def test_a_certain_probe_that_tells_equal_ends_apart_is_a_contradiction():
    """`no regression, both endpoints are the same code` of a bad end that failed and a good one that passed."""
    step = next_certain_step(problem(2, equal=(("c0", "c1"),)), seen("c0:g c1:b"))

    assert isinstance(step, Contradiction)
    assert step.reason.startswith("no code change between c0 (good) and c1 (bad)")
    assert step.posterior.none == 1.0


def test_the_report_calls_only_those_one_candidate_that_were_counted_as_one():
    """Of two builds with an untested one between, or that the search told apart, it said that they are one."""
    asked = problem(6, equal=(("c0", "c2", "c3"), ("c4", "c5")))
    rows = [Row(name=name, facts={"code": "1" * 40}) for name in ("c0", "c2", "c3")]
    rows += [Row(name=name, facts={"code": "2" * 40, "git_version": "2" * 40}) for name in ("c4", "c5")]
    line = ordered_line(asked, seen("c0:gg c2:g c3:g c4:gggg c5:bbbb"))
    told = same_code(rows, line)

    assert told[0] == "c3 is the same commit as its neighbour c2: one candidate"
    assert told[1].startswith("c4 and c5 are said to be the same code, but the runs say otherwise")
    assert len(told) == 2
    assert told == same_code([*rows, Row(name="c6", facts={"code": "Unknown"}), Row(name="c7")], line)


@pytest.mark.uv
@pytest.mark.socket
@pytest.mark.subprocess
def test_two_nightlies_of_one_commit_and_others_of_none_end_at_the_first_that_fails(tmp_path):
    """Days 3 and 4 name one commit and differ, the others say `Unknown`: neither may overrule what the runs showed."""
    stubs = [
        Stub(
            version=f"{version(day)}+cu130",
            commit="3" * 40 if day in (3, 4) else "Unknown",
            code=f"answer = {int(day >= 4)}",
        )
        for day in range(7)
    ]
    with served(tmp_path / "index", stubs) as url:
        out = str(tmp_path / "out")
        done = nightlies(tmp_path, url, "--good", "oldest", "--bad", "newest", "--json", "--out", out)
    verdict = json.loads(done.stdout)

    assert (done.returncode, verdict["verdict"]) == (0, "found"), done.stderr
    assert (verdict["last_good"], verdict["first_bad"]) == (version(3), version(4))
    assert verdict["git_range"] is None
    assert "are said to be the same code, but the runs say otherwise" in str(verdict["notes"])
