"""The HTML page as text: complete, self-contained, escaped, small. What a browser makes of it: test_html_browser."""

from __future__ import annotations

import re
from bisect.html import href, matrix_page, search_page, slug
from bisect.matrix import State
from html.parser import HTMLParser

import pytest

from .matrix_pages import HOSTILE, sample_report, sample_search


class Reader(HTMLParser):
    """Every tag with its attributes, and the text outside script and style."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self._raw = [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._raw = tag in ("script", "style")

    def handle_endtag(self, _tag):
        self._raw = False

    def handle_data(self, data):
        if not self._raw:
            self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader


@pytest.fixture(scope="module")
def page():
    return matrix_page(sample_report(), searches=[sample_search()])


@pytest.mark.parametrize("make", [lambda: matrix_page(sample_report()), lambda: search_page(sample_search())])
def test_hostile_text_stays_text(make):
    """A log line of a crashed run would run in the browser of whoever reads the report."""
    page = read(make())
    text = "".join(page.text)

    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    for line in HOSTILE[:3]:
        assert line in text
    assert "{{ 7*7 }}" in text


def test_nothing_is_loaded_from_anywhere(page):
    """A cluster's report must open on a machine without a network, and tell nobody that it was opened."""
    for tag, attributes in read(page).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("./", "#", "data:,")), (tag, name, value)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_every_cell_has_its_evidence_one_click_away(page):
    """A number that cannot be traced to a run directory is a rumour."""
    report, reader = sample_report(), read(page)
    buttons = {
        attributes["data-cell"] for tag, attributes in reader.tags if tag == "button" and "data-cell" in attributes
    }
    templates = {attributes["id"][5:] for tag, attributes in reader.tags if tag == "template"}
    links = {attributes["href"] for tag, attributes in reader.tags if tag == "a"}

    for entry in report.view.assessments:
        assert entry.cell.key.digest in buttons & templates
        for run in entry.cell.runs:
            assert f"./{run.run}/" in links


def test_counts_are_shown_and_untested_looks_different(page):
    """A bare tick, or an untested cell that looks like ok."""
    cells = re.findall(r'class="cell ([a-z-]+)"[^>]*>\s*<b>([^<]*)</b><span>([^<]*)</span>', page)

    assert len(cells) == 20
    assert ("not-tested", "not tested", "-") in cells
    assert ("race", "race", "1/4") in cells
    assert all(count for _, _, count in cells)
    assert {slug(state.value) for state in State} >= {name for name, _, _ in cells}


def test_two_hundred_cells_stay_under_two_megabytes():
    """The page would not open on a phone, or in an issue's attachment."""
    page = matrix_page(sample_report(copies=10))

    assert len(sample_report(copies=10).view.assessments) == 200
    assert len(page.encode()) < 2_000_000


def test_a_run_directory_can_never_name_a_scheme():
    """A link would run code."""
    assert href("javascript:alert(1)") == "./javascript%3Aalert%281%29"
    assert href("//evil.example/x") == "./evil.example/x"
    assert href("runs/a b#c") == "./runs/a%20b%23c"


def test_the_search_page_says_verdict_posterior_counts_and_proof():
    """The report of a bisection without its posterior cannot be weighed."""
    page = search_page(sample_search(), created="2026-11-29")
    text = " ".join("".join(read(page).text).split())

    assert "last good 2.12.0.dev20260215+cu130, first bad 2.12.0.dev20260216+cu130" in text
    assert "4/7" in text
    assert "18-90 %" in text
    assert page.count('class="bar') >= 25
    assert "python -m bisect torch-nightlies --good 20260201" in text
    assert "no wheel for this Python" in text


def test_the_matrix_page_shows_the_posterior_of_a_bisection(page):
    """The matrix says that something broke, the bisection says where: on one page."""
    assert "Bisection: torch-nightlies" in page
    assert 'class="bar first-bad"' in page
