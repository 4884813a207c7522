"""Which axis a difference follows, and what the cells at hand cannot tell apart."""

from __future__ import annotations

from bisect.matrix import Rules, State
from bisect.matrix.factors import islands, platform_differences, separations
from bisect.matrix.offers import offers
from bisect.matrix.state import assess

from .matrix_cells import OK, RACE, blocked, cell


def grid(points, *, unavailable=(), **common):
    """Cells named torch-cuda; True is bad."""
    cells = [
        cell(f"{torch}-{cuda}", [RACE, RACE] if bad else [OK, OK], **common) for (torch, cuda), bad in points.items()
    ]
    cells += [blocked(f"{torch}-{cuda}", State.NOT_PUBLISHED, **common) for torch, cuda in unavailable]
    names = {f"{torch}-{cuda}": (torch, cuda) for torch, cuda in (*points, *unavailable)}
    return assess(cells, Rules()), names


def texts(points, **others):
    return [item.text for item in separations(*grid(points, **others))]


def test_an_incomplete_grid_names_the_cells_that_would_separate_torch_from_cuda():
    """CUDA 13 is blamed, another user finds the same slowness on cu128 (E08)."""
    view, names = grid(
        {("2.9.1", "cu128"): True, ("2.7.1", "cu128"): False, ("2.9.1", "cu130"): False, ("2.10.0", "cu130"): False}
    )

    (found,) = separations(view, names)

    assert found.text == "cannot separate torch from CUDA; run cells (2.10.0, cu128)"
    assert found.missing == (("2.10.0", "cu128"),)


def test_two_cells_that_differ_in_both_cannot_blame_either():
    """The usual upgrade: a new torch with a new CUDA."""
    assert texts({("2.10.0", "cu128"): False, ("2.11.0", "cu130"): True}) == [
        "cannot separate torch from CUDA; run cells (2.10.0, cu130), (2.11.0, cu128)"
    ]


def test_a_full_grid_blames_torch_cuda_or_only_both_together():
    """The culprit would be guessed although the cells say it."""

    def full(bad):
        points = {(torch, cuda): bad(torch, cuda) for torch in ("2.10", "2.11") for cuda in ("cu128", "cu130")}
        return texts(points)[0]

    assert full(lambda *point: point[0] == "2.11") == "the difference follows torch, whatever the CUDA variant"
    assert full(lambda *point: point[1] == "cu130") == "the difference follows CUDA, whatever the torch release"
    assert "only the combination" in full(lambda *point: point == ("2.11", "cu130"))


def test_cells_that_are_not_published_are_not_asked_for():
    """`run (2.12, cu128)` cannot be followed: that wheel does not exist."""
    found = texts(
        {("2.11.0", "cu128"): False, ("2.12.1", "cu130"): True},
        unavailable=[("2.12.1", "cu128"), ("2.11.0", "cu130")],
    )

    assert found == ["cannot separate torch from CUDA: the cells that would are not available"]


def test_cells_of_different_machines_separate_nothing():
    """Two GPU models in one grid (E08): a difference of machines would be blamed on torch."""
    first, names = grid({("2.10", "cu128"): False}, node="n1", gpu="RTX 4090")
    second, more = grid({("2.11", "cu130"): True}, node="n2", gpu="RTX 5090")
    view = assess([entry.cell for entry in (*first.assessments, *second.assessments)], Rules())

    (found,) = separations(view, names | more)

    assert found.text == (
        "cannot separate torch from CUDA, nor either from the machine: good and bad cells ran on different machines; "
        "run cells (2.11, cu130) on n1 linux-x86_64 2 CPUs RTX 4090"
    )


def test_an_island_is_named_with_where_it_begins_and_ends():
    """2.8 fast, 2.9 slow, 2.10 fast: a bisection between the ends finds nothing or half of it (E09)."""
    view, names = grid(
        {("2.8.0", "cu128"): False, ("2.9.0", "cu128"): True, ("2.9.1", "cu128"): True, ("2.10.0", "cu128"): False}
    )

    (found,) = islands(view, names)

    assert found.bad == ("2.9.0", "2.9.1")
    assert found.good_again == "2.10.0"
    assert "skip them" in found.text


def test_a_plain_regression_or_fix_is_no_island():
    """Every change would be called an island."""
    for flags in ((False, True, True), (True, True, False), (False, False, False)):
        view, names = grid({(torch, "cu128"): bad for torch, bad in zip(("2.8", "2.9", "2.10"), flags, strict=True)})
        assert islands(view, names) == ()


def test_a_platform_dependent_failure_is_named_not_averaged():
    """Illegal accesses with one CPU architecture and not with another, same GPU (A26)."""
    bad = cell("cu130", ["cuda_error"] * 3, platform="linux-aarch64", node="n2", gpu="1x H100")
    good = cell("cu130", [OK] * 3, platform="linux-x86_64", node="n1", gpu="1x H100")

    (text,) = platform_differences(assess((good, bad), Rules()))

    assert "platform dependent" in text
    assert "linux-aarch64" in text
    assert "3/3" in text
    assert "0/3" in text


def test_untested_cells_decide_nothing():
    """`not tested` would count as good."""
    view = assess((cell("2.10-cu128", [OK]), cell("2.11-cu130")), Rules())

    assert separations(view, {"2.10-cu128": ("2.10", "cu128"), "2.11-cu130": ("2.11", "cu130")}) == ()


def test_a_difference_between_releases_offers_the_search_that_explains_it():
    """The reader knows that something broke and not where (E04)."""
    view, names = grid({("2.10.0", "cu128"): False, ("2.12.0", "cu130"): True, ("2.14.0", "cu130"): True})

    (text,) = offers(view, names)

    assert text.endswith("python -m bisect torch-releases --good 2.10.0 --bad 2.12.0 --probe train --for fx_flag_race")
    assert "brought in race 2/2" in text


def test_a_fix_and_a_workaround_are_part_of_the_offer():
    """The search would ask the wrong question."""
    view, names = grid({("2.13.0", "cu130"): True, ("2.14.0", "cu130"): False}, workaround="lock")

    (text,) = offers(view, names)

    assert "find the release that fixed" in text
    assert "--good 2.14.0 --bad 2.13.0" in text
    assert text.endswith("--workaround lock")


def test_a_contaminated_cell_offers_the_search_over_packages():
    """The guilty package would be guessed."""
    view = assess(
        (cell("cu128", [OK, OK]), cell("cu128", [RACE, RACE], history="sglang-residue"), cell("cu130", ["unknown"])),
        Rules(),
    )

    (text,) = offers(view, {})

    assert text.endswith("python -m bisect packages --good cu128 --bad cu128+sglang-residue")


def test_failures_of_the_machine_offer_no_search():
    """Only a race starts a bisection, a broken disk does not (G09)."""
    view = assess((cell("a", [OK, OK]), cell("b", ["hardware_fault"]), cell("c", ["download_failed"])), Rules())

    assert offers(view, {"a": ("2.10", "cu128"), "b": ("2.11", "cu128"), "c": ("2.12", "cu128")}) == ()
