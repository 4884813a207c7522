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
    "envs": {"errors", "spec", "lock", "index", "backend", "history", "diff", "sandbox", "seal", "uvlog"},
    "bisect": {
        "model", "candidates", "classify", "signatures", "engine", "posterior", "packages", "throughput", "intervals",
        "matrix", "matrix_axes", "matrix_compare", "matrix_factors", "matrix_gate", "matrix_json", "matrix_junit",
        "matrix_key", "matrix_measure", "matrix_notes", "matrix_offers", "matrix_pairs",
        "matrix_report", "matrix_schedule", "matrix_state", "matrix_text", "matrix_throughput", "plot", "preflight",
        "report", "report_text", "train_figures", "train_report", "certain", "plan", "recommend", "freeze", "explain",
        "result", "decode", "settle", "causes", "conclusion", "endings", "imports", "result_findings", "choose",
        "lineup", "islands", "information", "freeze_forks", "freeze_lines", "freeze_locks",
        "packages_belief", "packages_choice", "packages_differences",
        "packages_json", "packages_report", "packages_room", "packages_speed", "packages_speed_step", "packages_step",
        "neighbours", "silence", "told", "speed_posterior", "clean", "moment", "premises", "speed_size", "speed_steps",
        "throughput_doubts", "problem_file", "probability", "redaction", "nodes", "slurm_profile", "slurm_watch",
        "state", "journal_shape", "shapes", "shown", "same_code", "speed_line", "speed_islands",
    },
    "dflash": {"config", "loss", "masks", "profiles", "sizes", "throughput"},
}  # fmt: skip
EFFECTS = {"subprocess", "socket", "urllib.request", "http.client", "requests", "time", "tempfile", "shutil"}
SUBPROCESS_DOORS = {"envs/process.py"}


def _modules(room):
    return sorted((ROOT / room).rglob("*.py"))


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
def test_pure_modules_have_no_effects(room):
    """A decision that reads a clock, a file system or a process cannot be replayed."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _modules(room)
        if path.parent == ROOT / room and path.stem in PURE[room]
        for name in _imports(path)
        if name in EFFECTS
    ]

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
        for path in _modules(room)
        if path.parent == ROOT / room and path.stem in PURE[room]
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
