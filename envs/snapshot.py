"""Takes the snapshot of a built environment, or of any virtual environment, that `diff` compares."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from . import expected, inspection, machine, verify
from . import fingerprint as fingerprints
from .diff import Snapshot
from .findings import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .environment_file import Entry
    from .place import Place

_FILES = (Kind.CHANGED, Kind.MISSING, Kind.DOUBLY_OWNED, Kind.UNOWNED,
          Kind.NO_RECORD, Kind.MIXED)  # fmt: skip
_STARTUP = (Kind.PTH, Kind.SITECUSTOMIZE)
CACHES: Mapping[str, str] = {
    ".cache/flashinfer": "flashinfer",
    ".cache/tvm-ffi": "apache-tvm-ffi (its key is torch's major.minor only)",
    ".cache/torch_extensions": "torch.utils.cpp_extension",
    ".cache/vllm": "vllm",
    ".nv/ComputeCache": "the CUDA driver",
    ".triton/cache": "triton",
}
"""Compile caches below a home directory that no uninstall removes, with their owner."""

_READ = re.compile(
    r"TORCH|PYTORCH|TRITON|INDUCTOR|AOT_|CUDA|CUBLAS|CUDNN|CUTLASS|NCCL|NVIDIA_TF32|NVTE_|GLOO_|UCX_"
    r"|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|BLIS_|NUMEXPR_"
    r"|FLASH_ATTENTION|FLASHINFER_|SGLANG_|VLLM_|XFORMERS_|TVM_|TILELANG_|DG_"
    r"|HF_|TRANSFORMERS_|TOKENIZERS_|ACCELERATE_|DEEPSPEED_"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|MALLOC_|GLIBC_TUNABLES|PYTHON(?!HOME)"
)
_SECRET = re.compile(r"TOKEN(?!IZERS)|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def of_entry(entry: Entry, directory: Path) -> Snapshot:
    """The snapshot of an environment in the store, from what it said when it was built and its files now."""
    venv = directory / "venv"
    found = verify.verify(venv, memory=directory / expected.MEMORY)
    variables = dict(entry.environment)
    return _snapshot(entry.name, entry.fingerprint, found, records=_records(venv), variables=variables)


def of_image(entry: Entry, directory: Path, place: Place) -> Snapshot:
    """The snapshot of an image in the store, with the variables that it sets for itself."""
    looked = inspection.look(entry, directory, place)
    found = inspection.verification(looked, python=entry.minor)
    variables = {**dict(entry.image_variables), **dict(entry.environment)}
    return _snapshot(entry.name, entry.fingerprint, found, records=inspection.records(looked), variables=variables)


def of_directory(path: Path) -> Snapshot:
    """The snapshot of any virtual environment: it is asked now, with the variables that are set here."""
    with tempfile.TemporaryDirectory(prefix="envs-snapshot-") as scratch:
        said = fingerprints.ask(path / "bin" / "python", scratch=Path(scratch), driver=machine.driver_version())
    found = verify.verify(path)
    variables = compile_variables(os.environ)
    return _snapshot(str(path), said, found, records=_records(path), variables=variables, home=Path.home())


def compile_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what training code compiles, loads or runs; nothing that could be a secret."""
    return {name: text for name, text in environ.items() if _READ.match(name) and not _SECRET.search(name)}


def caches_below(home: Path) -> dict[str, str]:
    """Compile caches that are there and whom they belong to."""
    return {path: owner for path, owner in CACHES.items() if (home / path).is_dir()}


def _snapshot(
    name: str,
    said: fingerprints.Fingerprint,
    found: verify.Verification,
    *,
    records: Mapping[str, str],
    variables: Mapping[str, str],
    home: Path | None = None,
) -> Snapshot:
    packages = dict(_package(item) for item in said.distributions)
    return Snapshot(
        name=name,
        torch={
            "version": said.torch,
            "cuda": said.cuda,
            "git_version": said.git_version,
            "cannot be imported": said.torch_error,
        },
        machine={"python": said.python, "glibc": said.glibc, "driver": said.driver, "gpus": ", ".join(said.gpus)},
        packages=packages,
        records=records,
        libraries={Path(path).name: path for path in said.libraries},
        overrides=said.overrides,
        entry_points=said.entry_points,
        files={(str(item.kind), item.path): ", ".join(item.owners) for item in found.findings if item.kind in _FILES},
        startup={item.path: item.detail for item in found.findings if item.kind in _STARTUP},
        variables=variables,
        caches=caches_below(home) if home else {},
    )


def _package(text: str) -> tuple[str, str]:
    name, _, version = text.partition("==")
    return canonicalize_name(name), version


def _records(venv: Path) -> dict[str, str]:
    """A digest over what each distribution recorded of its files; scripts and bookkeeping left out."""
    found: dict[str, str] = {}
    for record in sorted(venv.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        name = canonicalize_name(record.parent.name.removesuffix(".dist-info").partition("-")[0])
        with record.open(encoding="utf-8", newline="", errors="replace") as file:
            found[name] = inspection.digest_of_rows(list(csv.reader(file)))
    return found
