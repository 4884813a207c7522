"""What this process really runs on: torch, its libraries, the interpreter, the GPUs. Asks, believes nothing."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from . import compat
from .sizes import Machine

VARIABLES = re.compile(
    r"^(OMP_|MKL_|TORCH|PYTORCH|TRITON_|INDUCTOR|CUDA|NCCL_|LD_LIBRARY_PATH$|LD_PRELOAD$|PYTHON(PATH|SAFEPATH|HOME)$)"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL", re.IGNORECASE)
LIBRARIES = re.compile(r"lib(torch|c10|cudnn|nccl|cublas|cuda|cudart|nvrtc|nvJitLink|cusparse|nvshmem|triton)\w*\.so")


def look() -> Machine:
    """What a profile is checked against."""
    return Machine(gpu_memory=tuple(gpu["memory_bytes"] for gpu in gpus()), num_cpus=os.cpu_count() or 1)


def gpus() -> list[dict[str, Any]]:
    """Every visible GPU."""
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            {
                "index": index,
                "name": properties.name,
                "capability": f"{properties.major}.{properties.minor}",
                "memory_bytes": properties.total_memory,
            }
        )
    return found


def describe(imported: list[str]) -> dict[str, Any]:
    """The environment as the result file spells it."""
    return {
        "torch": torch.__version__,
        "git_version": torch.version.git_version,
        "cuda": torch.version.cuda or "",
        "triton": _version("triton"),
        "cudnn": torch.backends.cudnn.version() or 0,
        "nccl": _nccl(),
        "driver": _driver(),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "glibc": platform.libc_ver()[1],
        "gpus": gpus(),
        "num_cpus": os.cpu_count() or 1,
        "torch_file": torch.__file__,
        "prefix": sys.prefix,
        "sys_path_outside": _outside(),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if VARIABLES.match(name) and not SECRET.search(name)
        },
        "loaded_libraries": loaded_libraries(),
        "native_overrides": compat.native_overrides(),
        "imported": imported,
    }


def loaded_libraries() -> list[str]:
    """Paths of the CUDA and torch libraries mapped into this process now."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    paths = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines() if ".so" in line}
    return sorted(path for path in paths if LIBRARIES.search(path))


def peak_rss_bytes() -> int:
    """Most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_gpu_bytes() -> list[int]:
    """Most memory torch ever held on each GPU."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]


def _version(module: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - not needed before

    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return ""


def _nccl() -> str:
    if not torch.cuda.is_available() and torch.version.cuda is None:
        return ""
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except (RuntimeError, AttributeError):
        return ""


def _outside() -> list[str]:
    """Entries of sys.path that belong neither to the environment, nor to its base Python, nor to this package."""
    own = {str(Path(__file__).resolve().parent.parent), *_made_by_torch()}
    roots = (sys.prefix, sys.base_prefix)
    entries = [str(Path(entry or ".").resolve()) for entry in sys.path]
    return [entry for entry in entries if entry not in own and not entry.startswith(roots)]


def _made_by_torch() -> set[str]:
    """The temporary directory that importing `torch.distributed.nn` puts on sys.path, for templates of its own."""
    module = sys.modules.get("torch.distributed.nn.jit.instantiator")
    made = getattr(module, "INSTANTIATED_TEMPLATE_DIR_PATH", None)
    return {str(Path(made).resolve())} if made else set()


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def _driver() -> str:
    text = ctypes.create_string_buffer(96)
    nvml = _nvml()
    if nvml is None or nvml.nvmlSystemGetDriverVersion(text, 96) != 0:
        return ""
    return text.value.decode()


def _nvml() -> ctypes.CDLL | None:
    """The driver's management library, ready to be asked; None without a driver."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def gpu_utilization() -> list[int]:
    """Percent of the last moments in which each GPU was busy, as its driver counts."""
    nvml = _nvml() if torch.cuda.is_available() else None
    if nvml is None:
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        handle, rates = ctypes.c_void_p(), _Utilization()
        nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates))
        found.append(int(rates.gpu))
    return found
