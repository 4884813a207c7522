"""The matrix: size and speed of its page for 200 cells, and how often its throughput column is wrong."""

from __future__ import annotations

import tempfile
import time
from bisect.html import matrix_page
from bisect.matrix import Rules
from bisect.matrix.state import assess
from pathlib import Path

from tests.bisect import browser
from tests.bisect.matrix_cells import session
from tests.bisect.matrix_pages import sample_report

CELLS, ROUNDS, NOISE, LOSS = 16, 3, 0.02, 0.1


def rows(*, seed: int, searches: int):
    """One row a figure: what it is, what was measured, what is to be reached."""
    yield ("figure", "measured", "to reach")
    started = time.perf_counter()
    page = matrix_page(sample_report(copies=10, seed=seed))
    yield ("page of 200 cells, made in", f"{time.perf_counter() - started:.2f} s", "")
    yield ("page of 200 cells, size", f"{len(page.encode()) / 1e6:.2f} MB", "2 MB")
    opened, empty = _interactive(page)
    yield ("... opened and a cell's evidence shown", opened, "1 s")
    yield ("(an empty page, opened)", empty, "")
    wrong, covered = _throughput(seed=seed, matrices=searches)
    title = f"{CELLS} equal cells, {ROUNDS} rounds, {NOISE:.0%} noise: a matrix with a false `slower`"
    yield (title, f"{wrong / searches:.1%}", "5 %")
    yield (f"a real loss of {LOSS:.0%} lies in its interval", f"{covered / searches:.1%}", "95 %")


def _interactive(page: str) -> tuple[str, str]:
    """The fastest of five loads of the page with a cell opened, and of an empty page for comparison."""
    executable = browser.find()
    if executable is None:
        return "no Chromium", "no Chromium"
    with tempfile.TemporaryDirectory() as folder, browser.Browser(executable, Path(folder) / "profile") as running:
        times = []
        for text, action in ((page, "document.querySelector('.cell.race').click()"), ("<!doctype html>", "0")):
            path = Path(folder) / f"{len(times)}.html"
            path.write_text(text, encoding="utf-8")
            times.append(min(_seconds(running, path, action) for _ in range(5)))
    return f"{times[0]:.2f} s", f"{times[1]:.2f} s"


def _seconds(running: browser.Browser, path: Path, action: str) -> float:
    started = time.perf_counter()
    running.open(path)
    running.run(action)
    return time.perf_counter() - started


def _throughput(*, seed: int, matrices: int) -> tuple[int, int]:
    """Matrices with a false `slower`, and those whose one real loss lies in its interval."""
    wrong = covered = 0
    for number in range(matrices):
        rates = {f"b{cell}": 100.0 for cell in range(CELLS)} | {"b1": 100.0 * (1 - LOSS)}
        cells = session(rates, rounds=ROUNDS, noise=NOISE, seed=seed * 100_003 + number, every=4)
        ratios = {entry.cell.key.build: entry.ratio for entry in assess(cells, Rules()).assessments}
        real = ratios.pop("b1")
        covered += real is not None and real.low <= 1 - LOSS <= real.high
        wrong += any(ratio is not None and ratio.is_slower(Rules().min_effect) for ratio in ratios.values())
    return wrong, covered
