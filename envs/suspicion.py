"""By which mechanism a package changes torch without being imported by the training code, and how likely it does.

Pure: a table of packages, each with what was read in its wheel or measured. Knows nothing of the two environments
that are compared (`diff`) or searched (`bisect.packages_differences`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mechanism:
    """Packages by name, how much they weigh, and how they reach torch."""

    pattern: re.Pattern[str]
    weight: int
    why: str


def _mechanism(pattern: str, weight: int, why: str) -> _Mechanism:
    return _Mechanism(pattern=re.compile(pattern + r"\Z"), weight=weight, why=why)


# Versions of nvidia-cutlass-dsl for which `import torch` replaces CUDA kernels (torch/_native, read in the wheels).
OVERRIDING: Mapping[str, frozenset[str]] = {
    "2.13": frozenset({"4.4.1", "4.4.2", "4.5.2"}),
    "2.14": frozenset({"4.4.1", "4.4.2", "4.5.2"}),
    "2.15": frozenset({"4.6.2", "4.7.1", "4.8.0"}),
}
_MECHANISMS = (
    _mechanism("torch", 100, "another torch is the first explanation of anything torch does"),
    _mechanism("triton|pytorch-triton|tokenspeed-triton", 90, "compiles every kernel of torch.compile"),
    _mechanism(r"nvidia-cutlass-dsl(-libs-.*)?", 85, "its .pth runs at every start; torch 2.13+ uses it if importable"),
    _mechanism("apache-tvm-ffi", 80, "with nvidia-cutlass-dsl lets torch 2.13+ replace kernels; patches torch.Tensor"),
    _mechanism(r"nvidia-(cudnn|nccl|cusparselt|nvshmem)(-cu\d+)?", 85, "the cu12 and cu13 wheels own the same paths"),
    _mechanism(r"nvidia-.*|cuda-(toolkit|bindings|python|pathfinder)", 75, "a CUDA library that torch loads"),
    _mechanism("torch-c-dlpack-ext", 70, "prebuilt per torch minor; drops build_backend.py at the top level"),
    _mechanism(r"torch-memory-saver", 70, "hooks CUDA's allocator, through LD_PRELOAD in one mode"),
    _mechanism(r"flash-attn(-\d)?|flash-attn-4", 70, "inductor uses flash_attn.cute for flex attention if it finds it"),
    _mechanism(r"sgl-kernel|sglang-kernel|xformers|torchao", 65, "compiled against one torch: its ABI must match"),
    _mechanism(r"flashinfer-(python|cubin|jit-cache)", 60, "its parts must agree in version, or its import raises"),
    _mechanism(r"torch(vision|audio|text|codec|data)", 60, "built for one torch; registers operators when imported"),
    _mechanism(r"quack-kernels|tilelang|cuda-tile", 55, "another kernel compiler with its own caches and LLVM"),
    _mechanism("transformers|accelerate|peft", 40, "may trace or patch models when it is imported"),
    _mechanism("sglang|vllm", 40, "sets Dynamo and Inductor configuration when it runs"),
    _mechanism("setuptools|numpy|sympy|filelock|typing-extensions", 30, "torch imports it"),
    _mechanism("cupy.*|jax.*|tensorflow.*|onnxruntime.*", 30, "loads its own CUDA libraries into the process"),
)
REACHES_TORCH = 55
PLAIN_WEIGHT = 5
_PLAIN = _mechanism(".*", PLAIN_WEIGHT, "no known way to change torch unless the training code imports it")


def suspicion(package: str, *, version: str = "", torch: str = "", importable: Iterable[str] = ()) -> tuple[int, str]:
    """How likely a package changes torch (0 to 100), and how.

    Args:
        package: canonical name.
        version: the version present, for the mechanisms that look at it.
        torch: the torch it meets.
        importable: the other packages present.
    """
    found = next((each for each in _MECHANISMS if each.pattern.match(package)), _PLAIN)
    if package == "nvidia-cutlass-dsl" and version and torch:
        return _overriding(found, version, torch, frozenset(importable))
    return found.weight, found.why


def _overriding(found: _Mechanism, version: str, torch: str, importable: frozenset[str]) -> tuple[int, str]:
    series = ".".join(torch.split(".")[:2])
    known = OVERRIDING.get(series, frozenset())
    if version in known and "apache-tvm-ffi" in importable:
        return 95, f"torch {series} replaces CUDA kernels at import when it finds this version with apache-tvm-ffi"
    reason = f"torch {series} knows {', '.join(sorted(known))}" if known else f"torch {series} does not look for it"
    return found.weight, f"its .pth runs at every start; {reason}, so {version} replaces no kernels"
