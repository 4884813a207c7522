# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2026.8"]
# ///
"""Sessions: one `train-<env>` and `hazards-<env>` per environment definition, and the searches on top of them.

Every session is a thin call of the command line in this project's own locked environment, which uv makes on first
use. Nothing of the project is imported here: definitions and histories are read as TOML.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
DEFINITIONS = ROOT / "envs" / "definitions"
HISTORIES = ROOT / "envs" / "histories"
TORCH_FOR_TESTS = "2.11.0"

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "none"


def _uv() -> str:
    """Return uv from PATH, else the one installed beside nox (`nox[uv]`)."""
    found = shutil.which("uv")
    if found is None:
        from uv import find_uv_bin  # noqa: PLC0415  (only there when nox came with its uv extra)

        found = find_uv_bin()
    return found


def _run(session: nox.Session, *argv: str) -> None:
    """Run argv in the project's locked environment, from the repository root.

    Variables by which nox or an active virtual environment would redirect uv are dropped.
    """
    env = {"UV_PYTHON": None, "VIRTUAL_ENV": None, "UV_PROJECT_ENVIRONMENT": None, "PYTHONSAFEPATH": None}
    session.chdir(ROOT)
    session.run(_uv(), "run", "--frozen", "--quiet", *argv, external=True, env=env)


def _definitions() -> dict[str, str]:
    """Name -> one-line summary of every environment definition, histories on their bases included."""
    bases = {path.stem: tomllib.loads(path.read_text()) for path in sorted(DEFINITIONS.glob("*.toml"))}
    found = {name: str(table.get("summary", "")) for name, table in bases.items()}
    for path in sorted(HISTORIES.glob("*.toml")):
        history = tomllib.loads(path.read_text())
        for base in history.get("bases", ()):
            found[f"{base}+{path.stem}"] = f"{base}, then {history.get('summary', path.stem)}"
    return found


def _add_environment_sessions(name: str, summary: str) -> None:
    def train(session: nox.Session) -> None:
        _run(session, "python", "-m", "bisect", "train", name, *session.posargs)

    def hazards(session: nox.Session) -> None:
        _run(session, "python", "-m", "bisect", "hazards", name, *session.posargs)

    train.__doc__ = f"Train the DFlash drafter in {summary}"
    hazards.__doc__ = f"Probe thread-safety holes in {summary}"
    label = name.replace("+", "-")
    nox.session(name=f"train-{label}", python=False, tags=["train"])(train)
    nox.session(name=f"hazards-{label}", python=False, tags=["hazards"])(hazards)


for _name, _summary in _definitions().items():
    _add_environment_sessions(_name, _summary)


@nox.session(python=False)
def matrix(session: nox.Session) -> None:
    """Builds x contamination x workarounds x cache in one table, with a recommendation."""
    _run(session, "python", "-m", "bisect", "matrix", *session.posargs)


@nox.session(python=False, name="bisect")
def bisect_session(session: nox.Session) -> None:
    """`python -m bisect ...` without the shadowing trap: nox -s bisect -- torch-nightlies ..."""
    _run(session, "python", "-m", "bisect", *session.posargs)


@nox.session(python=False, name="envs")
def envs_session(session: nox.Session) -> None:
    """`python -m envs ...`: list, lock, build, verify, diff, prune, path, cache."""
    _run(session, "python", "-m", "envs", *session.posargs)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Ruff (lint and format) and mypy strict."""
    _run(session, "ruff", "check", ".")
    _run(session, "ruff", "format", "--check", ".")
    _run(session, "mypy")


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """All tests: the tool's own, then the benchmark's oracles inside a real torch build."""
    _run(session, "python", "-m", "pytest", "--ignore=tests/dflash", "-m", "not container", *session.posargs)
    if not session.posargs:
        session.notify("tests-torch")


@nox.session(python=False, name="tests-container")
def tests_container(session: nox.Session) -> None:
    """The container backend against a real engine: one that DOCKER_HOST names, or one started for the test as root."""
    _run(session, "python", "-m", "pytest", "tests/envs", "-m", "container", *session.posargs)


@nox.session(python=False, name="tests-torch")
def tests_torch(session: nox.Session) -> None:
    """The benchmark's oracles and the hazard probes, inside a real torch build (--torch VERSION)."""
    version = TORCH_FOR_TESTS
    posargs = list(session.posargs)
    if posargs[:1] == ["--torch"]:
        version, posargs = posargs[1], posargs[2:]
    venv = ROOT / ".nox" / f"torch-{version}"
    python = str(venv / "bin" / "python")
    env = {"UV_PYTHON": None, "VIRTUAL_ENV": None, "OMP_NUM_THREADS": "1"}
    requirements = [
        f"torch=={version}",
        "numpy",
        "setuptools",
        "pytest",
        "hypothesis",
        "packaging",
        "transformers<6",
    ]
    if not os.path.exists(python):  # noqa: PTH110
        session.run(_uv(), "venv", "--quiet", str(venv), external=True, env=env)
    session.run(_uv(), "pip", "install", "--quiet", "--python", python, *requirements, external=True, env=env)
    session.chdir(ROOT)
    session.run(python, "-m", "pytest", "tests/dflash", *posargs, external=True, env=env)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Figures, printed as ratios measured in one run: builds, overhead, engine calibration, step speed."""
    _run(session, "python", "-m", "tests.bench", *session.posargs)


if __name__ == "__main__":
    nox.main()
