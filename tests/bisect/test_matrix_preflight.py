"""Preflight: what cannot work here is marked before anything is downloaded, with what would unblock it."""

from __future__ import annotations

from bisect.matrix import Blocked, State, preflight
from bisect.matrix import plan as matrix_plan
from bisect.matrix.key import CellKey

import pytest

from envs.backend import Gpu, Machine
from envs.errors import CannotBuildError, CannotRunError, UsageError
from envs.room import Estimate
from envs.spec import Definition

H200 = Gpu(name="NVIDIA H200", capability=(9, 0))
V100 = Gpu(name="Tesla V100", capability=(7, 0))


def machine(driver="", gpus=(), glibc="2.36"):
    return Machine(architecture="x86_64", glibc=glibc, driver=driver, gpus=gpus)


def definition(torch, cuda):
    return Definition(name="d", summary="s", torch=torch, cuda=cuda)


def test_an_old_driver_blocks_cuda_13_and_not_cuda_12():
    """cu130 would be downloaded, run without a GPU after a warning, and pass (F01, F02)."""
    here = machine(driver="570.133.20", gpus=(H200,))

    blocked = preflight.cannot_run(definition("2.11.0", "cu130"), here)

    assert preflight.cannot_run(definition("2.10.0", "cu128"), here) is None
    assert blocked.state is State.DRIVER_TOO_OLD
    assert "580" in blocked.reason
    assert "570.133.20" in blocked.reason
    assert "compat" in blocked.unblock


def test_without_a_gpu_every_variant_runs():
    """The CPU part of a CUDA wheel needs no driver; a laptop would be useless."""
    assert preflight.cannot_run(definition("2.15.0", "cu132"), machine()) is None


def test_a_gpu_that_the_wheel_has_no_code_for_blocks():
    """`no kernel image` at the first step, after 5 GB."""
    blocked = preflight.cannot_run(definition("2.11.0", "cu130"), machine(driver="580.95.05", gpus=(V100,)))

    assert blocked.state is State.ARCH_UNSUPPORTED
    assert "V100" in blocked.reason


def test_a_combination_that_was_never_built_is_not_published():
    """torch 2.12 has no cu128: an endless wait for a wheel that will never be there."""
    blocked = preflight.cannot_run(definition("2.12.1", "cu128"), machine())

    assert blocked.state is State.NOT_PUBLISHED
    assert "cu130" in blocked.unblock


def test_an_old_c_library_blocks():
    """manylinux_2_28 wheels do not install there."""
    assert preflight.cannot_run(definition("2.11.0", "cu130"), machine(glibc="2.17")).state is State.CANNOT_BUILD


@pytest.mark.parametrize(("profile", "num", "blocked"), [("gpu1", 0, True), ("gpu1", 1, False), ("node8", 1, True)])
def test_a_profile_for_more_gpus_than_there_are_needs_them(profile, num, blocked):
    """The profile would shrink silently, and another benchmark would be compared."""
    found = preflight.needs_gpu(profile, machine(gpus=(H200,) * num))

    assert (found is not None) is blocked
    if blocked:
        assert found.state is State.NEEDS_GPU
        assert "smoke" in found.unblock
    assert preflight.needs_gpu("smoke", machine()) is None


def test_an_environment_that_does_not_fit_on_the_disk_blocks():
    """A full disk fails in the middle, for everybody."""
    needs = Estimate(download_bytes=3 * 10**9, disk_bytes=7 * 10**9, cache_bytes=10**9)

    blocked = preflight.does_not_fit(needs, free_bytes=5 * 10**9)

    assert blocked.state is State.CANNOT_BUILD
    assert "8.0 GB" in blocked.reason
    assert preflight.does_not_fit(needs, free_bytes=9 * 10**9) is None


def test_an_error_of_building_becomes_its_state():
    """Every failed build would be `cannot build`, also the one that was never published."""
    gone = CannotBuildError("no wheel", hint="take another", outcome="not_published")
    full = CannotRunError("full", outcome="disk_full")

    assert matrix_plan.from_error(gone).state is State.NOT_PUBLISHED
    assert matrix_plan.from_error(gone).unblock == "take another"
    assert matrix_plan.from_error(full).state is State.CANNOT_BUILD


def test_builds_may_be_given_as_versions():
    """A person asks about a release, not about a file in this repository."""

    def of(version):
        return matrix_plan.definition_of(CellKey(build=version), version)

    found = of("2.14.1+cu130")

    assert (found.torch, found.cuda) == ("2.14.1", "cu130")
    assert of("2.15.0").cuda == "cu130"
    never = of("2.12.1+cu128")
    assert isinstance(never, Blocked)
    assert never.state is State.NOT_PUBLISHED


@pytest.mark.parametrize(("origin", "history"), [("cu131", "clean"), ("cu130", "sglang-residu")])
def test_an_unknown_build_or_history_is_an_error(origin, history):
    """A mistyped name would show up as a cell that cannot be built."""
    with pytest.raises(UsageError) as caught:
        matrix_plan.definition_of(CellKey(build=origin, history=history), origin)

    assert "did you mean" in caught.value.hint


@pytest.mark.parametrize("origin", ["cu128", "2.14.1+cu130"])
def test_a_history_goes_on_top_of_any_build(origin):
    """Contamination would be an axis of the shipped builds only."""
    found = matrix_plan.definition_of(CellKey(build=origin, history="sglang-residue"), origin)

    assert found.name.endswith("+sglang-residue")
    assert found.history


def test_the_machine_is_part_of_every_key():
    """Results of an H200 node would answer for an H100 node."""
    axes = matrix_plan.Axes(builds=("cu130",), profile="gpu1", arguments=("--steps", "20"))

    common = matrix_plan.template(axes, machine(driver="580.1", gpus=(H200, H200)), benchmark="b", node="n7", cpus=2)

    assert common.gpu == "2x NVIDIA H200"
    assert common.driver == "580.1"
    assert common.node == "n7"
    assert common.profile == "gpu1 --steps 20"
    assert "x86_64" in common.platform
