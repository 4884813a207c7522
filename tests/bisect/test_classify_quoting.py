"""An error that a log only quotes is no failure of its run; the same text in any form that a failure takes is one."""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.logs.passages import quoted_lines
from bisect.logs.text import read_lines
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX, ST

MESSAGE = FX.removeprefix("RuntimeError: ")
FRAME = '  File "/env/torch/_dynamo/eval_frame.py", line 1039, in compile_wrapper\n'
TRACEBACK = f"Traceback (most recent call last):\n{FRAME}    raise RuntimeError(\n{FX}\n"
COMMIT = "commit 1234567890abcdef1234567890abcdef12345678\nAuthor: A <a@b.c>\nDate:   Mon Nov 30 01:00:00 2026\n\n"

QUOTED = (
    f"train.log:123:{FX}",
    f"train.log:123: {FX}",
    f"./runs/2026/slurm-77.out:88:[rank3]: {FX}",
    f"runs/a/train.log:{FX}",
    f"logs/train.log.1:9:{FX}",
    f"train.log-122-{FX}",
    f"HEAD:docs/known.md:12:{FX}",
    f"123:{FX}",
    f"2026-11-29 12:00:01,123 train.log:123:{FX}",
    f'torch/_dynamo/eval_frame.py:1039:        raise RuntimeError("{MESSAGE}")',
    f'torch/_dynamo/eval_frame.py:1040:            "{MESSAGE}"',
    f"XFAIL tests/test_race.py::test_fx - {FX}",
    f"tests/test_race.py::test_fx XFAIL ({MESSAGE}) [ 50%]",
    f"SKIPPED [1] tests/test_race.py:12: {MESSAGE}",
    f'@pytest.mark.xfail(reason="{MESSAGE}")',
    f"test_fx (tests.T) ... expected failure: {FX}",
    f'    with pytest.raises(RuntimeError, match="{MESSAGE}"):',
    f"===== XFAILURES =====\n_____ test_fx _____\n\n>       f(x)\n\nE   {FX}\n\nx.py:3: RuntimeError\n===== 1 xfailed in 2.0s =====",
    f"{COMMIT}    Catch the flag\n\n    {FX}\n",
    f"a1b2c3d (HEAD -> main) {MESSAGE}",
    f"* a1b2c3d4e Fix {FX}",
    f"HEAD is now at a1b2c3d {MESSAGE}",
    f'Work around "{MESSAGE}" (#123)',
    f"fix(train): {MESSAGE}",
    f"Subject: [PATCH] {FX}",
    f'+    raise RuntimeError("{MESSAGE}")',
    f'-        "{MESSAGE}"',
    f"--- a/golden.txt\n+++ b/golden.txt\n@@ -1,2 +1,3 @@\n step 1\n+{FX}\n step 2",
    f"12c12\n< {FX}\n---\n> no error",
    f'{FRAME}    raise RuntimeError("{MESSAGE}")',
    f'    "{MESSAGE}"',
    f'\u2502 \u2771 1039 \u2502   raise RuntimeError("{MESSAGE}") \u2502',
    f'---> 12 raise RuntimeError("{MESSAGE}")',
    f"    except RuntimeError:  # {MESSAGE}",
    f"> {FX}",
    f"pytorch/pytorch#126024: {MESSAGE}",
    f"INFO known issue of this build: {MESSAGE}",
    f'INFO searching the log for "{MESSAGE}"',
    f'occurrences of "{MESSAGE}": 0',
    f"docs say `{MESSAGE}` here",
    f"train.log: fx_flag_race. Proof: line 12: {FX}",
)

SENTENCES = (
    f"CHANGELOG: fixed {FX} (#123)",
    f"CHANGELOG: fixed {FX}",
    f"train: serialise compilation, {FX} (#12345)",
    f"torch 2.14 fixes {FX}",
    f"2026-11-29 12:00:01 INFO upgrade note - resolved the {FX}",
    f'INFO docs: a run may show "{FX}"',
    f"WARNING: several threads can sometimes raise {FX}",
    f"[drafter-1] INFO one lock prevents {FX}",
    f'please see "{FX}"',
    f"e.g. {FX}",
    f'INFO if you see "{FX}" take the lock',
    f"without {FX}",
    f'"{FX}" is fixed in 2.14',
    f"{FX.rstrip('.')} no longer occurs",
)

OPEN = (
    f'the message "{FX}" is in the wiki',
    f'INFO watcher pattern "{MESSAGE}" loaded',
    f"drafter-1 failed, see {FX}",
)

REPORTED = (
    FX,
    MESSAGE,
    f"Exception in thread Thread-2 (train):\n{TRACEBACK}",
    "".join(f"[rank3]: {line}\n" for line in TRACEBACK.splitlines()),
    "".join(f"(WorkerDict pid=12) {line}\n" for line in TRACEBACK.splitlines()),
    "".join(f"2: {line}\n" for line in TRACEBACK.splitlines()),
    "".join(f"2026-11-29T12:00:01.123456789Z {line}\n" for line in TRACEBACK.splitlines()),
    "".join(f"2026-11-29T12:00:01.123456789Z stderr F {line}\n" for line in TRACEBACK.splitlines()),
    "".join(f"node03: {line}\n" for line in TRACEBACK.splitlines()),
    f"E       {FX}",
    f"FAILED tests/test_race.py::test_fx - {FX}",
    f"/x/tests/test_race.py:12: {FX}",
    f"ERROR:train:{MESSAGE}",
    f"2026-11-29 12:00:01 - trainer - ERROR - {FX}",
    f"2026-11-29 12:00:01.123 | ERROR    | __main__:train:33 - {FX}",
    f"E1129 12:00:01.123456 77 train.py:33] worker 2: {MESSAGE}",
    f"train.py:33:{FX}",
    f"12:00:01:{FX}",
    f"drafter-1 died: RuntimeError('{MESSAGE}')",
    f'level=error msg="{FX}"',
    f'  "errors": [\n    "{FX}"\n  ]',
    f'errors:\n  - "{FX}"',
    f"    | {FX}",
    f" 12%|#2  | 12/100 [00:10<01:10]{FX}",
    f"##[error]{FX}",
    f"Ignoring exception in worker: {FX}",
    f"==> train.log <==\n{FX}",
    f"{COMMIT}    Tune the batch\n\n{TRACEBACK}",
    f"@@ -1,2 +1,2 @@\n step 1\n-x\n+ok\n{TRACEBACK}",
    f"===== XFAILURES =====\nE   {FX}\n===== FAILURES =====\nE   {FX}",
    f"XFAIL tests/a.py::b - too slow\nE   {FX}",
    f"drafter-1 failed: {FX}",
    f"caught {FX}",
    f'caught "{FX}" in drafter-1',
    f'drafter-1 raised "{FX}"',
    f'step 3 failed with "{FX}"',
    f"drafter-1 could not be fixed: {FX}",
    f"the lock fixed nothing: {FX}",
    f"fix applied, drafter-1 still raises {FX}",
    f"we now see {FX}",
    f"retrying on {FX}",
    f"not recoverable: {FX}",
    f"see the traceback below; drafter-2 died: {FX}",
    f"drafter-1 died: {FX} (#123)",
    f"drafter-1: {FX} (attempt #12)",
    f"known good build, drafter-1: {FX}",
)


def seen(log, **evidence):
    found = classify(Evidence(log=log, threads=3, **evidence))
    return "fx_flag_race" in [str(outcome) for outcome in (found.outcome, *found.secondary)]


@pytest.mark.parametrize("log", QUOTED)
def test_a_quoted_error_is_no_hit(log):
    """A log that was searched, a test that expects the error or a commit about it would count as BAD."""
    assert not seen(log)

    found = classify(Evidence(log=f"step 0 loss 9.1\n{log}\n{ST}", returncode=0, threads=3))

    assert str(found.outcome) == "ok"
    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.GOOD


@pytest.mark.parametrize("line", SENTENCES)
def test_a_sentence_about_an_error_is_no_failure_of_the_run(line):
    """A line of a changelog in the middle of a healthy run would count as BAD, swallowed."""
    found = classify(Evidence(log=f"step 1 loss 2\n{line}\nstep 2 loss 1\n", returncode=0, threads=3))

    assert (str(found.outcome), found.secondary, found.flags) == ("ok", (), ())
    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.GOOD


@pytest.mark.parametrize("line", OPEN)
def test_a_quotation_that_may_be_a_report_gives_no_vote(line):
    """It would be taken for a failure, or for a clean run, by the toss of a word."""
    found = classify(Evidence(log=f"step 1 loss 2\n{line}\nstep 2 loss 1\n", returncode=0, threads=3))

    assert str(found.outcome) == "unknown"
    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.SKIP
    assert "quotation" in found.advice
    assert FX[14:60] in found.evidence[0]


@pytest.mark.parametrize("log", REPORTED)
def test_an_error_that_happened_is_a_hit_behind_whatever_stands_before_it(log):
    """A prefix of a launcher or a logger would be taken for a quotation, and the race for a clean run."""
    assert seen(log)
    assert seen(f"step 0 loss 9.1\n{log}\n{ST}", returncode=0)


@pytest.mark.parametrize(
    "line",
    [
        "No space left on device? no, 1TB free",
        "disk full: no",
        "Segmentation fault handler installed",
        "installed SIGSEGV handler",
        "Signal handlers for SIGBUS, SIGSEGV installed",
        "faulthandler enabled for SIGSEGV, SIGFPE, SIGABRT",
        "segmentation faults: 0",
        "has a CUDA error occurred? no",
        "SIGKILL: none received",
        "CUDA out of memory errors: 0",
        "deadlock detection enabled",
        "preempted: no",
    ],
)
def test_what_a_line_asks_denies_or_guards_against_did_not_happen(line):
    """A check of the disk would stop a search, and a handler that was installed would be a crash."""
    found = classify(Evidence(log=f"{line}\n{ST}", returncode=0, threads=3))

    assert (str(found.outcome), found.secondary) == ("ok", ())


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("disk_full", "OSError: [Errno 28] No space left on device: 'no'"),
        ("segfault", "*** SIGSEGV handler called"),
        ("segfault", "handler: Segmentation fault"),
        ("segfault", "Segmentation fault (core dumped)"),
    ],
)
def test_what_happened_is_not_denied_by_the_words_beside_it(expected, line):
    """A crash that its handler reports would be a clean run."""
    assert str(classify(Evidence(log=f"{ST}{line}\n", returncode=1)).outcome) == expected


def test_a_hunk_ends_where_its_header_says():
    """A failure printed behind a diff would be taken for a part of it."""
    lines = read_lines(["@@ -1,2 +1,2 @@\n a\n-b\n+c\n    indented\n"])

    assert quoted_lines(lines) == {0, 1, 2, 3}
