"""Reading logs: prefixes and colours go, lines of any number are bounded, and nothing new in the middle is lost."""

from __future__ import annotations

import random
from bisect.classify import Evidence, classify
from bisect.logs.text import MAX_LINES, OVERLAP, PIECE_LENGTH, clean, read_lines

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FX = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function."


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank3]: ", "[rank3]:[E602 11:18:52.531176265 ProcessGroupNCCL.cpp:616] ", "2026-11-29 12:00:01,123 ",
        "2026-11-29T12:00:01.123Z ", "[2026-11-29 12:00:01] ", "(TrainWorker pid=1, ip=10.0.0.1) ", "3: ",
        "[default0]:", "12:00:01 ", "[  123.456789] ", "Nov 29 12:00:01 node1 kernel: ", "worker-1  | ", "\x1b[31m",
        "W1129 12:00:01.123000 77 torch/_dynamo/convert_frame.py:1551] ", "[drafter-2] ", "[1824] ",
        "[rank0]: 2026-11-29 12:00:01 [drafter-1] ",
    ],
)  # fmt: skip
def test_what_launchers_put_before_a_line_is_taken_off(prefix):
    """A traceback behind rank prefixes would not be seen as one."""
    assert clean(prefix + FX) == FX


def test_the_columns_of_a_table_are_no_prefix():
    """The first column would be lost, and the loss read from the wrong one."""
    assert clean("3 | nan | 4200") == "3 | nan | 4200"


def test_progress_bars_are_lines():
    """An hour of progress would be one line, cut before the error at its end."""
    bar = "\r".join(f"{step}/100 [00:0{step % 10}<01:00]" for step in range(100))

    assert [line.text for line in read_lines([bar + "\n" + FX])][-1] == FX


@given(st.text(alphabet="ab\r\n", max_size=60), st.integers(min_value=1, max_value=7))
def test_lines_do_not_depend_on_how_the_text_is_cut_into_pieces(text, size):
    """A newline at the border of a read would change the line numbers."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    assert read_lines(pieces) == read_lines([text])


@pytest.mark.parametrize("unique", [False, True])
def test_a_long_log_is_bounded_and_the_error_in_its_middle_kept(unique):
    """A log of a hundred megabytes would take minutes, or hide its only error."""

    def chunks():
        for block in range(20):
            for step in range(2000):
                word = hex(hash((block, step)))[3:] if unique else ""
                yield f"step {block * 2000 + step} loss 3.{step} ktok/s 4.5 {word}\n"
            if block == 10:
                yield f"Exception in thread Thread-3:\n{FX}\n"

    lines = read_lines(chunks())

    assert len(lines) < MAX_LINES + 10_000
    assert any(line.text == FX and line.number == 22_002 for line in lines)
    assert lines[-1].number == 40_002
    assert str(classify(Evidence(lines=lines, threads=3)).outcome) == "fx_flag_race"


def test_a_line_without_an_end_is_read_in_pieces():
    """A file without newlines would be copied again for every piece, or counted as many lines."""
    lines = read_lines("x" * 1000 for _ in range(300))

    assert {line.number for line in lines} == {1}
    assert all(len(line.text) == PIECE_LENGTH for line in lines[:-1])
    assert sum(len(line.text) for line in lines) == 300_000 + OVERLAP * (len(lines) - 1)


@pytest.mark.parametrize("place", [0, 1400, 1990, 7950, 100_000, 2_999_800, 3_000_000])
@pytest.mark.parametrize("filler", ["x", '{"step": 17, "loss": 3.25}, '])
def test_an_error_within_a_long_line_is_found_and_shown(place, filler):
    """A record of megabytes in one line would hide the error that its middle holds, or show its beginning as proof."""
    text = (filler * (3_000_000 // len(filler) + 1))[:3_000_000]

    found = classify(Evidence(log=f"step 1 loss 9\n{text[:place]} {FX} {text[place:]}\nstep 2 loss 9\n", threads=3))

    assert str(found.outcome) == "fx_flag_race"
    assert [FX in line and line.startswith("line 2: ") for line in found.evidence] == [True]


@pytest.mark.parametrize("size", [1, 777, 1999, 2000, 8000, 8001, 30_000])
def test_a_long_line_does_not_depend_on_how_it_is_cut_into_chunks(size):
    """The same file read through a pipe would give other lines."""
    text = f"a\n{'0123456789' * 850}\r\nb\n{'x' * 8000}\n{'y' * 8001}\nc"

    assert read_lines(text[start : start + size] for start in range(0, len(text), size)) == read_lines([text])
    assert read_lines([text])[-1].number == 6


def test_text_between_binary_bytes_is_read():
    """A log into which something wrote a page of memory would be called no text, and its error missed."""
    noise = random.Random(7)
    for _ in range(20):
        before, after = (noise.randbytes(2048).decode(errors="replace") for _ in range(2))
        for between in ("", "\n", "\0" * 3000):
            log = f"step 1 loss 9\n{before}{between}{FX}{between}{after}\nstep 2 loss 9\n"

            found = classify(Evidence(log=log, threads=3))

            assert (str(found.outcome), found.secondary) == ("fx_flag_race", ())
            assert any(FX in line for line in found.evidence)


def test_wide_characters_without_a_mark_are_text():
    """A log of two bytes a character would be taken for binary data."""
    assert str(classify(Evidence(log="\0".join(FX), threads=3)).outcome) == "fx_flag_race"


def test_a_traceback_in_a_structured_record_is_read():
    """The one line of a JSON log would hide the exception at the end of its traceback."""
    record = (
        '{"level": "error", "exc_info": "Traceback (most recent call last):\\n  File \\"a.py\\", line 1, in f\\n'
        + FX
        + '"}'
    )

    assert str(classify(Evidence(log=record, threads=3)).outcome) == "fx_flag_race"


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300), st.one_of(st.none(), st.integers(min_value=-30, max_value=255)))
def test_any_text_and_any_exit_code_get_an_answer(text, returncode):
    """A strange log would be a traceback of ours."""
    found = classify(Evidence(log=text, returncode=returncode))

    assert found.evidence
    assert found.advice
