"""The workarounds: what each changes, that it can be undone, and that none of them changes what is learned."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.fx._symbolic_trace as symbolic_trace

from dflash import compat
from dflash.config import ConfigError
from dflash.profiles import SMOKE
from dflash.result import Request, ResultFile
from dflash.sizes import dense_bytes, dense_score_bytes
from dflash.train import Run
from dflash.workarounds import NAMES, check, environment_of, make
from dflash.workarounds.base import CRASH_HAZARDS, FLAG_HAZARDS
from dflash.workarounds.choices import NoCompile
from dflash.workarounds.locks import LockCompile, SharedLock

# Dynamo reads attributes while it compiles and torch warns about some; as errors these would fail the compilation.
pytestmark = pytest.mark.filterwarnings("default")

ROOT = Path(__file__).parents[2]
CURES = [name.replace("=N", "=128") for name in NAMES]
TINY = dataclasses.replace(
    SMOKE, num_drafters=1, steps=3, warmup_steps=1, num_layers=2, layer_types=("sliding", "full"), max_context=160
)


def run(name: str, tmp_path: Path, config=TINY, *, force: str = "") -> dict:
    """The result document of one benchmark run in this process."""
    workaround = make(name)
    config = workaround.configure(config)
    if refusal := workaround.refusal(config):
        pytest.skip(refusal)
    output = tmp_path / f"{name}.json"
    request = Request(
        argv=(),
        output=output,
        progress=None,
        profile="smoke",
        workaround=name,
        amplify=False,
        force=force,
        imports=(),
    )
    torch._dynamo.reset()
    shown = warnings.showwarning
    try:
        Run(request, config, workaround, ResultFile(request, config, clock=time.time())).execute()
    finally:
        workaround.restore()
        warnings.showwarning = shown
    return json.loads(output.read_text())


def losses(result: dict) -> list[float]:
    assert [thread["exceptions"] for thread in result["threads"] if thread["exceptions"]] == []
    return result["threads"][-1]["losses"]


@pytest.fixture(scope="module")
def plain_losses(tmp_path_factory):
    return losses(run("none", tmp_path_factory.mktemp("none")))


@pytest.mark.torch
@pytest.mark.parametrize("name", CURES[1:])
def test_no_workaround_changes_the_losses(name, plain_losses, tmp_path):
    """A cure that trains something else is no cure; same seed, one thread, within floating-point tolerance."""
    assert plain_losses == pytest.approx(losses(run(name, tmp_path)), rel=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["thread-local-flag", "patch-check", "force-compile"])
def test_the_probes_say_that_the_flag_no_longer_leaks(name, tmp_path):
    """`safe` needs this argument: zero crashes alone may be luck."""
    if refusal := make(name).refusal(TINY):
        pytest.skip(refusal)
    output = tmp_path / "hazards.json"
    argv = [sys.executable, "-m", "dflash.hazards", "--output", str(output), "--workaround", name]
    argv += ["--only", ",".join(FLAG_HAZARDS)]
    subprocess.run(argv, cwd=ROOT, check=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"})

    result = json.loads(output.read_text())

    assert name == result["workaround"]
    assert {"safe"} == {hazard["answer"] for hazard in result["hazards"]}, result["hazards"]


@pytest.mark.torch
def test_the_lock_trains_several_threads_without_a_failure(tmp_path):
    """The lock is the reference cure: under it no thread may fail on any release."""
    result = run("lock", tmp_path, dataclasses.replace(TINY, num_drafters=3))

    assert all(thread["completed"] for thread in result["threads"])
    assert set(CRASH_HAZARDS) == set(result["workaround"]["closes"])


@pytest.mark.torch
@pytest.mark.parametrize("force", ["dense", "recompile-limit"])
def test_a_forced_state_is_slow_on_purpose_and_never_a_race(force, tmp_path):
    """The degraded number must come without luck; unfused calls of several threads would run into races."""
    result = run("none", tmp_path, dataclasses.replace(TINY, num_drafters=3), force=force)

    assert all(thread["completed"] for thread in result["threads"])
    assert result["process"]["dense_calls"] > 0
    assert bool(result["process"]["recompile_limit_hits"]) is (force == "recompile-limit")


@pytest.mark.torch
def test_premade_masks_leave_no_mask_to_the_threads(tmp_path, monkeypatch):
    """The argument is that no drafter thread builds a mask; one built in a thread would break it."""
    built_in = []
    original = torch.nn.attention.flex_attention.create_block_mask
    monkeypatch.setattr(
        "dflash.attention.create_block_mask",
        lambda *args, **kwargs: built_in.append(threading.current_thread().name) or original(*args, **kwargs),
    )

    run("premade-masks", tmp_path)

    assert {threading.current_thread().name} == set(built_in)


@pytest.mark.torch
def test_no_compile_compiles_nothing_and_counts_its_dense_calls(tmp_path):
    """A dense run that looks like a healthy one would be taken for a fast build."""
    process = run("no-compile", tmp_path)["process"]

    assert process["compiles"] == 0
    assert process["dense_calls"] > 0


@pytest.mark.torch
@pytest.mark.parametrize("name", ["thread-local-flag", "patch-check"])
def test_a_patch_of_torch_can_be_undone(name):
    """A patch left behind would change the next measurement in the process."""
    kind = make(name)
    if refusal := kind.refusal(TINY):
        pytest.skip(refusal)
    predicate, trace = getattr(symbolic_trace, compat.predicate_name()), symbolic_trace.Tracer.trace

    kind.prepare()
    changed = getattr(symbolic_trace, compat.predicate_name())
    kind.restore()

    assert changed is not predicate
    assert predicate is getattr(symbolic_trace, compat.predicate_name())
    assert trace is symbolic_trace.Tracer.trace


@pytest.mark.torch
def test_the_thread_local_flag_still_protects_its_own_thread():
    """The check exists because a compiled call inside an FX trace is an error: that must still be found."""
    kind = make("thread-local-flag")
    if refusal := kind.refusal(TINY):
        pytest.skip(refusal)
    kind.prepare()
    try:
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        compiled(torch.ones(2))
        with pytest.raises(RuntimeError, match="symbolically trace"):
            torch.fx.symbolic_trace(lambda x: compiled(x))  # noqa: PLW0108 - a function of Python is traced
    finally:
        kind.restore()


def test_every_workaround_states_its_case():
    """The table is read by people who must choose: what it does, why it is safe, where it applies."""
    for name in CURES:
        kind = make(name)
        assert kind.summary
        assert kind.safe_argument
        assert kind.builds


@pytest.mark.parametrize("text", ["lokc", "lock=3", "recompile-limit", "recompile-limit=0", "recompile-limit=x"])
def test_a_misspelled_workaround_is_refused(text):
    """A typo that silently meant `none` would convict a good cure."""
    with pytest.raises(ConfigError):
        check(text)


def test_the_recompile_limit_reaches_the_configuration():
    """The number after the equals sign is what the run must use."""
    assert make("recompile-limit=7").configure(SMOKE).recompile_limit == 7


def test_native_kernels_are_switched_off_before_torch_is_imported():
    """torch reads the variable once, when it is imported."""
    assert environment_of("no-native-jit") == {"TORCH_DISABLE_NATIVE_JIT": "1"}
    assert environment_of("lock") == {}


def test_no_compile_is_refused_where_its_scores_cannot_fit():
    """The incident's dense fallback needed hundreds of gigabytes; it must be predicted, not tried."""
    incident = dataclasses.replace(
        SMOKE, num_heads=32, num_kv_heads=8, num_anchors=512, block_size=16, max_context=30_720, num_drafters=30
    )

    assert "GiB" in NoCompile().refusal(incident)
    assert not NoCompile().refusal(SMOKE)


def test_dense_memory_counts_every_drafter_of_a_device():
    """Three drafters on one device need three times the memory of one."""
    one = dataclasses.replace(SMOKE, num_drafters=1)
    three = dataclasses.replace(SMOKE, num_drafters=3)

    assert 3 * dense_score_bytes(one, one.max_context) == dense_bytes(one, "cpu")
    assert 3 * dense_bytes(one, "cpu") == dense_bytes(three, "cpu")


def events_of(lock: SharedLock, first: str, second: str) -> list[str]:
    """Enter as `first`, start a thread that enters as `second`, leave; the order of what happened."""
    events: list[str] = []

    def other() -> None:
        with getattr(lock, second)():
            events.append("second in")

    with getattr(lock, first)():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        events.append("first out")
    thread.join(5)
    return events


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [("shared", "shared", True), ("shared", "alone", False), ("alone", "shared", False), ("alone", "alone", False)],
)
def test_a_compiling_step_is_alone_and_warm_steps_are_together(first, second, together):
    """The argument of `lock-compile` is this exclusion and nothing else."""
    expected = ["second in", "first out"] if together else ["first out", "second in"]

    assert expected == events_of(SharedLock(), first, second)


class CountingRun:
    """A run that compiles when told to."""

    config = SMOKE

    def __init__(self) -> None:
        self.compiles = self.dense = 0

    def num_compiles(self) -> int:
        return self.compiles

    def num_dense_calls(self) -> int:
        return self.dense


def test_a_compilation_in_a_known_shape_withdraws_the_argument_of_lock_compile():
    """If shapes do not predict compilations the exclusion has a hole, and the result must not call it safe."""
    cure, benchmark = LockCompile(), CountingRun()
    cure.rehearse(benchmark)
    with cure.step("shape"):
        benchmark.compiles += 1
    assert cure.closes == CRASH_HAZARDS

    with cure.step("shape"):
        benchmark.compiles += 1

    assert cure.closes == ()
    assert "does not hold" in cure.applied[-1]
