"""The journal survives kills, refuses what it does not understand, and never rewrites a line."""

import json
from bisect.journal import Journal, read

import pytest

from envs.errors import CannotRunError, UsageError

from .searches import HEADER

WHOLE = json.dumps({"schema": 1, "kind": "bisect-journal", **HEADER}) + "\n"


def test_entries_come_back_in_order(tmp_path):
    """A journal that loses or reorders entries replays another search."""
    journal = Journal.create(tmp_path / "j", HEADER)
    journal.append("note", candidate="a")
    journal.append("note", candidate="b")
    journal.close()

    contents = read(tmp_path / "j")

    assert contents.header["command"] == HEADER["command"]
    assert [entry["candidate"] for entry in contents.of("note")] == ["a", "b"]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_dropped_and_the_next_append_is_whole(tmp_path, cut):
    """A kill in the middle of a write must cost that line only, and not glue the next line to its rest."""
    path = tmp_path / "j"
    journal = Journal.create(path, HEADER)
    journal.append("note", candidate="first")
    journal.append("note", candidate="second", filler="x" * 20)
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])

    again = Journal.open(path)
    again.append("note", candidate="third")
    again.close()

    assert [entry["candidate"] for entry in read(path).entries] == ["first", "third"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ('{"schema": 99, "kind": "bisect-journal"}\n', "newer version"),
        ('{"schema": 1, "kind": "other"}\n', "not the journal"),
        (WHOLE + '{"event": "a"\n{"event": "b"}\n', "line 2"),
        (WHOLE + "[1]\n", "line 2"),
        (WHOLE + '{"event": 5}\n', "line 2"),
    ],
)
def test_what_is_not_a_journal_is_refused_with_the_reason(tmp_path, text, reason):
    """Silently reading a damaged journal would repeat finished runs or believe wrong ones."""
    path = tmp_path / "j"
    path.write_text(text)

    with pytest.raises(UsageError, match=reason):
        read(path)


def test_a_missing_journal_names_the_path(tmp_path):
    """`bisect report WRONG` must say which path it looked at."""
    with pytest.raises(UsageError, match="nowhere"):
        read(tmp_path / "nowhere")


def test_creating_leaves_a_whole_header(tmp_path):
    """A header torn by a kill would make the run directory unusable for the same command."""
    Journal.create(tmp_path / "j", HEADER).close()

    assert [path.name for path in tmp_path.iterdir()] == ["j"]
    assert (tmp_path / "j").read_text().endswith("\n")


def test_a_journal_that_was_removed_takes_nothing_more(tmp_path):
    """A search whose directory a command removed would go on for hours, and keep nothing of it."""
    journal = Journal.create(tmp_path / "j", HEADER)
    (tmp_path / "j").unlink()

    with pytest.raises(CannotRunError, match="was removed"):
        journal.append("note", candidate="a")
    journal.close()
