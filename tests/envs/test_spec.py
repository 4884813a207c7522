"""A definition says exactly what it means, and a wrong one says which key is wrong."""

import pytest

from envs import backend, spec
from envs.errors import UsageError
from envs.step import Action, HistoryStep, Installer

GOOD = """
summary = "a build"
torch = "2.11.0"
cuda = "cu130"
python = ["3.12", "3.11"]
requirements = ["numpy>=2", "setuptools<82"]
exclude_newer = "2026-11-22T00:00:00Z"

[environment]
B = "2"
A = "1"

[[history]]
action = "install"
packages = ["sglang==0.5.12"]
installer = "pip"
"""


def parse(text, name="custom"):
    return spec.parse(text, name=name, origin="custom.toml")


def refused(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    return caught.value


def test_every_key_arrives():
    """A key that is accepted but dropped would build another environment than the one asked for."""
    definition = parse(GOOD)

    assert definition == spec.Definition(
        name="custom",
        summary="a build",
        torch="2.11.0",
        cuda="cu130",
        channel=spec.Channel.RELEASE,
        pythons=("3.12", "3.11"),
        requirements=("numpy>=2", "setuptools<82"),
        exclude_newer="2026-11-22T00:00:00Z",
        environment=(("A", "1"), ("B", "2")),
        history=(HistoryStep(action=Action.INSTALL, packages=("sglang==0.5.12",), installer=Installer.PIP),),
    )


def test_shipped_definitions_are_the_promised_ones():
    """`nox -s train-<env>` is promised for these names, with these builds."""
    shipped = {definition.name: (definition.torch, definition.cuda) for definition in spec.shipped()}

    assert {
        "cu126": ("2.7.1", "cu126"),
        "cu128": ("2.10.0", "cu128"),
        "cu130": ("2.11.0", "cu130"),
        "cu130-latest": ("2.14.1", "cu130"),
        "cu132": ("2.15.0", "cu132"),
        "nightly": ("", "cu130"),
    }.items() <= shipped.items()


def test_shipped_releases_have_a_cut_off_and_compilation_needs():
    """Without a cut-off the environment drifts; without setuptools torch 2.9 and 2.10 cannot compile."""
    for definition in spec.shipped():
        names = {requirement.split("<")[0].split("=")[0] for requirement in definition.requirements}

        assert {"numpy", "setuptools"} <= names, definition.name
        if definition.channel is spec.Channel.RELEASE:
            assert definition.exclude_newer, definition.name


def test_unknown_key_is_refused_with_the_near_one():
    """A mistyped cut-off that is ignored lets an old environment drift."""
    error = refused(GOOD.replace("exclude_newer", "exlude_newer"))

    assert "unknown key 'exlude_newer'" in error.message
    assert "'exclude_newer'" in error.hint


def test_unknown_key_in_a_step_names_the_step():
    """Otherwise a person has to guess which of ten steps is meant."""
    error = refused(GOOD.replace("installer", "instaler"))

    assert "history step 1: unknown key 'instaler'" in error.message


def test_cuda_tag_without_an_index_names_the_near_ones():
    """B25: cu131 never had an index; 'version missing' would send people looking for a version."""
    error = refused(GOOD.replace("cu130", "cu131"))

    assert "no wheel index for 'cu131'" in error.message
    assert "cu130, cu132" in error.hint


@pytest.mark.parametrize("tag", ["cuda13", "130", "", "rocm6.4"])
def test_nonsense_tags_are_refused(tag):
    """Whatever is written there, the answer is one line, never a traceback."""
    assert refused(GOOD.replace('"cu130"', f'"{tag}"')).hint or tag == ""


def test_release_never_built_for_the_variant():
    """torch 2.12 dropped CUDA 12.8; asking the index for it would only say 'no matching version'."""
    error = refused(GOOD.replace("2.11.0", "2.12.0").replace("cu130", "cu128"))

    assert "torch 2.12.0 was never built for cu128, only for cu126, cu130, cu132" in error.message
    assert "2.8, 2.9, 2.10, 2.11" in error.hint


def test_release_younger_than_the_tables_is_not_refused():
    """A table that is a release behind must not stop people from testing that release."""
    assert parse(GOOD.replace("2.11.0", "2.16.0")).torch == "2.16.0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('torch = "2.11.0"', "torch = 2", "torch must be a string"),
        ('torch = "2.11.0"', 'torch = "two"', "not a version of torch"),
        ('torch = "2.11.0"', 'torch = "2.11.0+cu130"', "repeats the CUDA tag"),
        ('torch = "2.11.0"', "", "'torch' is missing"),
        ('["3.12", "3.11"]', '"3"', "python must be"),
        ('["3.12", "3.11"]', "[]", "python must be"),
        ('"numpy>=2"', '"numpy >="', "not a requirement"),
        ('"numpy>=2"', '"torch==2.8.0"', "torch is among the requirements"),
        ("2026-11-22T00:00:00Z", "yesterday", "exclude_newer must be a date"),
        ('"install"', '"reinstall"', "action must be one of"),
        ('"pip"', '"conda"', "installer must be one of"),
        ('A = "1"', "A = 1", "environment must be a table of strings"),
        ("[[history]]", "[history]", "history must be a list of tables"),
        ('summary = "a build"', "summary = ", "is not TOML"),
    ],
)
def test_wrong_values_name_their_key(old, new, message):
    """Bad input gets one line that says which key of which file."""
    error = refused(GOOD.replace(old, new))

    assert message in error.message
    assert "custom.toml" in error.message


def test_unknown_definition_suggests():
    """A mistyped session name is answered with the right one."""
    with pytest.raises(UsageError) as caught:
        spec.load("cu13O")

    assert "cu130" in caught.value.hint


def test_definition_file_by_path(tmp_path):
    """Adding a definition needs no code, and a file outside the repository works too."""
    (tmp_path / "mine.toml").write_text(GOOD)

    assert spec.load(str(tmp_path / "mine.toml")).name == "mine"


def test_derived_nightly_has_no_cut_off():
    """Nightlies are younger than the cut-off of the definition: with it none could be resolved."""
    derived = spec.with_torch(spec.load("cu130"), version="2.12.0.dev20260215")

    assert derived.name == "torch-2.12.0.dev20260215-cu130-py311"
    assert (derived.torch, derived.cuda, derived.channel) == (
        "2.12.0.dev20260215",
        "cu130",
        spec.Channel.NIGHTLY,
    )
    assert derived.exclude_newer == ""


def test_derived_release_takes_the_variant_that_exists():
    """A bisection over releases crosses the change of the default variant from CUDA 12 to 13."""
    base = spec.load("cu130")

    assert spec.with_torch(base, version="2.8.0").cuda == "cu128"
    assert spec.with_torch(base, version="2.10.0").cuda == "cu130"
    assert spec.with_torch(base, version="2.10.0+cu126").cuda == "cu126"
    assert spec.with_torch(base, version="2.8.0").exclude_newer == base.exclude_newer


def test_derived_release_for_an_impossible_variant():
    """An explicit wish is not silently replaced by another variant."""
    with pytest.raises(UsageError, match="never built for cu132"):
        spec.with_torch(spec.load("cu130"), version="2.8.0", cuda="cu132")


def test_tables_agree_with_themselves():
    """The default variant of a release is one of its variants, and every tag is a known one."""
    for series in ("2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"):
        variants = backend.variants(f"{series}.0")

        assert backend.default_variant(f"{series}.0") in variants
        assert set(variants) <= set(backend.CUDA_TAGS)


IMAGE = 'summary = "s"\nimage = "registry.example/torch:1"\n'


def test_an_image_needs_no_torch_cuda_or_python():
    """What is in an image is asked of it; having to guess it first would make the definition lie."""
    found = spec.parse(IMAGE, name="image", origin="image.toml")

    assert (found.torch, found.cuda, found.pythons, found.as_it_is) == ("", "", (), True)


def test_another_torch_for_an_image_is_built_beside_its_own():
    """A bisection of torch over an image would ask the same torch at every step."""
    image = spec.parse(IMAGE, name="image", origin="image.toml")

    found = spec.with_torch(image, version="2.12.0")

    assert (found.torch, found.cuda, found.image, found.as_it_is) == ("2.12.0", "cu130", image.image, False)
    assert found.pythons


def test_an_image_archive_is_found_beside_its_definition(tmp_path):
    """The same definition would name another file from another directory, or a registry that nobody meant."""
    (tmp_path / "saved.tar").write_bytes(b"")
    (tmp_path / "image.toml").write_text('summary = "s"\nimage = "saved.tar"\n')

    assert spec.load(str(tmp_path / "image.toml")).image == str(tmp_path / "saved.tar")
