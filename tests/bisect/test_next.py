"""`python -m bisect next`: the engine for those who make the runs themselves."""

import io
import json
from bisect.cli import main
from bisect.problem_file import OPTIONAL, parse

import pytest

from envs.errors import UsageError

DATA = {
    "candidates": ["d1", "d2", "d3", "d4", "d5"],
    "observations": [["d1", "good"]] * 3 + [["d5", "bad"]] * 3,
    "good": "d1",
    "bad": "d5",
    "confidence": 0.95,
}


def _run(data, capsys, tmp_path, *options):
    path = tmp_path / "problem.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    code = main(["next", "--problem", str(path), *options])
    return code, capsys.readouterr()


def test_the_help_says_everything_that_the_file_may_hold(capsys):
    """Somebody who makes the runs himself found the words of a verdict and the budget by being refused."""
    with pytest.raises(SystemExit):
        main(["next", "--help"])
    told = capsys.readouterr().out
    example = json.loads(next(line for line in told.splitlines() if line.startswith('  {"candidates"')))

    assert parse(json.dumps(example)).problem.good == "a"
    assert "required keys: candidates, observations, good, bad\n" in told
    assert "the verdict one of good, bad, skip" in told
    assert [key for key in OPTIONAL if f"{key}: " not in told and f"`{key}`" not in told] == []
    assert "exit codes: 0 a probe to make, or found; 2 " in told


def test_a_probe_names_the_candidate_and_the_posterior(capsys, tmp_path):
    """A script that reads the promised keys would break."""
    code, output = _run(DATA, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert code == 0
    assert output.err == ""
    assert step["step"] == "probe"
    assert step["candidate"] in ("d2", "d3", "d4")
    assert list(step["posterior"]) == ["d1", "d2", "d3", "d4", "d5", "none"]
    assert sum(step["posterior"].values()) == pytest.approx(1.0)


def test_a_verdict_names_the_neighbours(capsys, tmp_path):
    """The answer would be somewhere else than promised."""
    data = {**DATA, "observations": DATA["observations"] + [["d2", "good"]] * 8 + [["d3", "bad"]] * 8}
    code, output = _run(data, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert code == 0
    assert (step["step"], step["last_good"], step["first_bad"]) == ("found", "d2", "d3")
    assert (step["suspects"], step["direction"]) == (["d3"], "regression")
    assert step["confidence"] >= 0.95
    assert _run(data, capsys, tmp_path)[1].out.startswith("found: last good d2, first bad d3, 99.999 % sure\n")


def test_a_hole_is_narrowed_with_its_suspects(capsys, tmp_path):
    """Exit 0 would read as one culprit found."""
    data = {**DATA, "observations": [*DATA["observations"] * 3, *[["d2", "good"]] * 8, ["d3", "skip"], ["d4", "skip"]]}
    code, output = _run(data, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert code == 4
    assert (step["step"], step["suspects"]) == ("narrowed", ["d3", "d4", "d5"])
    assert "could not be tested: a result for one of them narrows this further\n" in _run(data, capsys, tmp_path)[1].out


def test_one_result_of_a_skipped_candidate_narrows_further(capsys, tmp_path):
    """The sentence under a range would promise what the engine does not do."""
    skipped = [*DATA["observations"] * 3, *[["d2", "good"]] * 8, ["d3", "skip"], ["d4", "skip"]]
    _, output = _run({**DATA, "observations": [*skipped, ["d3", "good"]]}, capsys, tmp_path, "--json")

    assert json.loads(output.out)["suspects"] == ["d4", "d5"]


def test_what_was_seen_outside_the_ends_is_told_to_be_ignored(capsys, tmp_path):
    """A good end named too new would leave out a failure that lies before it, without a word."""
    outside = {**DATA, "good": "d2", "bad": "d4", "observations": [["d1", "bad"], ["d5", "bad"], ["d2", "good"]]}

    assert _run(outside, capsys, tmp_path)[1].err == (
        "note: d1, d5 lie outside the ends d2 and d4: what was seen there is no evidence here\n"
    )
    assert _run(DATA, capsys, tmp_path)[1].err == ""


def test_a_contradiction_invents_nothing(capsys, tmp_path):
    """A first bad candidate would be printed when both ends fail."""
    code, output = _run({**DATA, "observations": [["d1", "bad"]] * 9 + [["d5", "bad"]] * 9}, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert code == 3
    assert (step["step"], step["endpoint"]) == ("contradiction", "d1")
    assert (step["last_good"], step["first_bad"], step["suspects"]) == (None, None, [])


def test_both_ends_clean_is_no_regression_with_what_remains_possible(capsys, tmp_path):
    """`0 of n` would be printed as a proof."""
    code, output = _run(
        {**DATA, "observations": [["d1", "good"]] * 90 + [["d5", "good"]] * 90}, capsys, tmp_path, "--json"
    )
    step = json.loads(output.out)

    assert code == 3
    assert step["step"] == "no-regression"
    assert 0.0 < step["allowed_rate"] < 0.05


def test_a_budget_used_up_is_exhausted(capsys, tmp_path):
    """The search would go on over its budget."""
    code, output = _run({**DATA, "max_runs": 6}, capsys, tmp_path, "--json")

    assert code == 4
    assert json.loads(output.out)["step"] == "exhausted"


def test_no_budget_is_made_up_for_a_long_search_of_somebody_else(capsys, tmp_path):
    """A thousand observations from another cluster would end as exhausted, with 500 runs allowed by nobody."""
    observations = [["d1", "good"]] * 600 + [["d5", "bad"]] * 40 + [["d5", "good"]] * 360
    code, output = _run({**DATA, "observations": observations}, capsys, tmp_path, "--json")

    assert code == 0
    assert json.loads(output.out)["step"] == "probe"


def test_several_workers_by_file_or_option(capsys, tmp_path):
    """A cluster would get one probe at a time."""
    _, by_file = _run({**DATA, "workers": 3}, capsys, tmp_path, "--json")
    _, by_option = _run(DATA, capsys, tmp_path, "--json", "--workers", "3")

    assert by_file.out == by_option.out
    assert len(json.loads(by_file.out)["also"]) == 2


@pytest.mark.parametrize(
    ("observations", "told"),
    [
        pytest.param(
            [["d1", "good"], ["d5", "bad"], ["d5", "bad"]],
            "endpoints are checked first, more than once; fewer probes than workers (1 for 3): "
            "nothing else is run before both ends have answered",
            id="verdicts",
        ),
        pytest.param(
            [["d1", 1.0], ["d5", 0.9], ["d5", 0.9]],
            "endpoints are measured first; pairs of the good one are the A/A noise; "
            "fewer probes than workers (1 for 3): nothing else is run before both ends are measured",
            id="ratios",
        ),
    ],
)
def test_workers_that_get_no_probe_are_told_why(capsys, tmp_path, observations, told):
    """A scheduler that asked for three would take one for an error of its own, or for all there is to run."""
    _, output = _run({**DATA, "observations": observations, "workers": 3}, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert (step["candidate"], step["also"], step["reason"]) == ("d1", [], told)
    assert told in _run({**DATA, "observations": observations, "workers": 3}, capsys, tmp_path)[1].out


def test_stdin_is_read_for_a_dash(monkeypatch, capsys):
    """A pipe would need a temporary file."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(DATA)))

    assert main(["next", "--problem", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == "probe"


def test_throughput_ratios_are_searched_as_throughput(capsys, tmp_path):
    """A loss measured by hand could not be searched by hand."""
    ratios = {"d1": (1.001, 0.999, 1.0), "d2": (1.0, 0.998), "d3": (0.951, 0.949, 0.95), "d5": (0.95, 0.951, 0.949)}
    observations = [[name, ratio] for name, values in ratios.items() for ratio in values] + [["d4", "skip"]]
    code, output = _run({**DATA, "observations": observations}, capsys, tmp_path, "--json")
    step = json.loads(output.out)

    assert code == 0
    assert (step["step"], step["last_good"], step["first_bad"]) == ("found", "d2", "d3")
    assert "-5.0 %" in step["notes"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param("{", "not JSON", id="not json"),
        pytest.param("[]", "the problem is a list, not an object", id="not an object"),
        pytest.param("null", "the problem is null, not an object", id="null"),
        pytest.param("3", "the problem is a number, not an object", id="a number"),
        pytest.param({"candidates": None}, "candidates is null, not a list", id="candidates are no list"),
        pytest.param({"candidates": ["d1", 5]}, "has 5", id="a number for a name"),
        pytest.param({"candidates": ["d1", "d2", "d2", "d5"]}, "given twice: ['d2']", id="duplicate"),
        pytest.param({"good": "d9"}, "endpoint 'd9'", id="good is unknown"),
        pytest.param({"bad": None}, "endpoint None", id="bad is no name"),
        pytest.param({"bad": "d1"}, "same candidate 'd1'", id="one endpoint"),
        pytest.param({"observations": [["d9", "bad"]]}, "'d9'", id="observation of an unknown one"),
        pytest.param({"observations": [["d1", "ugly"]]}, "'ugly'", id="unknown verdict"),
        pytest.param({"observations": [["d1", "retry"]]}, "'retry'", id="a verdict that is none"),
        pytest.param({"observations": [["d1", 0.0]]}, "throughput ratio of 'd1' is 0.0", id="no throughput"),
        pytest.param({"observations": [["d1", 1e300]]}, "between 1e-06 and 1e+06", id="no ratio of two throughputs"),
        pytest.param({"observations": [["d1", True]]}, "says True", id="a truth value"),
        pytest.param({"observations": [["d1", "good"], ["d5", 0.9]]}, "some are throughput ratios", id="mixed"),
        pytest.param({"observations": ["d1"]}, "not an observation", id="observation is no pair"),
        pytest.param({"confidence": 1.5}, "confidence is 1.5", id="confidence"),
        pytest.param({"confidence": "high"}, "confidence is 'high'", id="confidence is no number"),
        pytest.param({"max_runs": 0}, "max_runs is 0", id="budget"),
        pytest.param({"workers": True}, "workers is True", id="workers"),
        pytest.param({"cached": ["d9"]}, "cached candidate 'd9'", id="cached"),
        pytest.param({"equal": [["d1", "d9"]]}, "equal candidate 'd9'", id="equal"),
        pytest.param({"pending": ["d9"]}, "pending candidate 'd9'", id="pending"),
        pytest.param({"build_cost": 10**400}, "build_cost is 1000", id="a cost of 400 digits"),
        pytest.param({"observations": [["d1", 10**400]]}, "throughput ratio of 'd1'", id="a ratio of 400 digits"),
        pytest.param('{"max_runs": ' + "1" * 5000 + "}", "not JSON", id="a number of 5,000 digits"),
        pytest.param({"candidates": ["d1", "\ud800", "d5"]}, r"'\ud800', which is no name", id="a surrogate"),
        pytest.param({"candidates": ["d1", "d\n2", "d5"]}, r"'d\n2', which is no name", id="a line break"),
        pytest.param({"candidates": ["d1", "\x1b[2J", "d5"]}, r"'\x1b[2J', which is no name", id="an escape code"),
        pytest.param({"workers": 10**18}, "workers is above 1000", id="more workers than any cluster"),
        pytest.param('{"good": "d1", "good": "d2"}', "keys given twice: ['good']", id="a key twice"),
        pytest.param({"candidate": []}, "unknown keys ['candidate']", id="misspelt key"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(change, message, capsys, tmp_path):
    """A typing error would be answered with a traceback or, worse, a step."""
    code, output = _run(change if isinstance(change, str) else {**DATA, **change}, capsys, tmp_path, "--json")

    assert code == 2
    assert message in output.err
    assert "hint: " in output.err
    assert output.out == ""


def test_a_missing_key_and_a_missing_file_are_usage_errors(capsys, tmp_path):
    """An empty search would start, or a traceback appear."""
    with pytest.raises(UsageError, match=r"lacks \['observations'\]"):
        parse(json.dumps({key: value for key, value in DATA.items() if key != "observations"}))
    assert main(["next", "--problem", str(tmp_path / "nowhere.json")]) == 2
    assert "nowhere.json" in capsys.readouterr().err


def test_a_file_nested_beyond_all_bounds_is_a_usage_error(capsys, tmp_path):
    """A traceback and exit 1 would call a broken file a bug of ours."""
    code, output = _run("[" * 100_000, capsys, tmp_path)

    assert (code, output.err.startswith("error: the problem is not JSON")) == (2, True)


def test_a_byte_order_mark_is_no_part_of_the_problem(capsys, tmp_path):
    """An editor on Windows would make every problem unreadable."""
    assert _run("\ufeff" + json.dumps(DATA), capsys, tmp_path)[0] == 0


def test_no_candidate_takes_the_name_of_no_change(capsys, tmp_path):
    """Its probability would be overwritten by that of no change, and the posterior would not add up."""
    code, output = _run({**DATA, "candidates": [*DATA["candidates"], "none"]}, capsys, tmp_path)

    assert (code, output.err.startswith("error: a candidate is named 'none'")) == (2, True)


@pytest.mark.parametrize("rounds", [1, 5])
def test_runs_that_were_all_skipped_are_the_reason_that_is_given(capsys, tmp_path, rounds):
    """A script whose every run fails would be asked for the same candidate again and again without a word."""
    data = {**DATA, "observations": [[name, "skip"] for name in DATA["candidates"]] * rounds}

    _, output = _run(data, capsys, tmp_path)

    assert f"all {5 * rounds} runs so far were skipped, {rounds} of them of d5" in output.out


def test_an_endpoint_that_was_skipped_is_named_in_the_reason(capsys, tmp_path):
    """The one end that cannot be tested would be hidden by the runs of the others."""
    data = {**DATA, "observations": [["d1", "good"]] * 3 + [["d5", "skip"]] * 2}

    _, output = _run(data, capsys, tmp_path)

    assert "d5 was skipped 2 times so far" in output.out


def test_groups_that_share_a_candidate_are_one_group(capsys, tmp_path):
    """A change would be reported between d2 and d3, which were declared the same code."""
    answers = [["d2", "good"]] * 8 + [["d5", "bad"]] * 8
    data = {**DATA, "equal": [["d3", "d4"], ["d2", "d3"]], "observations": DATA["observations"] + answers}
    code, output = _run(data, capsys, tmp_path)

    assert code == 0
    assert output.out.startswith("found: last good d4, first bad d5")
    assert output.err == ""


def test_equal_candidates_that_do_not_lie_side_by_side_are_told(capsys, tmp_path):
    """They were run and blamed one by one, and nobody was told that the group meant nothing."""
    code, output = _run({**DATA, "equal": [["d2", "d4"], ["d4", "d5"]]}, capsys, tmp_path, "--json")

    assert code == 0
    assert json.loads(output.out)["step"] == "probe"
    assert output.err == (
        "note: d2 and d4, d5 are equal and do not lie side by side: only neighbours are taken for one candidate, so "
        "they count as 2\n"
    )
