"""Histories carried out for real: the real uv and pip, an index on loopback, wheels that share paths."""

import json
import subprocess
from dataclasses import replace

import pytest

from envs import build, cli, history, outlook, verify
from envs.errors import CannotBuildError
from envs.step import Action, HistoryStep, Installer, in_words

from . import stubs

pytestmark = [pytest.mark.uv, pytest.mark.socket]

VERSION = "2.12.0.dev20260215"
WHEEL = f"{VERSION}+cu130"
LIBRARY = "nvidia/cudnn/lib/libcudnn.so.9"


@pytest.fixture
def torch_index(tmp_path):
    index = stubs.Index(tmp_path / "torch-index", hashes=False)
    stubs.torch(index.project("torch"), WHEEL, requires=["nvidia-cudnn-cu13"])
    with stubs.serving(index):
        yield index


@pytest.fixture
def default_index(tmp_path):
    """A serving package that wants another torch and the other CUDA major's cuDNN, at the same path."""
    index = stubs.Index(tmp_path / "default-index")
    stubs.torch(index.project("torch"), "2.9.1", cuda="12.8", requires=["nvidia-cudnn-cu12"])
    stubs.wheel(index.project("nvidia-cudnn-cu13"), "nvidia-cudnn-cu13", "9.19", files={LIBRARY: "thirteen"})
    stubs.wheel(index.project("nvidia-cudnn-cu12"), "nvidia-cudnn-cu12", "9.10", files={LIBRARY: "twelve"})
    files = {"cutlass/__init__.py": "", "dsl.pth": "import sys"}
    stubs.wheel(index.project("nvidia-cutlass-dsl"), "nvidia-cutlass-dsl", "4.3.5", files=files)
    requires = ["torch==2.9.1", "nvidia-cutlass-dsl"]
    stubs.wheel(index.project("serving"), "serving", "1.0", requires=requires)
    stubs.wheel(index.project("gone"), "gone", "1.0", requires=["deleted-pin==0.1.0b15"])
    stubs.wheel(index.project("deleted-pin"), "deleted-pin", "0.2")
    stubs.wheel(index.project("leaf"), "leaf", "2.0")
    with stubs.serving(index):
        yield index


@pytest.fixture
def places(tmp_path, torch_index, default_index, monkeypatch):
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return stubs.places(tmp_path, index=torch_index.url, default_index=default_index.url)


def install(*packages, **more):
    return HistoryStep(action=Action.INSTALL, packages=packages, **more)


def built(places, *steps):
    base = stubs.definition()
    definition = replace(base, name=f"{base.name}+told", history=steps, exclude_newer="")
    return build.build(definition, places, report=[].append)


def test_what_a_serving_package_leaves_behind_is_there_and_found(places):
    """Installed and uninstalled is not clean: its torch, its leftovers, and a library deleted under another name."""
    clean = built(places)
    uninstall = HistoryStep(action=Action.UNINSTALL, packages=("serving", "nvidia-cudnn-cu12"))

    dirty = built(places, install("serving"), uninstall)

    assert dirty.digest != clean.digest
    assert dirty.fingerprint.torch == "2.9.1"
    names = {entry.partition("==")[0] for entry in dirty.fingerprint.distributions}
    assert "nvidia-cutlass-dsl" in names
    assert "serving" not in names
    found = verify.verify(dirty.path / "venv", pins=outlook.pins_of(dirty.path))
    kinds = {(finding.kind, finding.path.rpartition("/")[2]) for finding in found.findings}
    assert ("missing", "libcudnn.so.9") in kinds
    assert ("pth", "dsl.pth") in kinds
    assert ("unexpected", "nvidia-cutlass-dsl") in kinds


def test_both_cuda_majors_own_one_library_while_it_is_installed(places):
    """The second wheel overwrites the first one's file, and no freeze shows it."""
    dirty = built(places, install("serving"))

    doubly = [item for item in verify.verify(dirty.path / "venv").findings if item.kind == "doubly_owned"]

    assert [item.path.rpartition("/")[2] for item in doubly] == ["libcudnn.so.9"]
    assert set(doubly[0].owners) == {"nvidia-cudnn-cu12==9.10", "nvidia-cudnn-cu13==9.19"}


def test_the_base_is_never_touched(places):
    """A history would contaminate the clean arm it is compared with."""
    clean = built(places)

    built(places, install("serving"))

    assert verify.verify(clean.path / "venv", pins=outlook.pins_of(clean.path)).ok


def test_every_step_keeps_its_log_and_what_was_installed_after_it(places):
    """Without them nobody can say which step replaced torch."""
    dirty = built(places, install("serving"), HistoryStep(action=Action.WIPE_CACHE))

    steps = {path.name: path.read_text() for path in (dirty.path / "steps").iterdir()}

    assert {"01-install.log", "01-freeze.txt", "02-wipe-cache.log", "02-freeze.txt"} == set(steps)
    assert "torch==2.9.1" in steps["01-freeze.txt"]
    assert "serving" in steps["01-install.log"]


def test_a_step_that_cannot_be_resolved_leaves_nothing(places):
    """A pin that was deleted since is `cannot build` with its name, and no half-made environment."""
    with pytest.raises(CannotBuildError) as caught:
        built(places, install("gone"))

    assert caught.value.outcome == "resolution_conflict"
    assert "deleted-pin" in caught.value.message
    assert not list((places.store / "building").glob("*"))


@pytest.mark.parametrize(
    ("step", "outcome", "named"),
    [
        (HistoryStep(action=Action.SWAP, torch="2.9.9", cuda="cu128"), "not_published", "torch==2.9.9"),
        (install("gone"), "resolution_conflict", "deleted-pin"),
        (install("vanished==3.0", installer=Installer.PIP), "resolution_conflict", "vanished"),
    ],
)
def test_a_pin_that_was_deleted_is_told_before_anything_is_built(places, step, outcome, named):
    """Five gigabytes would be installed for the steps before it, to end in `cannot build`."""
    with pytest.raises(CannotBuildError) as caught:
        built(places, install("serving"), step)

    assert caught.value.outcome == outcome
    assert named in caught.value.message
    assert not (places.store / "building").exists()


def test_a_pth_that_somebody_left_is_where_it_was(places):
    """From another directory it would run later, and its relative lines would mean other places."""
    base = stubs.definition()
    definition = history.with_pth(base, {"left.pth": "import sys; sys.left = True"})

    dirty = build.build(definition, places, report=[].append)

    program = "import sys; print(sys.left)"
    said = subprocess.run([dirty.python, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"
    assert history.base_of(definition).name == base.name
    assert dirty.digest != built(places).digest


@pytest.mark.network
def test_pip_carries_its_steps_out_too(places, monkeypatch):
    """pip resolves differently, so a history says who installed; pip itself stays outside the environment."""
    monkeypatch.setattr("envs.replay.PIP", "pip")

    dirty = built(places, install("serving", installer=Installer.PIP))

    names = {entry.partition("==")[0] for entry in dirty.fingerprint.distributions}
    assert "serving" in names
    assert "pip" not in names
    assert in_words(install("serving", installer=Installer.PIP)) == "install serving with pip"


def test_the_difference_to_the_clean_environment_names_what_happened(places, capsys):
    """`envs diff` on two built environments: the changed torch first, then the shared library and the leftovers."""
    clean, dirty = built(places), built(places, install("serving"))

    code = cli.main(["diff", str(clean.digest), str(dirty.digest), "--store", str(places.store), "--json"])

    found = json.loads(capsys.readouterr().out)["differences"]
    assert code == 0
    assert {"version", "cuda"} <= {each["name"] for each in found[:3] if each["kind"] == "torch"}
    kinds = {(each["kind"], each["name"].rpartition("/")[2]) for each in found}
    assert ("file", "libcudnn.so.9") in kinds
    assert ("startup", "dsl.pth") in kinds
    assert ("package", "nvidia-cutlass-dsl") in kinds


def test_an_environment_that_is_what_its_history_made_verifies(places, capsys):
    """Exit 3 for every contaminated arm would make `verify` worthless there; a planted change is still exit 3."""
    uninstall = HistoryStep(action=Action.UNINSTALL, packages=("serving", "nvidia-cudnn-cu12"))
    dirty = built(places, install("serving"), uninstall)
    words = ["verify", dirty.digest, "--store", str(places.store), "--json"]

    clean = cli.main(words)
    told = json.loads(capsys.readouterr().out)
    (dirty.path / "venv" / "lib" / f"python{stubs.PYTHON}" / "site-packages" / "planted.pth").write_text("import os")
    planted = cli.main(words)

    assert (clean, told["ok"], planted) == (0, True, 3)
    assert {item["path"] for item in told["unexpected"] if item["expected"]} == {"nvidia-cutlass-dsl", "torch"}
    assert [item["path"].rpartition("/")[2] for item in told["missing"]] == ["libcudnn.so.9"]
    found = json.loads(capsys.readouterr().out)
    assert [item["path"].rpartition("/")[2] for item in found["unowned"] if item["fault"]] == ["planted.pth"]


def test_planted_problems_are_found_and_named(places):
    """An edited file, a deleted library and a new .pth: versions, freeze and check say nothing about them."""
    dirty = built(places, install("nvidia-cutlass-dsl"))
    site = next((dirty.path / "venv" / "lib").glob("python3*")) / "site-packages"
    with (site / "torch" / "__init__.py").open("a") as file:
        file.write("# edited in place\n")
    (site / LIBRARY).unlink()
    (site / "planted.pth").write_text("import tempfile")

    found = verify.verify(dirty.path / "venv")

    named = {(item.kind.value, item.path.rpartition("site-packages/")[2]) for item in found.findings}
    planted = {("changed", "torch/__init__.py"), ("missing", LIBRARY), ("pth", "planted.pth")}
    assert planted | {("unowned", "planted.pth")} <= named
    assert not found.ok
