"""What cannot work on a machine is known before a byte is downloaded."""

import pytest

from envs import backend

H100 = backend.Gpu(name="NVIDIA H100", capability=(9, 0))
V100 = backend.Gpu(name="Tesla V100", capability=(7, 0))
A10 = backend.Gpu(name="NVIDIA A10", capability=(8, 6))
L4 = backend.Gpu(name="NVIDIA L4", capability=(8, 9))
FUTURE = backend.Gpu(name="NVIDIA Next", capability=(15, 0))


def machine(driver="", *gpus, architecture="x86_64", glibc="2.36"):
    return backend.Machine(architecture=architecture, glibc=glibc, driver=driver, gpus=gpus)


def outcomes(tag, version, on):
    return [refusal.outcome for refusal in backend.preflight(tag, version, on)]


def test_driver_too_old_for_cuda_13():
    """F02: driver 570.133 runs cu128 and cannot run cu130; a build must not start with a 3 GB download."""
    on = machine("570.133", H100)

    assert outcomes("cu128", "2.10.0", on) == []
    (refusal,) = backend.preflight("cu130", "2.11.0", on)
    assert refusal.outcome == "driver_too_old"
    assert "580" in refusal.message
    assert "570.133" in refusal.message
    assert "cu129" in refusal.hint


@pytest.mark.parametrize(
    ("tag", "driver", "expected"),
    [
        ("cu130", "580.65.06", []),
        ("cu132", "580.65.05", ["driver_too_old"]),
        ("cu126", "525.60.13", []),
        ("cu126", "525.60.12", ["driver_too_old"]),
        ("cu118", "450.80.02", []),
        ("cu130", "1000.1", []),
    ],
)
def test_driver_minimum_is_compared_as_numbers(tag, driver, expected):
    """Compared as text, 1000 would be older than 580."""
    assert outcomes(tag, "2.14.0", machine(driver)) == expected


def test_machine_without_gpu_runs_every_variant():
    """On a CPU machine the variant does not matter, and nothing may be refused."""
    assert outcomes("cu132", "2.15.0", machine()) == []


def test_architectures_follow_the_release():
    """Volta left the CUDA 12.8 wheels in 2.11, and no CUDA 13 wheel ever had it."""
    volta = machine("590.1", V100)

    assert outcomes("cu128", "2.10.0", volta) == []
    assert outcomes("cu128", "2.11.0", volta) == ["arch_unsupported"]
    assert outcomes("cu130", "2.11.0", volta) == ["arch_unsupported"]
    assert outcomes("cu126", "2.14.0", volta) == []


@pytest.mark.parametrize("gpu", [H100, A10, L4, FUTURE])
def test_newer_gpus_run_by_minor_compatibility_or_ptx(gpu):
    """8.9 runs code for 8.6, and what is newer than everything runs the PTX."""
    assert outcomes("cu130", "2.14.1", machine("590.1", gpu)) == []


def test_old_glibc():
    """The wheels are manylinux_2_28: RHEL 7 cannot load them."""
    (refusal,) = backend.preflight("cu130", "2.11.0", machine(glibc="2.17"))

    assert "2.17" in refusal.message


def test_compiler_missing_says_where_it_looked():
    """Without a compiler torch.compile fails in the middle of a run with a long traceback."""
    refusal = backend.compiler_missing({"CXX": "icpx"}, {}.get)

    assert refusal is not None
    assert "C++ compiler" in refusal.message
    assert "g++" in refusal.hint


def test_compiler_from_cxx_wins():
    """A cluster module sets CXX; it is what torch would use."""
    assert backend.compiler({"CXX": "icpx"}, {"icpx": "/opt/icpx", "g++": "/usr/bin/g++"}.get) == "/opt/icpx"
    assert backend.compiler({}, {"clang++": "/usr/bin/clang++"}.get) == "/usr/bin/clang++"


def test_near_tags():
    """B25: near means near by number."""
    assert backend.near_tags("cu131") == ("cu130", "cu132")
    assert backend.near_tags("cu127") == ("cu126", "cu128")
    assert backend.near_tags("gpu") == ("cu130", "cu132", "cu134")


def test_index_path():
    """The two channels of one variant are two indexes."""
    assert backend.index_path("cu130", nightly=False) == "cu130"
    assert backend.index_path("cu130", nightly=True) == "nightly/cu130"
