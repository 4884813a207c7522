"""Which axis a difference follows, and what cannot be told apart with the cells there are.

Torch and its CUDA variant usually change together; blaming one of them takes cells in which only that one changed.
Cells of different machines are never compared. An island (bad only in the middle of the releases) and a difference
between platforms are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from packaging.version import InvalidVersion, Version

from envs import backend

from . import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .state import Assessment, View

BAD = frozenset({State.RACE, State.FAILURE, State.SLOWER, State.DEGRADED})
MOST_NAMED = 6
"""Missing cells named in a sentence; the rest is counted."""
Point: TypeAlias = tuple[str, str]
"""(torch release, CUDA variant) of a build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """What the grid of torch x CUDA says about one kind of cell: an attribution, or the cells that would allow one."""

    where: str
    text: str
    missing: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """Releases that are bad between good ones."""

    where: str
    bad: tuple[str, ...]
    good_again: str

    @property
    def text(self) -> str:
        return (
            f"{self.where}: bad only in {', '.join(self.bad)} and fixed in {self.good_again}; "
            f"skip {'it' if len(self.bad) == 1 else 'them'}, a search between two ends would miss one of the changes"
        )


def separations(view: View, points: Mapping[str, Point]) -> tuple[Separation, ...]:
    """One statement for each (machine, history, workaround, cache) that has good and bad builds.

    `points` gives each build's torch release and CUDA variant.
    """
    found = []
    for where, entries in _slices(view):
        grid = _grid(entries, points)
        if len(set(grid.values())) == 2:
            found.append(_separate(where, grid, unavailable=_unavailable(entries, points)))
    return tuple(found) or _across_machines(view, points)


def _across_machines(view: View, points: Mapping[str, Point]) -> tuple[Separation, ...]:
    """Good here and bad there, never both on one machine: then the machine may be the culprit as well."""
    grids = {machine: _grid(view.on(machine), points) for machine in view.machines}
    good = {machine: grid for machine, grid in grids.items() if grid and not any(grid.values())}
    bad = {machine: grid for machine, grid in grids.items() if grid and all(grid.values())}
    if not good or not bad:
        return ()
    (good_machine, good_grid), (bad_machine, bad_grid) = next(iter(good.items())), next(iter(bad.items()))
    missing = tuple(sorted(bad_grid.keys() - good_grid.keys())) or tuple(sorted(good_grid.keys() - bad_grid.keys()))
    machine = good_machine if bad_grid.keys() - good_grid.keys() else bad_machine
    cells = ", ".join(f"({torch}, {cuda})" for torch, cuda in missing)
    text = "cannot separate torch from CUDA, nor either from the machine: good and bad cells ran on different machines"
    ending = f"; run cells {cells} on {_machine(machine)}" if missing else ""
    return (Separation(where="across machines", text=text + ending, missing=missing),)


def _grid(entries: Sequence[Assessment], points: Mapping[str, Point]) -> dict[Point, bool]:
    """Whether each tested point is bad."""
    grid: dict[Point, bool] = {}
    for entry in entries:
        point = points.get(entry.cell.key.build)
        if point is not None and _is_known(entry):
            grid[point] = grid.get(point, False) or entry.state in BAD
    return grid


def islands(view: View, points: Mapping[str, Point]) -> tuple[Island, ...]:
    """Releases bad between good ones, in each slice and, where there are several, each CUDA variant apart."""
    found = []
    for where, entries in _slices(view):
        known = [(points[entry.cell.key.build], entry) for entry in entries if entry.cell.key.build in points]
        tested = [(point, entry.state in BAD) for point, entry in known if _is_known(entry)]
        for cuda in sorted({cuda for (_, cuda), _ in tested}):
            series = sorted((_version(torch), torch, bad) for (torch, c), bad in tested if c == cuda)
            found += _islands_in(f"{where}, {cuda}", series)
        if not found and tested:
            newest_first = sorted((_version(torch), torch, bad) for (torch, _), bad in tested)
            found += _islands_in(where, newest_first)
    return tuple(found)


def platform_differences(view: View) -> tuple[str, ...]:
    """Questions that machines answer differently: such cells stay apart, and the difference is said."""
    by_question: dict[tuple[str, ...], dict[tuple[str, ...], Assessment]] = {}
    for entry in view.assessments:
        if _is_known(entry):
            by_question.setdefault(entry.cell.key.question, {})[entry.cell.key.machine] = entry
    return tuple(
        f"{next(iter(entries.values())).cell.key.title}: platform dependent, "
        + "; ".join(f"{_machine(machine)} {entry.label}" for machine, entry in entries.items())
        for entries in by_question.values()
        if len({entry.state in BAD for entry in entries.values()}) == 2
    )


def _slices(view: View) -> list[tuple[str, list[Assessment]]]:
    def key(entry: Assessment) -> tuple[str, ...]:
        cell = entry.cell.key
        return (*cell.machine, cell.history, cell.workaround, cell.cache, cell.profile, cell.benchmark)

    slices = []
    for _, members in groupby(sorted(view.assessments, key=key), key=key):
        entries = list(members)
        cell = entries[0].cell.key
        place = f" on {_machine(cell.machine)}" if len(view.machines) > 1 else ""
        slices.append((f"{cell.history}, workaround {cell.workaround}, {cell.cache} cache{place}", entries))
    return slices


def _separate(where: str, grid: Mapping[Point, bool], *, unavailable: frozenset[Point]) -> Separation:
    missing = _missing_corners(grid)
    published = (point for point in missing - unavailable if _may_exist(point))
    runnable = tuple(sorted(published, key=lambda point: (_version(point[0]), point[1])))
    if runnable:
        cells = ", ".join(f"({torch}, {cuda})" for torch, cuda in runnable[:MOST_NAMED])
        cells += f" and {len(runnable) - MOST_NAMED} more" if len(runnable) > MOST_NAMED else ""
        return Separation(where=where, text=f"cannot separate torch from CUDA; run cells {cells}", missing=runnable)
    by_torch, by_cuda = _follows(grid, axis=0), _follows(grid, axis=1)
    if by_torch and by_cuda:
        text = "cannot separate torch from CUDA: the cells that would are not available"
    elif by_torch:
        text = "the difference follows torch, whatever the CUDA variant"
    elif by_cuda:
        text = "the difference follows CUDA, whatever the torch release"
    else:
        bad = ", ".join(f"({torch}, {cuda})" for (torch, cuda), is_bad in sorted(grid.items()) if is_bad)
        text = f"only the combination of torch and CUDA is bad: {bad}"
    return Separation(where=where, text=text)


def _may_exist(point: Point) -> bool:
    """Whether the release was built for the variant, as far as the tables know; an unknown release may be."""
    torch, cuda = point
    built = backend.variants(torch) if _version(torch) != Version("0") else ()
    return not built or cuda in built


def _missing_corners(grid: Mapping[Point, bool]) -> frozenset[Point]:
    """The corners that complete the rectangle of a good and a bad cell which differ in both."""
    corners = set()
    for good_torch, good_cuda in (point for point, bad in grid.items() if not bad):
        for bad_torch, bad_cuda in (point for point, bad in grid.items() if bad):
            if good_torch != bad_torch and good_cuda != bad_cuda:
                corners |= {(good_torch, bad_cuda), (bad_torch, good_cuda)}
    return frozenset(corners - grid.keys())


def _follows(grid: Mapping[Point, bool], *, axis: int) -> bool:
    """Whether the answer is the same wherever this coordinate is the same."""
    return all(
        len({bad for point, bad in grid.items() if point[axis] == value}) == 1
        for value in {point[axis] for point in grid}
    )


def _unavailable(entries: Sequence[Assessment], points: Mapping[str, Point]) -> frozenset[Point]:
    states = {State.NOT_PUBLISHED, State.CANNOT_BUILD}
    return frozenset(
        points[entry.cell.key.build] for entry in entries if entry.state in states and entry.cell.key.build in points
    )


def _islands_in(where: str, series: Sequence[tuple[Version, str, bool]]) -> list[Island]:
    runs = [(bad, [torch for _, torch, _ in members]) for bad, members in groupby(series, key=lambda item: item[2])]
    return [
        Island(where=where, bad=tuple(runs[i][1]), good_again=runs[i + 1][1][0])
        for i in range(1, len(runs) - 1)
        if runs[i][0]
    ]


def _is_known(entry: Assessment) -> bool:
    return entry.telling > 0


def _machine(machine: tuple[str, ...]) -> str:
    node, platform, gpu, _ = machine
    return " ".join(part for part in (node, platform, gpu if gpu != "none" else "") if part)


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
