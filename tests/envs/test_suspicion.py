"""How likely a package changes torch: the same leftover is harmless beside one torch and not beside the next."""

import pytest

from envs.suspicion import suspicion


@pytest.mark.parametrize(
    ("torch", "version", "others", "replaces"),
    [
        ("2.14.1", "4.5.2", ["apache-tvm-ffi"], True),
        ("2.14.1", "4.5.2", [], False),
        ("2.14.1", "4.8.0", ["apache-tvm-ffi"], False),
        ("2.15.0", "4.8.0", ["apache-tvm-ffi"], True),
        ("2.12.1", "4.4.2", ["apache-tvm-ffi"], False),
        ("2.10.0", "4.3.5", ["apache-tvm-ffi"], False),
    ],
)
def test_the_whitelist_of_torch_decides_whether_a_leftover_replaces_kernels(torch, version, others, replaces):
    """The same leftover is harmless beside one torch and not beside the next."""
    weight, why = suspicion("nvidia-cutlass-dsl", version=version, torch=torch, importable=others)

    assert ("at import" in why) is replaces
    assert (weight > 90) is replaces
