"""Histories: what was done to an environment is data, covers its identity, and is refused when it is wrong."""

import json

import pytest

from envs import cli, history, replay, spec
from envs.errors import UsageError
from envs.lock import pins_digest
from envs.step import Action, HistoryStep, Installer

RESIDUE = """
summary = "installed, uninstalled, torch put back"
bases = ["cu128"]

[[steps]]
action = "install"
packages = ["sglang==0.5.9"]

[[steps]]
action = "uninstall"
packages = ["sglang"]
installer = "pip"

[[steps]]
action = "swap"
torch = "base"

[[steps]]
action = "set-env"
variables = { CUDA_MODULE_LOADING = "EAGER" }

[instead.cu130]
"sglang==0.5.9" = "sglang==0.5.14"
"""


def residue():
    return history.parse(RESIDUE, name="residue", origin="residue.toml")


def test_a_history_is_a_base_and_its_steps():
    """Sessions, locks and the matrix all name an environment `base+history`."""
    definition = history.compose(spec.load("cu128"), residue())

    assert definition.name == "cu128+residue"
    assert [step.action for step in definition.history] == ["install", "uninstall", "swap", "set-env"]
    assert definition.history[1].installer is Installer.PIP
    assert (definition.history[2].torch, definition.history[2].cuda) == ("2.10.0", "cu128")
    assert ("CUDA_MODULE_LOADING", "EAGER") in definition.environment
    assert history.base_of(definition) == spec.load("cu128")


def test_another_torch_takes_another_release():
    """sglang 0.5.9 on a cu130 base would replace its torch by one for CUDA 12.8."""
    definition = history.compose(spec.load("cu130"), residue())

    assert definition.history[0].packages == ("sglang==0.5.14",)


def test_steps_resolve_up_to_the_cut_off_of_the_base():
    """Without it the same history would give another environment every day."""
    definition = history.compose(spec.load("cu128"), residue())

    assert {step.exclude_newer for step in definition.history} == {spec.load("cu128").exclude_newer}


def test_the_identity_covers_every_step():
    """Two histories on one base would share an environment, or a clean one would be taken for a dirty one."""
    definition = history.compose(spec.load("cu128"), residue())
    digests = {
        pins_digest((), interpreter="cpython", history=history.identity(definition)[:count]) for count in range(5)
    }

    assert len(digests) == 5
    assert json.loads(history.identity(definition)[0])["action"] == "install"


def test_shipped_histories_are_whole_and_name_shipped_bases():
    """A session of a history that does not parse, or of a base that is gone, would fail when it is run."""
    names = {found.name for found in history.shipped()}
    bases = {definition.name for definition in spec.shipped()}

    assert {"sglang", "flashinfer", "sglang-residue", "swap", "leftovers-min"} <= names
    for found in history.shipped():
        assert found.summary
        assert found.bases
        assert set(found.bases) <= bases
        assert {base for base, _ in found.instead} <= set(found.bases)
        replaced = {text for _, pairs in found.instead for text, _ in pairs}
        assert replaced <= {text for step in found.steps for text in step.packages}
        for base in found.bases:
            assert spec.load(f"{base}+{found.name}").history


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = 1", "steps must be tables"),
        ("summary = 'x'", "has no steps"),
        ("stepz = 1", "unknown key 'stepz'"),
        ("[[steps]]\naction = 'install'", "install needs the key 'packages'"),
        ("[[steps]]\naction = 'swap'\ntorch = '2.11.0'", "swap needs the key 'cuda'"),
        ("[[steps]]\naction = 'set-env'", "set-env needs the key 'variables'"),
        ("[[steps]]\naction = 'instal'\npackages = ['a']", "action must be one of install"),
        ("[[steps]]\naction = 'install'\npackages = ['a b c']", "'a b c' is not a requirement"),
        ("[[steps]]\naction = 'install'\npackages = ['a']\ninstaller = 'conda'", "installer must be one of uv, pip"),
        ("[[steps]]\naction = 'write-pth'", "write-pth needs the key 'files'"),
        ("[[steps]]\naction = 'write-pth'\nfiles = { 'a/b.pth' = '' }", "'a/b.pth' is not the name of a .pth file"),
        ("= 1", "is not TOML"),
    ],
)
def test_a_wrong_history_says_which_step_and_key(text, said):
    """A step with a mistyped key would be skipped in silence, and the environment called contaminated."""
    with pytest.raises(UsageError) as caught:
        history.parse(text, name="x", origin="x.toml")

    assert said in caught.value.message


def test_an_unknown_history_is_suggested():
    """`cu128+sglan` would be looked up as a definition file."""
    with pytest.raises(UsageError) as caught:
        spec.load("cu128+sglan")

    assert "sglang" in caught.value.hint


# a serving package pins a nightly that is gone (openai-cookbook#2330)
GONE_NIGHTLY = (
    "error: No solution found: Because there is no version of torch==2.9.0.dev20250804+cu128 and "
    "vllm==0.10.1+gptoss depends on torch==2.9.0.dev20250804+cu128, vllm cannot be used."
)
GONE_PIN = (
    "error: No solution found: Because there is no version of apache-tvm-ffi==0.1.0b15 and "
    "flashinfer-python==0.4.1 depends on apache-tvm-ffi==0.1.0b15, vllm cannot be used."
)


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        (GONE_NIGHTLY, "resolution_conflict"),
        (GONE_PIN, "resolution_conflict"),
        ("error: dns error: failed to lookup address information", "download_failed"),
    ],
)
def test_a_step_that_cannot_be_resolved_today_cannot_be_built(log, outcome):
    """A pin that was deleted would count against torch, or stop the whole matrix."""
    step = HistoryStep(action=Action.INSTALL, packages=("vllm==0.10.1",))

    error = replay.explained(log, step, step.packages)

    assert error.outcome == outcome
    assert error.exit_code == 5
    assert "install vllm==0.10.1" in error.message


def test_a_torch_that_is_gone_is_not_published():
    """The swap's own torch missing is another answer than a missing dependency."""
    step = HistoryStep(action=Action.SWAP, torch="2.9.0.dev20250804", cuda="cu128")
    log = "error: No solution found: Because there is no version of torch==2.9.0.dev20250804, it cannot be used."

    assert replay.explained(log, step, (f"torch=={step.torch}",)).outcome == "not_published"


@pytest.mark.subprocess
def test_histories_are_listed_with_what_was_done(capsys, tmp_path):
    """Nobody finds an environment whose name is in no list."""
    assert cli.main(["list", "--store", str(tmp_path), "--json"]) == 0

    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)["histories"]}

    assert listed["cu128+sglang-residue"]["state"] == "locked"
    assert "uninstalled the usual way" in listed["cu128+sglang-residue"]["summary"]
