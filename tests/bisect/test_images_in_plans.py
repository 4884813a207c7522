"""Images of containers in plans: what is missing and cannot be fetched is told first, and no plan fetches anything."""

import os
import subprocess
import sys

import pytest

from ..envs.fake_engine import FakeEngine, serving
from .test_search_end_to_end import ROOT

pytestmark = [pytest.mark.socket, pytest.mark.subprocess]
NOWHERE = ("--index", "http://127.0.0.1:1", "--default-index", "http://127.0.0.1:1")
SEALED = ("--backend", "container", "--base-image")
DIGEST = "registry.example/torch@sha256:" + "d" * 64


@pytest.fixture
def engine(tmp_path):
    fake = FakeEngine()
    with serving(fake, tmp_path) as address:
        fake.address = address
        yield fake


def plan(engine, tmp_path, *words, program="bisect", places=NOWHERE):
    argv = [sys.executable, "-m", program, *words, "--dry-run", "--store", str(tmp_path / "store"), *places]
    environ = {**os.environ, "DOCKER_HOST": engine.address}
    return subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "words",
    [("train", "cu130"), ("torch-releases", "--good", "2.15.0", "--bad", "2.8.0"), ("matrix",)],
    ids=lambda words: words[0],
)
def test_a_base_image_that_is_on_no_registry_and_not_here_is_told_by_the_plan(engine, tmp_path, words):
    """The plan would promise gigabytes and hours, and the command end at its first build."""
    done = plan(engine, tmp_path, *words, *SEALED, "base:gone")

    assert (done.returncode, done.stdout) == (5, "")
    assert "the engine has no image base:gone" in done.stderr
    assert "python -m envs base-image" in done.stderr
    assert engine.fetched == []


@pytest.mark.parametrize(
    ("image", "told"), [("sha256:" + "e" * 64, "holds no image"), ("./gone.tar", "there is no image archive")]
)
def test_an_image_of_a_definition_that_nobody_can_fetch_is_told_by_the_plan(engine, tmp_path, image, told):
    """An id is fetched from nowhere."""
    definition = tmp_path / "mine.toml"
    definition.write_text(f'summary = "an image"\nimage = "{image}"\n')

    done = plan(engine, tmp_path, "train", str(definition))

    assert (done.returncode, done.stdout) == (5, "")
    assert told in done.stderr


def test_a_plan_does_not_fetch_an_image_that_a_registry_may_have(engine, tmp_path):
    """A dry run would download 20 GB."""
    definition = tmp_path / "mine.toml"
    definition.write_text(f'summary = "an image"\nimage = "{DIGEST}"\n')

    done = plan(engine, tmp_path, "train", str(definition))

    assert done.returncode == 0, done.stderr
    assert "to be built" in done.stdout
    assert engine.fetched == []


def test_a_plan_does_not_fetch_a_base_image_and_says_that_its_size_is_not_known(engine, tmp_path):
    """A dry run fetched gigabytes to say how many there are."""
    axes = tmp_path / "axes.toml"
    axes.write_text('builds = ["cu130"]\n')
    commands = [
        ("bisect", "train", "cu130"),
        ("bisect", "workarounds", "cu130"),
        ("bisect", "matrix", "--axes", str(axes), "--out", str(tmp_path / "m")),
        ("envs", "build", "cu130"),
    ]

    done = [plan(engine, tmp_path, *words, *SEALED, DIGEST, program=name, places=()) for name, *words in commands]

    for one in done:
        assert one.returncode == 0, one.stderr
        assert f"the base image {DIGEST} is fetched first, its size is not known" in one.stdout + one.stderr
        assert "GB to download" in one.stdout + one.stderr
    assert engine.fetched == []
