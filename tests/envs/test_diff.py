"""Two environments compared: what a freeze does not show is found, and what matters most comes first."""

from envs import diff, snapshot
from envs.diff import Kind, Snapshot

CLEAN = Snapshot(
    name="clean",
    torch={"version": "2.14.1+cu130", "cuda": "13.0", "git_version": "a" * 40},
    packages={"torch": "2.14.1", "numpy": "2.3.5", "requests": "2.32.0"},
    records={"torch": "t1", "numpy": "n1"},
    libraries={"libcudnn.so.9": "/store/clean/venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9"},
    startup={"lib/python3.11/site-packages/distutils-precedence.pth": "import os"},
)


def changed(**fields):
    values = {name: getattr(CLEAN, name) for name in Snapshot.__dataclass_fields__}
    return Snapshot(**{**values, "name": "dirty", **fields})


def one(after):
    (found,) = diff.compare(CLEAN, after)
    return found


def test_an_environment_does_not_differ_from_itself_elsewhere():
    """Another directory of the same environment would be listed as another library."""
    moved = {"libcudnn.so.9": CLEAN.libraries["libcudnn.so.9"].replace("/store/clean", "/elsewhere")}

    assert diff.compare(CLEAN, changed(libraries=moved)) == ()


def test_a_torch_with_the_same_number_and_another_cuda_is_another_torch():
    """D04: a later install swapped +cu130 for another build of the same release; the version does not show it."""
    found = one(changed(torch={**CLEAN.torch, "cuda": "12.8"}))

    assert (found.kind, found.name, found.weight) == (Kind.TORCH, "cuda", 100)


def test_leftovers_that_replace_kernels_come_with_their_mechanism():
    """nvidia-cutlass-dsl looks like any of 160 leftovers, and it is the one that changes torch."""
    packages = {**CLEAN.packages, "nvidia-cutlass-dsl": "4.5.2", "apache-tvm-ffi": "0.1.9", "aiohttp": "3.14"}

    names = [found.name for found in diff.compare(CLEAN, changed(packages=packages))]
    weights = {found.name: found for found in diff.compare(CLEAN, changed(packages=packages))}

    assert names == ["nvidia-cutlass-dsl", "apache-tvm-ffi", "aiohttp"]
    assert "replaces CUDA kernels at import" in weights["nvidia-cutlass-dsl"].why
    assert "no known way" in weights["aiohttp"].why


def test_overrides_libraries_files_and_startup_files_are_seen():
    """All of them are invisible in a freeze."""
    site = "lib/python3.11/site-packages"
    dirty = changed(
        overrides=("aten::_fused_rms_norm/CUDA by cutlass",),
        libraries={"libcudnn.so.9": "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"},
        files={("missing", f"{site}/nvidia/nccl/lib/libnccl.so.2"): "nvidia-nccl-cu13==2.28.9"},
        startup={**CLEAN.startup, f"{site}/evil.pth": "import sys; sys.setswitchinterval(1)"},
        entry_points=("torch.backends: x = y",),
    )

    found = {each.kind: each for each in diff.compare(CLEAN, dirty)}

    assert set(found) == {Kind.OVERRIDE, Kind.LIBRARY, Kind.FILE, Kind.STARTUP, Kind.ENTRY_POINT}
    assert found[Kind.LIBRARY].after == "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"
    assert "listed as installed, and the file is gone" in found[Kind.FILE].why
    assert found[Kind.STARTUP].name.endswith("evil.pth")
    assert diff.only_outside_packages(found.values())


def test_equal_packages_and_another_variable_is_not_no_difference():
    """D22: two containers with equal freezes and another CUBLAS_VERSION."""
    found = one(changed(variables={"CUBLAS_VERSION": "12.9"}))

    assert (found.kind, found.before, found.after) == (Kind.VARIABLE, "", "12.9")
    assert diff.only_outside_packages([found])


def test_the_same_version_with_other_files_is_seen():
    """A wheel uploaded again, or taken from another index, has the same version and other bytes."""
    found = one(changed(records={**CLEAN.records, "torch": "t2"}))

    assert (found.kind, found.name) == (Kind.BYTES, "torch")


def test_secrets_are_not_part_of_a_snapshot():
    """Variables end up in reports."""
    read = snapshot.compile_variables({"TORCH_HOME": "/t", "TORCH_API_TOKEN": "x", "AWS_KEY": "y", "LD_PRELOAD": "a"})

    assert read == {"TORCH_HOME": "/t", "LD_PRELOAD": "a"}


def test_variables_of_threads_allocators_and_serving_stacks_are_read():
    """The number of OpenMP threads decides a race, and nobody would see that it differs."""
    given = {"OMP_NUM_THREADS", "KMP_AFFINITY", "PYTHONMALLOC", "PYTHONHASHSEED", "MALLOC_ARENA_MAX", "FLASHINFER_X"}
    given |= {"SGLANG_X", "HF_HUB_OFFLINE", "TOKENIZERS_PARALLELISM", "MKL_DYNAMIC", "OPENBLAS_NUM_THREADS"}
    other = {"HF_TOKEN", "PYTHONHOME", "EDITOR", "MY_OMP_THING"}

    assert snapshot.compile_variables(dict.fromkeys(given | other, "1")).keys() == given


def test_caches_that_outlive_an_uninstall_have_owners(tmp_path):
    """`pip uninstall` leaves compiled kernels of another torch build that the next run loads."""
    (tmp_path / ".cache" / "tvm-ffi").mkdir(parents=True)

    assert snapshot.caches_below(tmp_path) == {".cache/tvm-ffi": snapshot.CACHES[".cache/tvm-ffi"]}


def test_the_summary_answers_what_a_history_did_also_when_it_did_nothing():
    """A line that is missing would read as `none`, or as `not looked at`."""
    packages = {**CLEAN.packages, "nvidia-cutlass-dsl": "4.5.2", "aiohttp": "3.14"}
    files = {("doubly_owned", "lib/nvidia/cudnn/lib/libcudnn.so.9"): "nvidia-cudnn-cu12==9.10, nvidia-cudnn-cu13==9.19"}

    nothing = diff.summary(())
    told = diff.summary(diff.compare(CLEAN, changed(packages=packages, files=files, overrides=("topk/CUDA by x",))))

    assert [line.rpartition(": ")[2] for line in nothing] == ["unchanged", "none", "none", "none", "none"]
    assert told[0] == "torch itself: unchanged"
    assert told[1] == "kernels replaced by importing torch: topk/CUDA by x"
    assert "libcudnn.so.9 (doubly_owned (nvidia-cudnn-cu12==9.10" in told[2]
    assert told[3] == "packages that can reach torch: nvidia-cutlass-dsl (4.5.2)"
