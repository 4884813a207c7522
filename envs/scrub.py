"""What a child process sees of the variables of this one: those that cannot change what runs, and caches of its own.

`child_environment` is what every process inside a built environment sees.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

# Everything else is dropped: variables of torch, triton, CUDA libraries, the dynamic loader, Python, uv, pip
# and of whatever was activated in the shell change what runs: the same command would not mean the same run.
KEPT = frozenset(
    {
        "CC",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "CXX",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "MKL_NUM_THREADS",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "PATH",
        "TERM",
        "TZ",
        "USER",
    }
)
KEPT_PREFIXES = ("LC_", "SLURM_")
_SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|JWT|(?:^|_)KEYS?(?:$|_)|(?:API|ACCESS|PRIVATE)_?KEY"
    r"|_PASS$|^PGPASS",
    re.IGNORECASE,
)
"""Names that hold what may not be written down, and what a child gets only where somebody gives it on purpose."""
# What a download needs to get through a firewall; for uv and pip only.
NETWORK = frozenset(
    {
        "ALL_PROXY",
        "CURL_CA_BUNDLE",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NETRC",
        "NO_PROXY",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "SSL_CLIENT_CERT",
    }
)
# Where uv keeps things and how patient it is; nothing that changes what is installed.
_INSTALLER = frozenset(
    {
        "HOME",
        "TMPDIR",
        "UV_CACHE_DIR",
        "UV_CONCURRENT_DOWNLOADS",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_PYTHON_INSTALL_DIR",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
    }
)

CACHES = {
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "HF_HOME": "huggingface",
    "NUMBA_CACHE_DIR": "numba",
    "TMPDIR": "tmp",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "XDG_CACHE_HOME": "xdg",
}


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(_SECRET.search(name))


def child_environment(
    environ: Mapping[str, str],
    *,
    python: Path,
    home: Path,
    caches: Path,
    without: Container[str] = (),
    extra: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Environment for a process inside a built environment; makes its `home` and temporary directory.

    Args:
        environ: the surrounding environment; only `KEPT` names of it survive, and no secret of a scheduler.
        python: the environment's interpreter; its directory comes first on PATH, so `torchrun` is its own.
        home: HOME of the child.
        caches: directory below which every compile cache lies.
        without: names that do not survive, though they are among the `KEPT` ones.
        extra: variables set on top of it all (a definition's `environment`, a probe's variables).
    """
    taken = {name for name in environ if (name in KEPT or _is_kept_by_prefix(name)) and name not in without}
    kept = {name: environ[name] for name in taken}
    directories = {name: str(caches / directory) for name, directory in CACHES.items()}
    home.mkdir(parents=True, exist_ok=True)
    Path(directories["TMPDIR"]).mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        **directories,
        "HOME": str(home),
        "PATH": _path(environ, python),
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        **dict(extra),
    }


def _is_kept_by_prefix(name: str) -> bool:
    return name.startswith(KEPT_PREFIXES) and not is_secret(name)


def dropped(environ: Mapping[str, str], child: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the variables that the child does not get or gets with another value, for the evidence."""
    return tuple(sorted(name for name, value in environ.items() if child.get(name) != value))


def installer_environment(environ: Mapping[str, str], extra: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Environment for uv and pip: no configuration of the user but certificates, proxies and uv's cache."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT or name.upper() in NETWORK or name in _INSTALLER or name.startswith("LC_")
    }
    return {**kept, "UV_NO_CONFIG": "1", "UV_LINK_MODE": "copy", "UV_NO_PROGRESS": "1", **dict(extra)}


def _path(environ: Mapping[str, str], python: Path) -> str:
    """The environment's own directory first; the one of an activated virtual environment not at all."""
    activated = environ.get("VIRTUAL_ENV")
    unwanted = str(Path(activated) / "bin") if activated else ""
    rest = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part and part != unwanted]
    return os.pathsep.join([str(python.parent), *rest])
