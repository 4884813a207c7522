"""The reader of result files: the golden files are the contract, everything damaged is refused with a reason."""

from __future__ import annotations

import json
import math
from bisect.result import Answer
from bisect.result_file import ResultError, parse_hazards, parse_train
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def train():
    return json.loads((GOLDEN / "train.json").read_text())


@pytest.fixture
def hazards():
    return json.loads((GOLDEN / "hazards.json").read_text())


def test_the_golden_training_result_is_read_whole():
    """The writer and the reader would disagree about the file that joins them."""
    result = parse_train((GOLDEN / "train.json").read_text())

    assert result.finished
    assert [thread.name for thread in result.drafters] == ["drafter-0", "drafter-1"]
    failure = next(failure for thread in result.threads for failure in thread.exceptions)
    assert (failure.type, failure.step, failure.phase, failure.fx_flag) == ("RuntimeError", 2, "forward", True)
    assert result.process.recompile_limit_hits[0].limit == 8
    assert result.environment.torch == "2.11.0+cu130"


def test_the_golden_hazards_are_read_whole():
    """A hazard that leaks would be read as one that was not tested."""
    result = parse_hazards((GOLDEN / "hazards.json").read_text())

    assert result.answer("fx_flag_trace") is Answer.LEAKS
    assert result.answer("no_such_probe") is None


def test_every_key_of_the_golden_file_is_known_or_knowingly_ignored(train):
    """A key the writer adds could be dropped here without anybody noticing."""
    result = parse_train(json.dumps(train))

    def missing(value, record, path):
        for key, item in value.items():
            if not hasattr(record, key):
                yield f"{path}.{key}"
            elif isinstance(item, dict) and hasattr(getattr(record, key), "__dataclass_fields__"):
                yield from missing(item, getattr(record, key), f"{path}.{key}")

    assert list(missing(train, result, "$")) == []


def test_new_keys_are_ignored_at_every_level(train):
    """A newer benchmark that writes one more number would make every old reader useless."""
    train["new"] = 1
    train["threads"][0]["new"] = {"a": [1]}
    train["process"]["new"] = None
    train["environment"]["new"] = "x"

    assert parse_train(json.dumps(train)).finished


def test_a_killed_run_is_read_with_what_it_has(train):
    """The evidence of a segfault would be thrown away with the run."""
    killed = {key: train[key] for key in ("schema", "kind", "phase", "config", "environment")}
    result = parse_train(json.dumps({**killed, "finished": False, "process": None, "throughput": None}))

    assert not result.finished
    assert result.process is None
    assert result.num_drafters == 3


def test_losses_that_are_not_numbers_survive(train):
    """A NaN would make the reader refuse the very file that proves it."""
    train["threads"][0]["losses"] = [5.6, float("nan"), None, float("inf")]
    losses = parse_train(json.dumps(train)).threads[0].losses

    assert [math.isfinite(loss) for loss in losses] == [True, False, False, False]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "schema 2 is newer than 1"),
        ({"schema": 0}, "schema 0 was never written"),
        ({"schema": "1"}, "schema: expected a number"),
        ({"schema": True}, "schema: expected a number"),
        ({"kind": "hazards"}, "expected a result of kind 'train'"),
        ({"kind": None}, "expected a result of kind 'train'"),
        ({"finished": "yes"}, r"\$\.finished: expected bool, got str 'yes'"),
        ({"threads": {}}, r"\$\.threads: expected a list, got an object"),
        ({"threads": [{"name": "a", "role": "drafter", "steps": 1.5}]}, r"\$\.threads\[0\]\.steps: expected int"),
        ({"threads": [{"name": "a", "role": "drafter", "steps": True}]}, r"\$\.threads\[0\]\.steps: expected int"),
        ({"threads": [{"role": "drafter"}]}, r"\$\.threads\[0\]\.name: missing"),
        ({"environment": []}, r"\$\.environment: expected an object"),
        ({"environment": {"torch": 2.11}}, r"\$\.environment\.torch: expected str"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(train, change, reason):
    """A damaged file would be believed, or refused without a word of why."""
    with pytest.raises(ResultError, match=reason):
        parse_train(json.dumps({**train, **change}))


def test_an_unknown_answer_is_refused(hazards):
    """A new answer would pass for one of the four that are understood."""
    hazards["hazards"][0]["answer"] = "maybe"

    with pytest.raises(ResultError, match=r"\$\.hazards\[0\]\.answer: expected one of leaks, safe"):
        parse_hazards(json.dumps(hazards))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("\x00\xff garbage", "not JSON"),
        ("[]", "expected a JSON object, got list"),
        ("null", "expected a JSON object"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_result_is_refused(text, reason):
    """Any file at all could be taken for a result."""
    with pytest.raises(ResultError, match=reason):
        parse_train(text)


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_truncated_file_is_refused_wherever_it_was_cut(cut):
    """A half-written file would be read as a whole one."""
    text = (GOLDEN / "train.json").read_text().rstrip()
    shorter = text[: cut % len(text)]

    with pytest.raises(ResultError):
        parse_train(shorter)
