"""Differences between two sides: what may move alone, what belongs together, what a list shows by itself."""

from bisect.packages.differences import Facts, ItemKind, families, items, needs, warnings
from bisect.packages.files import unlisted
from bisect.packages.freeze import parse

from envs.findings import Finding, Kind
from envs.index import Target

HERE = Target(python="3.11", architecture="x86_64", glibc="2.36")


def facts(text, **more):
    return Facts(packages={pin.name: pin.version for pin in parse(text, target=HERE).pins}, **more)


CLEAN = facts("torch==2.10.0+cu130\ntriton==3.6.0\nnumpy==2.3.5")


def test_the_likeliest_to_reach_torch_come_first():
    """Torch-dependent packages are tried before the hundred others that came along."""
    bad = facts("torch==2.11.0+cu130\ntriton==3.7.1\nnumpy==2.3.5\naiohttp==3.14\nnvidia-nccl-cu13==2.29\nidna==3.1")

    names = [item.id for item in items(CLEAN, bad)]

    assert names[0] == "torch"
    assert set(names[1:3]) == {"triton", "nvidia-nccl-cu13"}
    assert set(names[3:]) == {"aiohttp", "idna"}


def test_a_replaced_torch_is_told_before_any_package_is_blamed():
    """D02: the serving stack put another torch in; the difference is another torch, not the package."""
    bad = facts("torch==2.9.1\ntriton==3.5.1\nnumpy==2.3.5\nsglang==0.5.9")

    assert any("torch was replaced: 2.10.0+cu130 -> 2.9.1 (another release)" in line for line in warnings(CLEAN, bad))


def test_the_same_release_as_another_build_is_a_replaced_torch():
    """D04: a later step swapped the +cu130 build for the one with the same number."""
    bad = facts("torch==2.10.0\ntriton==3.6.0\nnumpy==2.3.5")

    (line,) = warnings(CLEAN, bad)

    assert "the same release as another build" in line


def test_parts_of_flashinfer_that_drifted_apart_are_named():
    """D05: importing it raises, and with the check switched off the crash is not torch's."""
    text = "torch==2.10.0+cu130\nflashinfer-python==0.6.10\nflashinfer-cubin==0.6.8.post1"

    (line,) = warnings(CLEAN, facts(text))
    both = warnings(CLEAN, facts(text, variables={"FLASHINFER_DISABLE_VERSION_CHECK": "1"}))

    assert "flashinfer-cubin 0.6.8.post1 does not match flashinfer-python 0.6.10" in line
    assert "switched off" in both[1]


def test_two_cuda_majors_of_one_library_are_named():
    """D11 and D12: they share directories, and the wrong one is loaded in silence or makes it slow."""
    bad = facts("torch==2.10.0+cu130\nnvidia-nccl-cu11==2.14.3\nnvidia-nccl-cu12==2.27.3\nnvidia-cudnn-cu12==9.10")

    (line,) = warnings(CLEAN, bad)

    assert "nvidia-nccl-cu11 and nvidia-nccl-cu12" in line


def test_equal_packages_and_another_variable_is_one_difference():
    """D22: `no difference` would send a person away from the cause."""
    (item,) = items(CLEAN, Facts(packages=CLEAN.packages, variables={"CUBLAS_VERSION": "12.9"}))

    assert (item.id, item.kind, str(item)) == (
        "variable:CUBLAS_VERSION",
        ItemKind.VARIABLE,
        "variable:CUBLAS_VERSION (absent) -> 12.9",
    )


def test_what_half_a_change_would_break_is_one_family():
    """torch with the other one's triton does not import: such mixes would be built for nothing."""
    good = facts("torch==2.14.1\ntriton==3.8.0\nnumpy==2.3.5", requires={"torch": ("triton~=3.8.0", "numpy")})
    bad = facts("torch==2.15.0\ntriton==3.9.0\nnumpy==2.4.0", requires={"torch": ("triton==3.9.0", "numpy")})

    assert families(items(good, bad), good, bad) == (frozenset({"torch", "triton"}),)


def test_an_import_needs_its_package_and_a_residue_needs_everything():
    """Importing what is not installed fails for another reason than the one that is hunted."""
    bad = facts(
        "torch==2.10.0+cu130\ntriton==3.6.0\nnumpy==2.3.5\nsglang==0.5.9\nidna==3.1",
        imports=("sglang",),
        history=("install sglang==0.5.9 with uv",),
    )

    found = items(CLEAN, bad)

    assert set(needs(found)) == {
        ("import:sglang", "sglang"),
        ("residue:all", "sglang"),
        ("residue:all", "idna"),
    }


def test_what_no_list_of_packages_brings_back_is_named_and_bytecode_is_not():
    """A package copied into site-packages, a patched file or another Python would be called no difference."""
    site = "lib/python3.10/site-packages"
    found = [
        Finding(kind=Kind.UNOWNED, path=f"{site}/loose/__init__.py"),
        Finding(kind=Kind.UNOWNED, path=f"{site}/loose/more.so"),
        Finding(kind=Kind.UNOWNED, path=f"{site}/loose/data.json"),
        Finding(kind=Kind.UNOWNED, path=f"{site}/__pycache__/gone.cpython-310.pyc"),
        Finding(kind=Kind.UNOWNED, path=f"{site}/left.pth"),
        Finding(kind=Kind.CHANGED, path=f"{site}/torch/__init__.py"),
        Finding(kind=Kind.CHANGED, path=f"{site}/torch-2.11.0.dist-info/direct_url.json"),
        Finding(kind=Kind.PTH, path=f"{site}/left.pth", fault=False),
    ]

    told = unlisted(found, python="3.10.4", rebuilt_with="3.11")

    assert told == ("Python 3.10.4, not 3.11", "edited torch/__init__.py", "of no package loose/")
    assert not unlisted(found[2:5], python="3.11.7", rebuilt_with="3.11")
