"""Says what an environment is, as JSON into the file named by the first argument.

Runs under the environment's own interpreter, on any supported torch or none at all: a torch that cannot be
imported is an answer (`torch_error`), not a failure of this script.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import re
import site
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LIBRARIES = re.compile(
    r"(libcudnn|libnccl|libcublas|libcudart|libcusparse|libcusolver|libcufft|libnvrtc|libnvshmem|libtorch)"
    r"[^/]*\.so[^/]*\Z"
)
_ENTRY_POINT_GROUPS = ("torch.backends", "torch_dynamo_backends", "torchrun.logs_specs")


def main(output: str) -> None:
    """Write the answers; every question that torch cannot answer stays empty."""
    answers: dict[str, object] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "glibc": platform.libc_ver()[1],
        "user_site": bool(site.ENABLE_USER_SITE),
        "distributions": _distributions(),
        "entry_points": _entry_points(),
    }
    answers.update(_torch())
    answers["sys_path"] = [path for path in sys.path if path]
    answers["libraries"] = _libraries()
    Path(output).write_text(json.dumps(answers, indent=1, sort_keys=True), encoding="utf-8")


def _torch() -> dict[str, object]:
    """Import torch as a run would and ask it; the error with its last lines when it cannot be imported."""
    started = time.monotonic()
    try:
        torch = importlib.import_module("torch")
    except BaseException as error:  # noqa: BLE001  (a broken torch raises anything, SystemExit included)
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        return {"torch_error": f"{type(error).__name__}: {error}", "torch_traceback": "".join(lines)[-4000:]}
    version = getattr(torch, "version", None)
    return {
        "import_seconds": round(time.monotonic() - started, 3),
        "torch": str(getattr(torch, "__version__", "")),
        "torch_file": str(getattr(torch, "__file__", "") or ""),
        "cuda": str(getattr(version, "cuda", None) or ""),
        "git_version": str(getattr(version, "git_version", None) or ""),
        "triton": _version("triton"),
        "cudnn": _answer(lambda: torch.backends.cudnn.version()),  # noqa: PLW0108  (torch.backends may be missing)
        "nccl": _answer(lambda: ".".join(str(part) for part in torch.cuda.nccl.version())),
        "architectures": _answer(lambda: torch._C._cuda_getArchFlags()),  # noqa: SLF001, PLW0108
        "gpus": _gpus(torch),
        "overrides": _overrides(),
    }


def _answer(question: Callable[[], Any]) -> str:
    """Answer of torch as text; empty when this build does not know the question."""
    try:
        answer = question()
    except Exception:  # noqa: BLE001  (stubs, CPU builds and old releases raise different things)
        return ""
    return "" if answer is None else str(answer)


def _gpus(torch: Any) -> list[dict[str, str]]:  # noqa: ANN401  (whatever `import torch` gave)
    try:
        found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        return [{"name": gpu.name, "capability": f"{gpu.major}.{gpu.minor}"} for gpu in found]
    except Exception:  # noqa: BLE001
        return []


def _overrides() -> list[str]:
    """Kernels that importing torch replaced, as `operator/dispatch key by DSL` (torch 2.12 and newer)."""
    try:
        registry = importlib.import_module("torch._native.registry")
        graphs = registry._graphs  # noqa: SLF001  (there is no public list of what was registered)
        return sorted(
            f"{operator}/{key} by {node.dsl_name}"
            for (operator, key), nodes in graphs.items()
            for node in nodes
            if node.active
        )
    except Exception:  # noqa: BLE001
        return []


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _distributions() -> list[str]:
    found = {f"{item.metadata['Name']}=={item.version}" for item in importlib.metadata.distributions()}
    return sorted(found, key=str.lower)


def _entry_points() -> list[str]:
    """Hooks that torch loads by itself from any installed package."""
    return sorted(
        f"{group}: {point.name} = {point.value}"
        for group in _ENTRY_POINT_GROUPS
        for point in importlib.metadata.entry_points(group=group)
    )


def _libraries() -> list[str]:
    """CUDA libraries really loaded, from the process map."""
    with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if _LIBRARIES.search(path))


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    # Leave without interpreter shutdown: unloading a broken CUDA library may crash after the answers are safe.
    os._exit(0)
