"""The HTML page in a real browser: no console error, evidence opens, sorting and filtering work, nothing overflows."""

from __future__ import annotations

from bisect.html import matrix_page, search_page

import pytest

from . import browser
from .matrix_pages import HOSTILE, sample_report, sample_search

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    executable = browser.find()
    if executable is None:
        pytest.skip("no Chromium here and none installable: apt-get install chromium")
    with browser.Browser(executable, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "matrix": matrix_page(sample_report(), searches=[sample_search()]),
        "large": matrix_page(sample_report(copies=10)),
        "search": search_page(sample_search()),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def page(chromium, pages):
    chromium.resize(1400)
    chromium.media()
    chromium.errors.clear()
    chromium.requests.clear()
    chromium.open(pages / "matrix.html")
    yield chromium
    assert chromium.errors == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []
    assert chromium.run("window.hacked") is None


def test_a_click_on_a_cell_opens_its_evidence_and_escape_closes_it(page):
    """The evidence would be one search through a run directory away."""
    page.run("document.querySelector('.cell.race').click()")

    assert page.run("document.getElementById('evidence').open") is True
    text = page.run("document.getElementById('evidence-body').textContent")
    assert "fx_flag_race" in text
    assert "runs/" in text
    assert page.run("document.querySelectorAll('#evidence-body svg.trace, #evidence-body polyline').length") >= 3
    page.press("Escape")
    assert page.run("document.getElementById('evidence').open") is False
    page.wait_for("document.activeElement.classList.contains('race')")  # given back by the close event, a task later


def test_hostile_log_lines_stay_text(page):
    """A log line would run in the reader's browser."""
    page.run("document.querySelector('.cell.race').click()")

    shown = page.run("document.getElementById('evidence-body').textContent")
    for line in HOSTILE[:3]:
        assert line in shown
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 1


def _column(page, number):
    return page.run(f"[...document.querySelectorAll('#list tbody tr')].map(r => r.cells[{number}].dataset.value)")


def test_sorting_by_number_and_text_in_both_directions(page):
    """`10` before `9`, or dashes among the figures."""
    page.run("document.querySelectorAll('.sort')[7].click()")
    rates = _column(page, 7)
    known = [float(value) for value in rates if value]
    assert known == sorted(known)
    assert rates[len(known) :] == [""] * (len(rates) - len(known))
    assert page.run("document.querySelectorAll('#list th')[7].getAttribute('aria-sort')") == "ascending"

    page.run("document.querySelectorAll('.sort')[7].click()")
    known = [float(value) for value in _column(page, 7) if value]
    assert known == sorted(known, reverse=True)

    page.run("document.querySelectorAll('.sort')[0].click()")
    assert _column(page, 0)[0] == "cu126"


def test_filtering_by_words_and_by_state(page):
    """Two hundred cells without a filter are a wall."""
    page.run(
        "(() => { const i = document.getElementById('filter'); i.value = 'cu130-latest lock';"
        " i.dispatchEvent(new Event('input')); })()"
    )
    assert page.run("document.getElementById('shown').textContent") == "2 of 20 cells"
    assert page.run("document.querySelectorAll('#list tbody tr:not([hidden])').length") == 2
    assert page.run("document.querySelectorAll('.cell.dim').length") == 18

    page.run(
        "(() => { const i = document.getElementById('filter'); i.value = '';"
        " i.dispatchEvent(new Event('input')); document.querySelector('.chip.race').click(); })()"
    )
    assert page.run("document.querySelectorAll('#list tbody tr:not([hidden])').length") == 3
    assert page.run("document.querySelector('.chip.race').getAttribute('aria-pressed')") == "true"


def test_the_page_works_with_the_keyboard_alone(page):
    """A page for the mouse only shuts people out."""
    page.run("document.querySelector('.heat .cell').focus()")
    page.press("ArrowDown")
    first = page.run("document.activeElement.dataset.cell")
    page.press("ArrowRight")
    assert page.run("document.activeElement.dataset.cell") not in (None, first)
    page.press("Enter")
    assert page.run("document.getElementById('evidence').open") is True
    before = page.run("location.hash")
    page.press("ArrowRight")
    assert page.run("location.hash") != before


def test_a_link_to_a_cell_opens_it(page, pages):
    """A colleague would have to be told where to click."""
    digest = page.run("document.querySelector('.cell.degraded').dataset.cell")
    page.open(pages / "search.html")
    page.open(pages / "matrix.html", fragment=f"#cell-{digest}")

    assert page.run("document.getElementById('evidence').open") is True
    assert "recompile stalls" in page.run("document.getElementById('evidence-body').textContent")


@pytest.mark.parametrize("name", ["matrix", "large", "search"])
@pytest.mark.parametrize("width", [390, 800, 1400])
def test_no_width_scrolls_sideways(page, pages, name, width):
    """On a phone half of the page would be off the screen."""
    page.resize(width, 844)
    page.open(pages / f"{name}.html")

    assert page.run("document.documentElement.scrollWidth - window.innerWidth") <= 0
    if name != "search":
        page.run("document.querySelector('.cell.race').click()")
        assert page.run("(d => d.scrollWidth - d.clientWidth)(document.getElementById('evidence'))") <= 0


def test_print_shows_the_tables_and_hides_the_controls(page):
    """A printed page of buttons, cut at the right margin."""
    page.media(kind="print")
    page.resize(794, 1123)

    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert page.run("getComputedStyle(document.querySelector('.heat')).display") != "none"
    assert page.run("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_light_and_dark(page, scheme):
    """White on yellow cannot be read on a projector."""
    page.media(scheme=scheme)
    script = """
      (() => {
        const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
        const rgb = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
          return [...canvas.getImageData(0, 0, 1, 1).data]; };
        const light = (c) => c.slice(0, 3).map(v => v / 255)
          .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = (node) => { for (; node; node = node.parentElement) {
          const c = rgb(getComputedStyle(node).backgroundColor); if (c[3] > 200) return c; } return [255, 255, 255]; };
        const found = [];
        for (const node of document.querySelectorAll('.cell, .pill, p, td, th, h2, .chip, a, .link')) {
          if (!node.checkVisibility() || node.matches('.cell.not-tested')) continue;
          const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
          const ratio = (a + 0.05) / (b + 0.05);
          if (ratio < 4.4) found.push([node.className, node.textContent.slice(0, 30), ratio]);
        }
        return found;
      })()
    """

    assert page.run(script) == []


def test_a_page_of_two_hundred_cells_opens_its_evidence(page, pages):
    """The largest matrix would be the one nobody can read; `nox -s bench -- matrix` measures how fast it opens."""
    page.open(pages / "large.html")
    page.run("document.querySelector('.cell.race').click()")

    assert page.run("document.getElementById('evidence').open") is True


def test_the_theme_can_be_switched(page):
    """A dark room, or a beamer."""
    before = page.run("getComputedStyle(document.documentElement).backgroundColor")
    page.run("document.getElementById('theme').click()")

    assert page.run("getComputedStyle(document.documentElement).backgroundColor") != before
