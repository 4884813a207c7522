"""`python -m bisect classify`: files of every make on the way in, one JSON row or one paragraph a file on the way out."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import subprocess
import sys
from bisect.commands import classify as command
from pathlib import Path

import pytest

from envs.errors import UsageError

ROOT = Path(__file__).parents[2]
FX = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function."


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    stdout, stderr = io.StringIO(), io.StringIO()
    code = command.run(parser.parse_args([str(argument) for argument in arguments]), stdout=stdout, stderr=stderr)
    assert code == 0
    assert stderr.getvalue() == ""
    return stdout.getvalue()


def rows(*arguments):
    return json.loads(run("--json", *arguments))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(f"step 1 loss 9.1\nException in thread Thread-2:\n{FX}\n")
    return path


def test_a_row_has_the_promised_keys(log):
    """A script on a cluster that reads the output would break."""
    (row,) = rows(log, "--rc", 1, "--threads", 3, "--control", "clean")

    assert {"file", "class", "evidence", "conclusion", "secondary", "advice"} <= row.keys()
    assert (row["file"], row["class"], row["conclusion"]) == (str(log), "fx_flag_race", "bad")
    assert row["secondary"] == []
    assert any("line 3" in line for line in row["evidence"])


def test_several_files_give_one_row_each_in_their_order(log, tmp_path):
    """The answer of one file would be read as another's."""
    empty = tmp_path / "empty.log"
    empty.write_text("")

    assert [row["class"] for row in rows(log, empty, log)] == ["fx_flag_race", "unknown", "fx_flag_race"]


def test_the_text_says_class_proof_meaning_and_what_to_do(log):
    """A person would have to read JSON."""
    text = run(log, "--threads", 3)

    assert text.count("\n") == 1
    assert all(part in text for part in (str(log), "fx_flag_race", FX, "BAD", "Next:"))


@pytest.mark.parametrize("tail", ["", ".", ". See the log for more" * 30, ". " + "." * 400])
def test_a_proof_ends_in_one_full_stop_or_one_ellipsis(tmp_path, tail):
    """A line that was cut, or has a full stop of its own, would end in two or four dots."""
    path = tmp_path / "run.log"
    path.write_text(f"{FX.rstrip('.')}{tail}\n")

    text = run(path, "--threads", 3)

    proof = text[text.index("Proof: ") : text.index(" For a search")]
    assert re.search(r"[^.](?:\.|\.\.\.)\Z", proof)
    assert ".." not in proof.removesuffix("...")


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: gzip.compress(text.encode()),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xff\xfe\x00 broken bytes first".replace(b"\xff\xfe", b"\xfe\xfa") + b"\n" + text.encode(),
    ],
    ids=["plain", "gzip", "utf-16", "bom", "crlf", "broken bytes"],
)
def test_a_log_is_read_in_any_encoding_it_comes_in(tmp_path, encode):
    """A log redirected on another system, or compressed by a scheduler, would be called unknown."""
    path = tmp_path / "log"
    path.write_bytes(encode(f"step 1\n\x1b[31m[rank3]: {FX}\x1b[0m\nstep 2\n"))

    (row,) = rows(path, "--threads", 3)

    assert row["class"] == "fx_flag_race"
    assert "\x1b" not in json.dumps(row)


def test_a_cut_gzip_still_gives_what_it_holds(tmp_path):
    """The log of a run that was killed while it was compressed would be lost."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(f"{FX}\n".encode() + os.urandom(100_000))[:-20_000])

    with pytest.raises(UsageError, match="whole gzip"):
        run(path)


def test_binary_garbage_is_unknown_and_asks_for_evidence(tmp_path):
    """A core dump would be matched by chance."""
    path = tmp_path / "core"
    path.write_bytes(os.urandom(200_000))

    (row,) = rows(path)

    assert (row["class"], row["conclusion"]) == ("unknown", "skip")
    assert "--rc" in row["advice"]


def test_an_error_behind_megabytes_of_binary_data_is_found(tmp_path):
    """A log that a truncated file or a dump was written into would be no text from there on."""
    path = tmp_path / "run.log"
    path.write_bytes(b"step 1\n" + os.urandom(1_500_000) + f"\n{FX}\n".encode() + b"\0" * 2_000_000)

    (row,) = rows(path, "--threads", 3)

    assert row["class"] == "fx_flag_race"


def test_a_damaged_result_is_read_as_the_text_it_still_is(tmp_path):
    """A result cut by a full disk would hide the failure that it names."""
    text = (ROOT / "tests/golden/train.json").read_text()
    path = tmp_path / "result.json"
    path.write_text(text[: text.index("expected") if "expected" in text else len(text) * 2 // 3])

    (row,) = rows(path, "--threads", 3)

    assert row["class"] == "fx_flag_race"


def test_a_result_of_a_newer_version_says_so(tmp_path):
    """A newer file would be unknown without a reason."""
    path = tmp_path / "result.json"
    path.write_text('{"schema": 99, "kind": "train", "finished": true}')

    (row,) = rows(path)

    assert row["class"] == "unknown"
    assert any("99" in line for line in row["evidence"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no-such-file"], "no such file"),
        (["."], "cannot read"),
        (["LOG", "--env", "NOVALUE"], "K=V"),
        (["LOG", "--expect", "2.11.0"], "torch=VERSION"),
        (["LOG", "--expect", "numpy=2"], "torch=VERSION"),
        (["LOG", "--expect", "torch=banana"], "torch=VERSION"),
        (["LOG", "--expect", "torch="], "torch=VERSION"),
        (["LOG", "--hunt", "no_such_class"], "no outcome"),
        (["LOG", "--hunt", "fx_flag_trac"], "near ones: fx_flag_trace"),
        (["LOG", "--hunt", "fx_flag_rase"], "near ones: fx_flag_race"),
        (["LOG", "--hunt", "throughput"], "--for throughput"),
    ],
)
def test_bad_input_is_refused_with_its_reason(log, arguments, reason):
    """A typing error would be a traceback, or an answer to another question."""
    with pytest.raises(UsageError) as caught:
        run(*(str(log) if argument == "LOG" else argument for argument in arguments))

    assert reason in f"{caught.value.message} {caught.value.hint}"


def test_options_reach_the_question(log, tmp_path):
    """An option would be taken and ignored."""
    clean = tmp_path / "clean.log"
    clean.write_text("torch.__version__ = 2.9.1+cu128\nstep 1/2 loss 9\nstep 2/2 loss 8\n")

    assert rows(log, "--control", "failed")[0]["class"] == "nested_fx"
    assert rows(log, "--hunt", "hang")[0]["conclusion"] == "skip"
    assert rows(log, "--hunt", "any")[0]["conclusion"] == "bad"
    assert rows(clean, "--threads", 3)[0]["conclusion"] == "good"
    assert rows(clean, "--threads", 3, "--env", "TORCH_COMPILE_DISABLE=1")[0]["class"] == "compile_disabled"
    assert rows(clean, "--threads", 3, "--expect", "torch=2.11.0")[0]["class"] == "wrong_build"
    assert rows(clean, "--rc", -11)[0]["class"] == "segfault"


@pytest.mark.parametrize(
    "line",
    [
        "2026-10-01 10:00:00,123 [INFO] torch 2.11.0+cu130, 8x H200",
        "2026-10-01 10:00:00,123 - __main__ - INFO - PyTorch 2.11.0+cu130 compiled with CUDA 13.0",
        "INFO:train:torch=2.11.0+cu130",
        "I1129 12:00:01.1 77 train.py:10] trainer: torch version: 2.11.0+cu130",
        "Python 3.11.9, torch 2.11.0+cu130, 8x H200",
        "8x H200 (torch 2.11.0+cu130)",
        "host node1 | torch 2.11.0+cu130 | cuda 13.0",
        '{"level": "info", "msg": "torch 2.11.0+cu130 on 8x H200"}',
    ],
)
@pytest.mark.parametrize("failure", ["", FX])
def test_a_version_is_found_wherever_a_logger_puts_it(tmp_path, line, failure):
    """A run of another torch than asked for would be a hit, or a clean run, of the one asked for."""
    path = tmp_path / "run.log"
    path.write_text(f"{line}\nstep 1/2 loss 9\nstep 2/2 loss 8\n{failure}\n")

    (wrong,) = rows(path, "--threads", 3, "--expect", "torch=2.10.0")
    (right,) = rows(path, "--threads", 3, "--expect", "torch=2.11.0+cu130")
    (short,) = rows(path, "--threads", 3, "--expect", "torch=2.11")

    assert short["class"] == right["class"]
    assert (wrong["class"], wrong["conclusion"]) == ("wrong_build", "skip")
    assert right["class"] == ("fx_flag_race" if failure else "ok")
    assert "not checked" not in wrong["advice"] + right["advice"]


@pytest.mark.parametrize(
    "line",
    [
        "INFO flash-attn needs numpy 2, torch 2.11.0",
        "[INFO] torch 2.11.0 or newer is recommended",
        "xformers: built for torch 2.11.0",
        "(built with torch 2.11.0)",
        "numpy==2.0.1, torch==2.11.0",
    ],
)
@pytest.mark.parametrize(("failure", "expected"), [("", "unknown"), (FX, "fx_flag_race")])
def test_a_version_that_the_log_does_not_tell_is_told_to_be_unchecked(tmp_path, line, failure, expected):
    """What a package asks for would pass for what ran, or `--expect` would be taken and not looked at."""
    path = tmp_path / "run.log"
    path.write_text(f"{line}\nstep 1/2 loss 9\nstep 2/2 loss 8\n{failure}\n")

    (row,) = rows(path, "--threads", 3, "--expect", "torch=2.10.0")

    assert row["class"] == expected
    assert "torch 2.10.0 was asked for: not found in the log, not checked" in row["advice"]


HAZARDS = (ROOT / "tests/golden/hazards.json").read_text()


@pytest.mark.parametrize(
    ("hunted", "answer", "conclusion"),
    [(name, answer, said) for name, answer, said in (
        ("fx_flag_trace", "leaks", "bad"), ("fx_flag_trace", "safe", "good"), ("recompile_limit", "leaks", "bad"),
        ("recompile_limit", "safe", "good"), ("fx_flag_trace", "could-not-test", "skip"),
        ("fx_flag_trace", "not-applicable", "skip"), ("mask_flag", "", "skip"),
    )],
)  # fmt: skip
def test_a_hazard_is_hunted_as_in_a_search(tmp_path, hunted, answer, conclusion):
    """A hazard that a search takes would be refused here, or answered by another one that leaks beside it."""
    found = json.loads(HAZARDS)
    other = found["hazards"][0] | {"name": "fx_patcher", "answer": "leaks"}
    asked = [found["hazards"][0] | {"name": hunted, "answer": answer}] if answer else []
    path = tmp_path / "hazards.json"
    path.write_text(json.dumps(found | {"finished": True, "hazards": [other, *asked]}))

    (row,) = rows(path, "--hunt", hunted)

    assert row["conclusion"] == conclusion
    assert row["evidence"][0] == f"{hunted}: {answer or 'not tested'}"


def test_a_log_shows_no_hazard(log):
    """A crash of a training run would count as a hit of one of several probes that can explain it."""
    (row,) = rows(log, "--hunt", "fx_flag_trace", "--threads", 3)

    assert (row["class"], row["conclusion"]) == ("fx_flag_race", "skip")
    assert "--only fx_flag_trace" in row["advice"]


def test_the_advice_speaks_of_the_root_and_of_what_is_hunted_behind_it(tmp_path):
    """A hit of the race behind a full GPU would only be told to reduce the batch."""
    path = tmp_path / "run.log"
    path.write_text(
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\nException in thread T-1:\n{FX}\n"
    )

    (row,) = rows(path, "--threads", 3)
    (other,) = rows(path, "--threads", 3, "--hunt", "out_of_memory")

    assert (row["class"], row["conclusion"]) == ("out_of_memory(gpu)", "bad")
    assert all(part in row["advice"] for part in ("Reduce the batch", "behind it: Take torch 2.14"))
    assert row["advice"] in run(path, "--threads", 3)
    assert "behind it" not in other["advice"]


@pytest.mark.parametrize(
    ("secret", "line"),
    [
        ("hunter2", "error: Failed to fetch: `https://user:hunter2@index.example/simple/`"),
        ("hf_abcdefghijkl", "HfHubHTTPError: 401 Client Error for url: https://hf.example with hf_abcdefghijkl"),
        ("s3cr3t", "requests.exceptions.ProxyError: token=s3cr3t Connection refused"),
    ],
)
def test_secrets_in_a_log_do_not_reach_the_answer(tmp_path, secret, line):
    """A password would be pasted into an issue with the evidence."""
    path = tmp_path / "log"
    path.write_text(line + "\n")

    (row,) = rows(path, "--rc", 1)

    assert row["class"] == "download_failed"
    assert secret not in json.dumps(row)


@pytest.mark.subprocess
def test_the_command_prints_its_answer_when_started_as_a_module(log):
    """`python -m bisect` would silently run the standard library's module instead."""
    done = subprocess.run(
        [sys.executable, "-m", "bisect", "classify", str(log), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout)[0]["class"] == "fx_flag_race"


@pytest.mark.parametrize("threads", [0, -3])
def test_a_run_has_at_least_one_thread(log, threads):
    """A negative count would be passed on as evidence."""
    with pytest.raises(UsageError, match=f"--threads is {threads}"):
        rows(log, f"--threads={threads}")


@pytest.mark.parametrize(
    ("text", "hunt", "told"),
    [
        (
            f"step 1 loss 9.1\n{FX}\n",
            "fx_flag_race",
            "with 1 this is nested_fx (SKIP), with several fx_flag_race (BAD)",
        ),
        (f"step 1 loss 9.1\n{FX}\n", "any", "with 1 this is nested_fx (BAD), with several fx_flag_race (BAD)"),
        ("step 1 loss 9\nstep 2 loss 8\n", "any", "with 1 this is too_few_threads (SKIP), with several ok (GOOD)"),
    ],
)
def test_a_verdict_that_depends_on_the_threads_says_so(tmp_path, text, hunt, told):
    """A crash of one thread would be called a race, or a clean run of many would give no vote and nobody knew why."""
    path = tmp_path / "run.log"
    path.write_text(text)

    said = run(path, "--rc", 0, "--hunt", hunt)

    assert f"neither given (--threads N) nor in the log: {told}." in said
    assert said.count("\n") == 1
    assert "--threads N" not in run(path, "--rc", 0, "--hunt", hunt, "--threads", 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fatal Python error: Segmentation fault\n", ()),
        (f"step 1 loss 9.1\n{FX}\n", ("--control", "failed")),
        (f"[drafter-0] step 1 loss 9\n[drafter-1] step 1 loss 9\n{FX}\n", ()),
        ("step 1 loss 9\nstep 2 loss 8\n", ("--hunt", "segfault")),
        ("Successfully installed torch-2.11.0\n", ()),
    ],
)
def test_a_verdict_that_does_not_depend_on_the_threads_says_nothing_of_them(tmp_path, text, words):
    """A warning under every log would be read under none."""
    path = tmp_path / "run.log"
    path.write_text(text)

    assert "--threads N" not in run(path, "--rc", 0, *words)
