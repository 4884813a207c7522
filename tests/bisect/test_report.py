"""The report of a search: the verdict first, counts per candidate, reasons, and JSON whose keys are a promise."""

import json
from bisect.journal import Contents, Journal
from bisect.model import Contradiction, Exhausted, Found, Narrowed, NoRegression, Posterior, Probe
from bisect.probability import percent
from bisect.report import EXIT_CODES, Report, exit_code, proof_of, sentence, verdict_name
from bisect.report_json import as_json
from bisect.report_rows import rows_of, same_code
from bisect.report_text import markdown, render
from bisect.search_report import report_of, write_reports
from dataclasses import replace

import pytest

from .fake_python import GOLDEN
from .searches import HEADER

POSTERIOR = Posterior(by_candidate=(("2.8.0", 0.0), ("2.9.0", 0.02), ("2.10.0", 0.98)), none=0.001)
PROMISED = {
    "schema",
    "kind",
    "verdict",
    "direction",
    "last_good",
    "first_bad",
    "confidence",
    "runs",
    "candidates",
    "skipped",
    "git_range",
    "reproduce",
    "journal",
}


def observed(candidate, conclusion, outcome, run, **fields):
    return {
        "event": "observed",
        "candidate": candidate,
        "conclusion": conclusion,
        "outcome": outcome,
        "run": run,
        "seconds": 10.0,
        "value": None,
        "node": "",
        "evidence": [],
        "reason": "",
        **fields,
    }


ENTRIES = (
    {
        "event": "plan",
        "candidates": [
            {"id": name, "date": f"2025-0{at}-01"} for at, name in enumerate(("2.8.0", "2.9.0", "2.10.0"), 1)
        ],
    },
    {"event": "built", "candidate": "2.9.0", "facts": {"git_version": "a" * 40, "cuda": "12.8"}},
    {"event": "built", "candidate": "2.10.0", "facts": {"git_version": "b" * 40, "cuda": "12.8"}},
    observed("2.8.0", "skip", "not_published", "", reason="no wheel"),
    observed("2.9.0", "good", "ok", "run-0001"),
    observed("2.10.0", "good", "ok", "run-0002"),
    observed("2.10.0", "bad", "fx_flag_race", "run-0003", evidence=["RuntimeError: Detected"]),
)
CONTENTS = Contents(header={"command": "torch-releases"}, entries=ENTRIES, whole_bytes=0)


def found(direction="regression", **fields):
    values = {"last_good": "2.9.0", "first_bad": "2.10.0", "direction": direction, "confidence": 0.981}
    return Found(**{**values, **fields}, posterior=POSTERIOR)


def report(step):
    return Report(
        kind="torch-releases",
        hunted="fx_flag_race",
        step=step,
        rows=rows_of(CONTENTS, step),
        excluded=(("2.9.1", "no cp311 wheel"),),
        proof=proof_of(CONTENTS, step),
        reproduce=("python -m bisect torch-releases --good 2.8.0 --bad 2.10.0",),
        journal="runs/x/journal.jsonl",
        lock_diff=("triton 3.5.1 -> 3.6.0",),
    )


def test_a_good_build_that_fails_otherwise_is_no_safe_upgrade():
    """`fixed: first good 2.10.0` is read as a build to go to; it still died in two runs of three, of another race."""
    runs = [
        ("2.9.0", "bad", "fx_flag_race"),
        ("2.10.0", "good", "other_thread_race(mask_metadata)"),
        ("2.10.0", "good", "ok"),
        ("2.10.0", "good", "other_thread_race(mask_metadata)"),
        ("2.10.0", "skip", "build_failed"),
    ]
    entries = [ENTRIES[0], *(observed(*run, f"run-{number}") for number, run in enumerate(runs))]
    step = found("fix", last_good="2.10.0", first_bad="2.9.0")
    rows = rows_of(Contents(header={}, entries=tuple(entries), whole_bytes=0), step)
    told = Report(kind="", hunted="fx_flag_race", step=step, rows=rows, excluded=(), proof=(), reproduce=(), journal="")

    assert told.notes == (
        "good only as to fx_flag_race, runs that failed otherwise: 2.10.0 in 2 of 3 (other_thread_race(mask_metadata))",
    )


def test_what_a_hazard_or_a_command_answers_is_no_other_failure():
    """`safe` and exit codes would be told as failures of good builds."""
    entries = [ENTRIES[0], observed("2.9.0", "good", "safe", "run-1"), observed("2.9.0", "good", "exit 0", "run-2")]

    rows = rows_of(Contents(header={}, entries=tuple(entries), whole_bytes=0), found())

    assert [row.otherwise for row in rows] == [(), (), ()]


STEPS = {
    "found": found(),
    "narrowed": Narrowed(
        last_good="2.8.0",
        first_bad="2.10.0",
        suspects=("2.9.0", "2.10.0"),
        direction="regression",
        confidence=0.97,
        posterior=POSTERIOR,
        reason="1 candidate between the neighbours could not be tested",
    ),
    "no-regression": NoRegression(confidence=0.96, allowed_rate=0.3, posterior=POSTERIOR, reason="not reproduced"),
    "contradiction": Contradiction(
        endpoint="2.8.0", reason="the good endpoint fails like the bad one", posterior=POSTERIOR
    ),
    "exhausted": Exhausted(suspects=("2.9.0",), confidence=0.5, posterior=POSTERIOR, reason="500 runs were made"),
    "unfinished": Probe(candidate="2.9.0", posterior=POSTERIOR),
}


@pytest.mark.parametrize("name", STEPS)
def test_every_verdict_has_its_promised_keys_and_exit_code(name):
    """Scripts on a cluster read these keys and branch on these codes."""
    data = json.loads(json.dumps(as_json(report(STEPS[name]))))

    assert data.keys() >= PROMISED
    assert verdict_name(STEPS[name]) == name == data["verdict"]
    codes = {"found": 0, "narrowed": 4, "exhausted": 4, "no-regression": 3, "contradiction": 3, "unfinished": 130}
    assert EXIT_CODES[name] == codes[name]


@pytest.mark.parametrize(
    ("ended", "verdict", "code"),
    [
        ((), "found", 0),
        (("narrowed",), "narrowed", 4),
        ((), "unfinished", 130),
        (("refused",), "unfinished", 5),
        (("refused", "built"), "unfinished", 130),
        (("abort",), "unfinished", 6),
        (("abort", "asked"), "unfinished", 130),
        (("refused", "built", "found"), "found", 0),
    ],
)
def test_a_report_exits_as_its_search_did(ended, verdict, code):
    """A script that asks for the report later would take an end that cannot be built for an answer."""
    kinds = {
        "refused": {"event": "refused", "candidate": "1", "reason": "no wheel"},
        "built": {"event": "built", "candidate": "1"},
        "abort": {"event": "observed", "candidate": "1", "conclusion": "abort"},
        "asked": {"event": "asked"},
    }
    entries = tuple(kinds.get(word, {"event": "verdict", "verdict": word}) for word in ended)

    assert exit_code(verdict, Contents(header={}, entries=entries, whole_bytes=0)) == code


@pytest.mark.parametrize("kind", ["torch-releases", "torch-nightlies"])
def test_the_branch_of_nightlies_is_told_of_nightlies_only(kind):
    """The commits of two releases would be looked for on a branch where they are not."""
    text = render(replace(report(STEPS["found"]), kind=kind))

    assert ("nightly branch" in text) is (kind == "torch-nightlies")
    assert "github.com/pytorch/pytorch/compare" in text


@pytest.mark.parametrize("name", ["no-regression", "contradiction", "exhausted"])
def test_nothing_is_invented_where_nothing_was_found(name):
    """C20, C22: no culprit section, last_good and first_bad are null, and the reason is there."""
    data = as_json(report(STEPS[name]))

    assert (data["last_good"], data["first_bad"], data["git_range"]) == (None, None, None)
    assert data["reason"]
    assert "compare" not in render(report(STEPS[name]))


def test_a_regression_reads_as_one():
    """The first line is what people repeat."""
    assert sentence(report(found())) == (
        "regression: last good 2.9.0, first bad 2.10.0 (fx_flag_race; 98 % sure after 3 runs)"
    )


def test_a_fix_reads_as_one():
    """`fixed: last bad ..., first good ...`: the neighbours keep their roles when the good one is newer."""
    step = found("fix", last_good="2.10.0", first_bad="2.9.0")

    assert sentence(report(step)).startswith("fixed: last bad 2.9.0, first good 2.10.0 (")
    assert as_json(report(step))["git_range"] == f"{'a' * 40}..{'b' * 40}"


def test_counts_leave_skips_out_and_keep_their_reasons():
    """C05: infrastructure errors are not votes; 1/2 must not become 1/3."""
    data = as_json(report(found()))
    counts = {row["id"]: (row["bad"], row["runs"]) for row in data["candidates"]}

    assert counts == {"2.8.0": (0, 0), "2.9.0": (0, 1), "2.10.0": (1, 2)}
    assert data["runs"] == 3
    assert data["skipped"] == [{"candidate": "2.8.0", "outcome": "not_published", "reason": "no wheel"}]


def test_the_report_shows_the_proof_and_the_commits():
    """G04, G07, G13: both hashes, a compare link, the log line of a bad run, and how to reproduce it."""
    text = render(report(found()))

    assert "2.10.0 run-0003: RuntimeError: Detected" in text
    assert f"compare/{'a' * 40}...{'b' * 40}" in text
    assert "triton 3.5.1 -> 3.6.0" in text
    assert text.index("regression:") < text.index("reproduce with:")


def test_the_issue_text_is_the_golden_one():
    """What people paste must keep its form."""
    assert markdown(report(found())) + "\n" == (GOLDEN / "search_report.md").read_text()


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "> 99.999 %"), (1 - 1e-9, "> 99.999 %"), (0.9999949, "99.999 %"), (0.9996, "99.96 %"), (0.95, "95 %"),
        (0.981, "98 %"), (0.001, "0.1 %"), (1e-9, "< 0.001 %"), (0.0, "0 %"),
    ],
)  # fmt: skip
def test_certainty_is_never_rounded_up(share, text):
    """99.96 % printed as 100 %, or a billionth less than 1, is a claim nobody made; nor is a chance rounded to none."""
    assert percent(share) == text


CERTAIN = "each settles its build as long as the probe always answers the same"


def _files(directory, answers):
    """The report's files by suffix, of a search with a probe that is taken at its word."""
    candidates = [{"id": name, "date": "", "version": name} for name in answers]
    plan = {
        "candidates": candidates, "good": "2.13", "bad": "2.16", "equal": [], "cached": [], "hunted": "fx_flag_trace",
        "certain": True, "throughput": False, "min_effect": 0.01, "excluded": [],
    }  # fmt: skip
    journal = Journal.create(directory / "journal.jsonl", HEADER)
    journal.append("plan", **plan)
    journal.append("asked", confidence=0.95, max_runs=300)
    runs = [(name, answer) for name, each in answers.items() for answer in each.split()]
    for number, (name, answer) in enumerate(runs):
        fields = {"drift": None, "stalled": 0.0, **observed(name, answer, "ok", f"run-{number:04d}")}
        journal.append(fields.pop("event"), **fields)
    journal.close()
    write_reports(report_of(directory), directory)
    return {path.suffix: path.read_text() for path in directory.glob("report.*")}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        pytest.param(
            {"2.13": "good", "2.14": "good good", "2.15": "bad bad", "2.16": "bad"},
            f"regression: last good 2.14, first bad 2.15 (fx_flag_trace; 6 runs, {CERTAIN})",
            id="found",
        ),
        pytest.param(
            {"2.13": "good good", "2.14": "skip", "2.15": "bad bad", "2.16": "bad"},
            f"narrowed: last good 2.13, first bad 2.15; the change is in one of 2.14, 2.15 (fx_flag_trace; 5 runs, "
            f"{CERTAIN}): 1 candidate between the neighbours could not be tested",
            id="narrowed",
        ),
        pytest.param(
            {"2.13": "good good", "2.14": "", "2.15": "", "2.16": "good good"},
            f"no regression in the range (fx_flag_trace; 4 runs, {CERTAIN}): "
            "the bad endpoint 2.16 does not show the failure",
            id="no regression",
        ),
    ],
)
def test_a_probe_taken_at_its_word_makes_nobody_100_percent_sure(tmp_path, answers, told):
    """`100 % sure after 5 runs` is known of nothing: the answer rests on the probe answering the same every time."""
    files = _files(tmp_path, answers)

    assert set(files) == {".txt", ".md", ".html", ".json"}
    assert all(told in text for text in files.values())
    assert not any("% sure" in text or ">100 %<" in text for text in files.values())
    assert json.loads(files[".json"])["confidence"] == 1.0


def test_the_page_of_a_certain_search_says_what_is_ruled_out_instead_of_a_probability(tmp_path):
    """The one candidate that is left would stand there with a probability of 100 %."""
    page = _files(tmp_path, {"2.13": "good", "2.14": "good good", "2.15": "bad bad", "2.16": "bad"})[".html"]

    assert page.count(">ruled out</td>") == 3
    assert page.count(">possible</td>") == 1
    assert "2.15: possible, 2/2 runs failed (first bad)" in page
    assert "as long as the probe always answers the same: then each run settles its build." in page


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        (0.3, "not reproduced; the clean runs still allow a failure rate of 30 %"),
        (1.0, "not reproduced"),
        (0.0, "not reproduced"),
    ],
)
def test_no_rate_is_excluded_where_nothing_is_known_of_one(allowed, told):
    """Two ends of the same code would still `allow a failure rate of 100 %`, or of 0 %."""
    step = NoRegression(confidence=0.96, allowed_rate=allowed, posterior=POSTERIOR, reason="not reproduced")

    assert sentence(report(step)).endswith(f"; 3 runs): {told}")


def test_a_throughput_search_counts_pairs_and_shows_ratios():
    """The question is how fast, so a failure count would be nonsense: 97 % of the baseline over two pairs."""
    entries = [*ENTRIES[:3], observed("2.9.0", "good", "ok", "run-0001", value=0.0)]
    entries += [observed("2.10.0", "good", "ok", f"run-000{at}", value=value) for at, value in ((2, -0.02), (3, -0.04))]
    contents = Contents(header={"command": "torch-releases"}, entries=tuple(entries), whole_bytes=0)
    fields = {"excluded": (), "proof": (), "reproduce": (), "journal": ""}
    step = found()
    made = Report(kind="torch-releases", hunted="throughput", step=step, rows=rows_of(contents, step), **fields)

    assert "97.0 % (85.5 to 110.2, 2 pairs)" in render(made)
    assert "100.0 % (83.6 to 119.7, 1 pairs)" in render(made)
    assert "after 3 pairs of runs" in sentence(made)
    same = replace(made, step=STEPS["no-regression"])
    assert sentence(same).endswith("; the pairs still allow a loss of 30 %")
    assert as_json(made)["candidates"][2]["throughput_ratio"] == 0.97045
    assert as_json(made)["candidates"][2]["throughput_interval"] == pytest.approx([0.855, 1.102], abs=0.001)


def test_equal_commits_are_told():
    """B29, B30: two dates of one commit were one candidate; a reader who does not know it looks for a difference."""
    entries = [dict(entry) for entry in ENTRIES]
    for entry in entries[1:3]:
        entry["facts"] = {"code": "c" * 40}
    contents = Contents(header={"command": "torch-nightlies"}, entries=tuple(entries), whole_bytes=0)

    assert same_code(rows_of(contents, found())) == ("2.10.0 is the same commit as its neighbour 2.9.0: one candidate",)
