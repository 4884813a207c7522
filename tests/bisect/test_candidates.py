"""Candidates and endpoints: what cannot be installed here is none, and every exclusion and endpoint error says why.

Public cases B01, B02, B05, B07, B08, B09, B11 and B28 are the rows below.
"""

from bisect.candidates import nightlies, releases
from bisect.endpoints import select
from datetime import date

import pytest

from envs import index
from envs.errors import UsageError

TARGET = index.Target(python="3.11", architecture="x86_64", glibc="2.36")
TODAY = date(2026, 8, 1)
X86, ARM, WINDOWS = "manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "win_amd64"


def wheel(version, *, tag="cp311-cp311", platform=X86, name="torch", attributes=""):
    encoded = version.replace("+", "%2B")
    return f'<a href="https://files.example/{name}-{encoded}-{tag}-{platform}.whl" {attributes}>x</a>\n'


def page(*anchors):
    return index.parse("<html>" + "".join(anchors), url="https://index.example/torch/")


def nightly_listing(*anchors, target=TARGET):
    return nightlies(page(*anchors), target, cuda="cu130", what="torch nightlies for cu130", today=TODAY)


def release_listing(*anchors, cutoff=""):
    return releases(page(*anchors), TARGET, what="torch releases", cutoff=cutoff, today=TODAY)


def dev(day, **fields):
    return wheel(f"2.13.0.dev{day}+cu130", **fields)


def excluded(found):
    return [(item.build, item.reason) for item in found.excluded]


def test_missing_dates_are_told_and_never_candidates():
    """B01: a search whose midpoint is a date that was never published fails for no reason."""
    listing = nightly_listing(*(dev(day) for day in ("20260601", "20260602", "20260606", "20260607")))
    found = select(listing, good="2026-06-01", bad="2026-06-07")

    assert [item.date for item in found.candidates] == ["2026-06-01", "2026-06-02", "2026-06-06", "2026-06-07"]
    assert excluded(found) == [("2026-06-03 to 2026-06-05", "not published")]


def test_an_endpoint_older_than_the_index_names_its_ends_and_a_release():
    """B02: nightlies are pruned; the person needs to know what is left and what to use instead."""
    listing = nightlies(
        page(wheel("2.9.0.dev20250705+cu128"), wheel("2.9.0.dev20250707+cu128")),
        TARGET,
        cuda="cu128",
        what="torch nightlies for cu128",
        today=TODAY,
    )
    with pytest.raises(UsageError) as caught:
        select(listing, good="2.7.0.dev20250310+cu128", bad="newest")

    assert "which has 2.9.0.dev20250705 to 2.9.0.dev20250707; nightlies are pruned" in caught.value.message
    assert "2.8.0" in caught.value.hint


def test_an_index_for_other_platforms_only_is_said_to_be_that():
    """B05: 'nothing matches' for months, because only old aarch64 wheels were left."""
    with pytest.raises(UsageError) as caught:
        nightly_listing(*(dev(day, platform=ARM) for day in ("20260401", "20260402")))

    assert "2 wheels, none for Python 3.11 on x86_64 Linux (only manylinux_2_28_aarch64)" in caught.value.message
    assert "looks frozen since 2026-04-02" in caught.value.message


def test_a_date_with_other_platforms_only_is_excluded():
    """B07: the newest date has Windows wheels only; `newest` must be the one before."""
    listing = nightly_listing(dev("20260601"), dev("20260602"), dev("20260603", platform=WINDOWS), dev("20260604"))
    found = select(listing, good="oldest", bad="newest")

    assert "2026-06-03" not in [item.date for item in found.candidates]
    assert excluded(found) == [("2.13.0.dev20260603", "no wheel for x86_64 Linux with glibc 2.36 (only win_amd64)")]


def test_a_date_without_our_python_is_told_apart_from_no_build():
    """B08: another Python would do, so the reason matters."""
    listing = nightly_listing(dev("20260601"), dev("20260602", tag="cp312-cp312"), dev("20260604"))
    found = select(listing, good="oldest", bad="newest")

    assert excluded(found) == [("2.13.0.dev20260602", "no cp311 wheel"), ("2026-06-03", "not published")]


@pytest.mark.parametrize(
    ("tag", "python", "usable"),
    [
        ("cp36-none", "3.12", False),
        ("cp313-cp313t", "3.13", False),
        ("cp314-cp314t", "3.14", False),
        ("py3-none", "3.12", True),
        ("cp38-abi3", "3.12", True),
        ("cp313-cp313", "3.13", True),
    ],
)
def test_tags_decide(tag, python, usable):
    """B09: a cp36-none or free-threaded wheel taken for ours cannot be installed."""
    target = index.Target(python=python, architecture="x86_64", glibc="2.36")
    sure = dev("20260601", tag="py3-none")
    listing = nightly_listing(sure, dev("20260602", tag=tag), target=target)

    assert (len(listing.candidates) == 2) is usable


def test_links_to_another_host_and_the_hash_of_the_metadata():
    """B11: the hash of the metadata is not the wheel's; taking it would merge or refuse builds."""
    listing = nightly_listing(
        dev("20260601", attributes='data-core-metadata="sha256=' + "a" * 64 + '"'),
        dev("20260602", attributes='data-core-metadata="sha256=' + "a" * 64 + '"'),
    )
    found = select(listing, good="oldest", bad="newest")

    assert [item.sha256 for item in found.candidates] == ["", ""]
    assert found.equal == ()
    assert found.candidates[0].url.startswith("https://files.example/torch-2.13.0.dev20260601%2Bcu130-")


def test_nightlies_sort_by_date_and_releases_by_version():
    """B28: a nightly of 2.10 sorts before 2.10.0 by PEP 440, and 2.9.1 was out after both."""
    versions = ("2.10.0", "2.9.1", "2.10.1", "2.9.0")
    assert [item.id for item in release_listing(*map(wheel, versions)).candidates] == [
        "2.9.0",
        "2.9.1",
        "2.10.0",
        "2.10.1",
    ]
    mixed = nightly_listing(
        wheel("2.11.0.dev20251202+cu130"), wheel("2.10.0.dev20251201+cu130"), wheel("2.9.0.dev20251203+cu130")
    )
    assert [item.date for item in mixed.candidates] == ["2025-12-01", "2025-12-02", "2025-12-03"]


def test_two_versions_of_one_date_are_one_candidate():
    """On the day a release branch is cut, both versions are published; the newer one is the nightly."""
    listing = nightly_listing(wheel("2.12.0.dev20260601+cu130"), wheel("2.13.0.dev20260601+cu130"))

    assert [item.id for item in listing.candidates] == ["2.13.0.dev20260601"]


def test_another_cuda_variant_is_excluded():
    """An index of all variants must not silently answer with another one."""
    listing = nightly_listing(dev("20260601"), wheel("2.13.0.dev20260602+cu128"), dev("20260603"))

    assert excluded(select(listing, good="oldest", bad="newest")) == [
        ("2.13.0.dev20260602+cu128", "built for cu128, not cu130")
    ]


def test_equal_wheels_are_one_candidate():
    """The same bytes on two dates cannot differ; blaming one of them is always wrong."""
    same = "#sha256=" + "b" * 64
    anchors = [dev(day).replace('.whl"', f'.whl{same}"') for day in ("20260601", "20260602")]
    found = select(nightly_listing(*anchors, dev("20260603")), good="oldest", bad="newest")

    assert found.equal == (("2.13.0.dev20260601", "2.13.0.dev20260602"),)


@pytest.mark.parametrize("text", ["2026-06-04", "20260604", "2.13.0.dev20260604", "2.13.0.dev20260604+cu130"])
def test_an_endpoint_that_is_not_there_names_the_nearest(text):
    """Without the neighbours the person has to read the index."""
    listing = nightly_listing(*(dev(day) for day in ("20260601", "20260602", "20260606", "20260607")))
    with pytest.raises(UsageError) as caught:
        select(listing, good=text, bad="newest")

    assert caught.value.message.startswith(f"--good {text}")
    assert caught.value.hint == "nearest: 2.13.0.dev20260602, 2.13.0.dev20260606"


def test_an_endpoint_that_is_excluded_says_why():
    """'Not on the index' would be a lie when it is there for another Python."""
    listing = nightly_listing(dev("20260601"), dev("20260602", tag="cp312-cp312"), dev("20260603"))
    with pytest.raises(UsageError, match="no cp311 wheel"):
        select(listing, good="2026-06-02", bad="newest")


@pytest.mark.parametrize("text", ["yesterday", "2.x", "", "2026-99-99"])
def test_an_endpoint_that_is_nothing_is_a_usage_error(text):
    """A typo must not become a traceback."""
    listing = nightly_listing(dev("20260601"), dev("20260602"))
    with pytest.raises(UsageError, match=r"neither a date nor a version|no date: month"):
        select(listing, good=text, bad="newest")


@pytest.mark.parametrize("text", ["20260901", "2026-09-01"])
def test_a_date_is_no_endpoint_among_releases(text):
    """`not on the index, which has 2.8.0 to 2.15.0` sends a person to look for a version that is a date."""
    with pytest.raises(UsageError, match=f"--good {text} is a date, and none of the torch releases is of that day"):
        select(release_listing(wheel("2.8.0"), wheel("2.15.0")), good=text, bad="newest")


def test_a_version_that_is_a_date_is_a_version():
    """Some packages are versioned by their day; another release may have been uploaded on it."""
    found = release_listing(wheel("20231228"), wheel("20250506"))

    assert select(found, good="20231228", bad="20250506").good == "20231228"


def test_one_build_is_no_range():
    """A search in a single build would claim something about nothing."""
    listing = nightly_listing(dev("20260601"), dev("20260602"))
    with pytest.raises(UsageError, match="the same build"):
        select(listing, good="2026-06-02", bad="newest")


def test_good_may_be_newer_than_bad():
    """Finding a fix: the candidates stay oldest first, whatever the endpoints are called."""
    found = select(release_listing(*map(wheel, ("2.8.0", "2.9.0", "2.10.0"))), good="2.10.0", bad="2.8.0")

    assert (found.good, found.bad) == ("2.10.0", "2.8.0")
    assert [item.id for item in found.candidates] == ["2.8.0", "2.9.0", "2.10.0"]


def test_releases_leave_out_prereleases_withdrawn_ones_and_those_after_the_cut_off():
    """A release nobody can lock today is no candidate, and the report must say so."""
    late = 'data-upload-time="2026-07-30T00:00:00Z"'
    listing = release_listing(
        wheel("2.8.0"),
        wheel("2.9.0rc1"),
        wheel("2.9.0", attributes='data-yanked="broken"'),
        wheel("2.10.0"),
        wheel("2.11.0", attributes=late),
        cutoff="2026-07-01T00:00:00Z",
    )

    assert [item.id for item in listing.candidates] == ["2.8.0", "2.10.0"]
    assert excluded(listing) == [
        ("2.9.0rc1", "a pre-release"),
        ("2.9.0", "withdrawn"),
        ("2.11.0", "uploaded 2026-07-30, after the environment's cut-off 2026-07-01"),
    ]
    assert excluded(select(listing, good="2.8.0", bad="2.10.0")) == [
        ("2.9.0rc1", "a pre-release"),
        ("2.9.0", "withdrawn"),
    ]


def test_an_empty_index_is_an_error():
    """No wheel at all is another problem than no wheel for us."""
    with pytest.raises(UsageError, match="no wheel of it at all"):
        nightly_listing()
