"""The journal survives kills, refuses what it does not understand, and never rewrites a line."""

from bisect.journal import Journal, read

import pytest

from envs.errors import UsageError


def test_entries_come_back_in_order(tmp_path):
    """A journal that loses or reorders entries replays another search."""
    journal = Journal.create(tmp_path / "j", {"command": "x"})
    journal.append("observed", candidate="a")
    journal.append("observed", candidate="b")
    journal.close()

    contents = read(tmp_path / "j")

    assert contents.header["command"] == "x"
    assert [entry["candidate"] for entry in contents.of("observed")] == ["a", "b"]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_dropped_and_the_next_append_is_whole(tmp_path, cut):
    """A kill in the middle of a write must cost that line only, and not glue the next line to its rest."""
    path = tmp_path / "j"
    journal = Journal.create(path, {})
    journal.append("observed", candidate="first")
    journal.append("observed", candidate="second", filler="x" * 20)
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])

    again = Journal.open(path)
    again.append("observed", candidate="third")
    again.close()

    assert [entry["candidate"] for entry in read(path).entries] == ["first", "third"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ('{"schema": 99, "kind": "bisect-journal"}\n', "newer version"),
        ('{"schema": 1, "kind": "other"}\n', "not the journal"),
        ('{"schema": 1, "kind": "bisect-journal"}\n{"event": "a"\n{"event": "b"}\n', "line 2"),
        ('{"schema": 1, "kind": "bisect-journal"}\n[1]\n', "line 2"),
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
    Journal.create(tmp_path / "j", {"a": 1}).close()

    assert [path.name for path in tmp_path.iterdir()] == ["j"]
    assert (tmp_path / "j").read_text().endswith("\n")
