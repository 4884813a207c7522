"""The axes file: a default that ships, clear errors, and the cells it spans."""

from __future__ import annotations

from bisect.matrix.axes import Budget, parse_axes, parse_budget, span
from pathlib import Path

import pytest

from envs.errors import UsageError

from .matrix_cells import key

SHIPPED = ("cu126", "cu128", "cu130")
DEFAULT = Path(__file__).parent.parent.parent / "bisect" / "matrix.toml"


def read(text):
    return parse_axes(text, shipped=SHIPPED)


def test_the_default_axes_compare_builds_clean_and_contaminated_with_and_without_the_lock():
    """`nox -s matrix` without arguments must answer the question of the incident."""
    axes = read(DEFAULT.read_text(encoding="utf-8"))

    assert axes.histories == ("clean", "sglang-residue")
    assert axes.workarounds == ("none", "lock")
    assert axes.caches == ("cold",)
    assert axes.current in axes.builds
    assert axes.budget.seconds < 20 * 60


def test_shipped_stands_for_every_shipped_definition_once():
    """A new definition would not reach the matrix, or would reach it twice."""
    assert read('builds = ["cu130", "shipped"]').builds == ("cu130", "cu126", "cu128")


def test_the_current_build_comes_first_and_is_the_first_named_unless_said():
    """The baseline would be whatever the alphabet says."""
    axes = read('builds = ["cu126", "cu130"]\ncurrent = "cu130"\nworkarounds = ["none", "lock"]')

    assert [(k.build, k.workaround) for k in span(axes, key())] == [
        ("cu130", "none"),
        ("cu130", "lock"),
        ("cu126", "none"),
        ("cu126", "lock"),
    ]
    assert read('builds = ["cu126", "cu130"]').current == "cu126"


def test_excluded_cells_are_never_asked():
    """A combination known to be pointless would cost an environment."""
    axes = read(
        'builds = ["cu126", "cu130"]\nhistories = ["clean", "sglang"]\n'
        '[[exclude]]\nbuild = "cu126"\nhistory = "sglang"\n'
    )

    assert [k.environment for k in span(axes, key())] == ["cu126", "cu130", "cu130+sglang"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20m", Budget(seconds=1200)),
        ("1.5h", Budget(seconds=5400)),
        ("90s", Budget(seconds=90)),
        ("15", Budget(seconds=900)),
        ("60 runs", Budget(runs=60)),
        ("60r", Budget(runs=60)),
    ],
)
def test_a_budget_is_minutes_or_runs(text, expected):
    """A bare number means minutes, as the option says."""
    assert parse_budget(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("builds = 3", "builds must be a list of strings"),
        ("", "names no builds"),
        ("builds = []", "builds is empty"),
        ('build = ["cu128"]', "did you mean 'builds'"),
        ('builds = ["a", "a"]', "names something twice"),
        ('builds = ["a"]\ncaches = ["hot"]', "one of cold, warm"),
        ('builds = ["a"]\ncurrent = "b"', "not among the builds"),
        ('builds = ["a"]\n[rules]\nallowed_rat = 0.1', "did you mean 'allowed_rate'"),
        ('builds = ["a"]\n[rules]\nmax_runs = 1.5', "max_runs must be a whole number"),
        ('builds = ["a"]\n[rules]\nallowed_rate = 2', "between 0 and 1"),
        ('builds = ["a"]\nprofile = 1', "profile must be a string"),
        ('builds = ["a"]\nbudget = "much"', "not a budget"),
        ('builds = ["a"]\n[[exclude]]\nbuilds = "a"', "did you mean 'build'"),
        ('builds = ["a"]\nexclude = 1', "array of tables"),
        ("builds = [", "not TOML"),
    ],
)
def test_a_wrong_axes_file_is_an_error_that_says_what_to_do(text, words):
    """A mistyped key would silently run the wrong matrix."""
    with pytest.raises(UsageError) as caught:
        read(text)

    assert words in f"{caught.value.message} {caught.value.hint}"
