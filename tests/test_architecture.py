"""The rooms know only what they may know; checked on the import statements themselves."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("envs", "bisect", "dflash")
FORBIDDEN = {
    "envs": {"bisect", "dflash", "torch"},
    "bisect": {"dflash", "torch"},
    "dflash": {"envs", "bisect"},
}
PURE = {
    "envs": {
        "errors", "spec", "lock", "index", "backend", "history", "diff", "sandbox", "run_line", "seal", "step",
        "suspicion", "table", "uvlog",
    },
    "bisect": {
        "classify/*", "engine/*", "throughput/*", "signatures/*", "logs/*",
        "matrix/__init__", "matrix/axes", "matrix/compare", "matrix/factors", "matrix/gate", "matrix/as_json",
        "matrix/as_junit", "matrix/as_text", "matrix/key", "matrix/measure", "matrix/notes", "matrix/offers",
        "matrix/pairs", "matrix/preflight", "matrix/recommend", "matrix/report", "matrix/schedule", "matrix/state",
        "matrix/throughput",
        "packages/__init__", "packages/as_json", "packages/belief", "packages/choice", "packages/differences",
        "packages/freeze", "packages/freeze_forks", "packages/freeze_lines", "packages/freeze_locks",
        "packages/labels", "packages/otherwise", "packages/report", "packages/room", "packages/speed",
        "packages/speed_step", "packages/step",
        "slurm/profile", "slurm/watch",
        "candidates", "changed", "cures", "cures_report", "decode", "endpoints", "exit_codes", "explain",
        "hazards_report", "intervals", "journal_shape", "lineup", "model", "neighbours", "nodes",
        "plan", "plot", "probability", "problem_file", "redaction", "report", "report_json", "report_rows",
        "report_text", "result", "same_code", "shapes", "state", "train_figures", "train_report",
    },
    "dflash": {"config", "loss", "masks", "profiles", "sizes", "throughput"},
}  # fmt: skip
EFFECTS = {"subprocess", "socket", "urllib.request", "http.client", "requests", "time", "tempfile", "shutil"}
SUBPROCESS_DOORS = {"envs/process.py"}


def _modules(room):
    return sorted((ROOT / room).rglob("*.py"))


def _pure(room):
    """The modules of a room that `PURE` names, each by its own name or as one of a whole folder."""
    here = ROOT / room
    return [
        path
        for path in _modules(room)
        if PURE[room] & {path.relative_to(here).with_suffix("").as_posix(), f"{path.relative_to(here).parent}/*"}
    ]


def _imports(path):
    """Absolute module names imported by a file; relative ones as `<room>.<module>`."""
    package = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = ".".join(package[: -node.level]) if node.level else ""
            module = ".".join(part for part in (prefix, node.module or "") if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_no_room_it_may_not_know(room):
    """bisect would need torch to decide, or the benchmark would need the tool inside a probed environment."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _modules(room)
        for name in _imports(path)
        if name.split(".")[0] in FORBIDDEN[room]
    ]

    assert wrong == []


def test_the_benchmark_imports_only_torch_numpy_and_the_standard_library():
    """A staged benchmark would fail in an environment that has only torch."""
    allowed = set(sys.stdlib_module_names) | {
        "torch",
        "functorch",
        "numpy",
        "dflash",
    }  # functorch comes in the wheel of torch
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _modules("dflash")
        for name in _imports(path)
        if name.split(".")[0] not in allowed
    ]

    assert wrong == []


@pytest.mark.parametrize("room", sorted(PURE))
def test_every_pure_module_is_there(room):
    """A module that was moved would drop out of the checks below without a word."""
    here = ROOT / room
    missing = [name for name in PURE[room] if not list(here.glob(f"{name}.py"))]

    assert missing == []


@pytest.mark.parametrize("room", sorted(PURE))
def test_pure_modules_have_no_effects(room):
    """A decision that reads a clock, a file system or a process cannot be replayed."""
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in _pure(room) for name in _imports(path) if name in EFFECTS]

    assert wrong == []


def _calls(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("room", sorted(PURE))
def test_pure_modules_neither_print_nor_read_the_environment(room):
    """A verdict would depend on the shell it was asked from."""
    wrong = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in _pure(room)
        for call in _calls(path)
        if call in {"print", "open", "input", "os.environ", "os.getenv"}
    ]

    assert wrong == []


def test_only_one_module_starts_processes():
    """A second door would not scrub the environment nor end the process group."""
    doors = {
        str(path.relative_to(ROOT))
        for room in ("envs", "bisect")
        for path in _modules(room)
        if any(name.split(".")[0] == "subprocess" for name in _imports(path))
    }

    assert doors <= SUBPROCESS_DOORS


def test_no_submodule_of_bisect_is_named_like_the_standard_api():
    """`from bisect import insort` would hand a module to random, statistics or torch."""
    names = {path.stem for path in (ROOT / "bisect").iterdir()}

    assert names & {"bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right"} == set()
