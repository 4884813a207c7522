"""What a built environment says it is, and how that differs from what was asked for.

An environment is never trusted: another torch than the one asked for is the commonest contamination, and it
comes with exit code 0. The environment's own interpreter imports torch and answers; the comparison is pure.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from . import backend, process, scrub
from .errors import CannotBuildError
from .place import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .place import Place
    from .spec import Definition

PATIENCE_S = 300.0
"""How long an environment may take to answer: torch is imported from a slow shared file system in a minute or two."""
REPORT_S = 20.0
_ASK = Path(__file__).parent / "inside" / "ask.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The answers of one environment. An empty string means that it could not say.

    Attributes:
        torch: `torch.__version__`, with its local tag.
        cuda: `torch.version.cuda`.
        git_version: commit of the build; two builds of one commit are one candidate.
        torch_file: where `torch` was imported from.
        torch_error: why torch cannot be imported, last line of `torch_traceback`.
        import_seconds: time `import torch` took.
        triton: version of the installed triton.
        cudnn: version torch reports of the cuDNN it loaded.
        nccl: version of the NCCL that torch carries.
        python: full version of the interpreter.
        glibc: version of the C library.
        driver: version of the NVIDIA driver, empty without one.
        gpus: name and compute capability of every GPU torch sees.
        architectures: what the build has code for.
        libraries: CUDA libraries really loaded, from the process map.
        overrides: native kernels that importing torch replaced.
        distributions: `name==version` of everything installed.
        entry_points: hooks of other packages that torch loads by itself.
        outside: entries of sys.path and loaded libraries outside the environment.
        user_site: whether the user's site directory is active.
    """

    torch: str = ""
    cuda: str = ""
    git_version: str = ""
    torch_file: str = ""
    torch_error: str = ""
    torch_traceback: str = ""
    import_seconds: float = 0.0
    triton: str = ""
    cudnn: str = ""
    nccl: str = ""
    python: str = ""
    glibc: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    architectures: str = ""
    libraries: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    user_site: bool = False

    def moved(self, old: str, new: str) -> Fingerprint:
        """The same answers after the environment's directory was renamed."""
        return replace(
            self,
            torch_file=self.torch_file.replace(old, new),
            torch_error=self.torch_error.replace(old, new),
            torch_traceback=self.torch_traceback.replace(old, new),
            libraries=tuple(path.replace(old, new) for path in self.libraries),
        )

    def as_json(self) -> dict[str, Any]:
        """A dict that `from_json` reads."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as asked; `outcome` as in the list of outcomes."""

    outcome: str
    message: str


def ask(
    python: Path,
    *,
    scratch: Path,
    driver: str,
    environment: tuple[tuple[str, str], ...] = (),
    place: Place = HOST,
    venv: Path | None = None,
    report: Callable[[str], None] = lambda _: None,
    report_s: float = REPORT_S,
    patience_s: float = PATIENCE_S,
) -> Fingerprint:
    """Let the environment of `python` say what it is.

    Args:
        python: interpreter of the environment.
        scratch: directory for its home, caches and answer.
        driver: version of the NVIDIA driver, which the environment cannot know.
        environment: the definition's variables.
        place: where the environment lives.
        venv: the environment, where a container has to be given it; None when it is the image's own.
        report: told a line while there is no answer.
        report_s: seconds between two of them.
        patience_s: seconds after which there is none: then torch is one that cannot be imported.
    """
    answer = scratch / "fingerprint.json"
    env = scrub.child_environment(
        os.environ, python=python, home=scratch / "home", caches=scratch / "caches", extra=environment
    )
    log = scratch / "fingerprint.log"
    done = place.run(
        [str(python), "-X", "faulthandler", str(_ASK), str(answer)],
        cwd=scratch,
        env=env,
        writable=(scratch,),
        readable=(_ASK.parent,) if venv is None else (venv, _ASK.parent),
        timeout_s=patience_s,
        output=log,
        watch=_Waiting(report, every_s=report_s, patience_s=patience_s).tell,
        warn_signal=signal.SIGABRT,
    )
    if not answer.exists():
        return _unanswered(done, log.read_text(errors="replace"), driver, patience_s=patience_s)
    return parse(answer.read_text(encoding="utf-8"), driver=driver)


def parse(text: str, *, driver: str) -> Fingerprint:
    """Read the answers of `inside/ask.py`."""
    try:
        answers: Mapping[str, Any] = json.loads(text)
        prefix, base = answers["prefix"], answers["base_prefix"]
        return Fingerprint(
            **{name: answers.get(name, "") for name in _TEXTS},
            import_seconds=float(answers.get("import_seconds", 0.0)),
            driver=driver,
            gpus=tuple(f"{gpu['name']} ({gpu['capability']})" for gpu in answers.get("gpus", ())),
            libraries=tuple(answers["libraries"]),
            overrides=tuple(answers.get("overrides", ())),
            distributions=tuple(answers["distributions"]),
            entry_points=tuple(answers["entry_points"]),
            outside=(
                *_outside_paths(answers["sys_path"], prefix, base),
                *_outside_libraries(answers["libraries"], prefix),
            ),
            user_site=bool(answers["user_site"]),
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CannotBuildError(
            f"the environment answered something unreadable: {error}", outcome="inconsistent_env"
        ) from error


def from_json(table: Mapping[str, Any]) -> Fingerprint:
    """Read what `as_json` wrote; unknown keys of a later version are left out."""
    known: dict[str, Any] = {
        name: tuple(table[name]) if isinstance(table[name], list) else table[name]
        for name in Fingerprint.__dataclass_fields__
        if name in table
    }
    return Fingerprint(**known)


def compare(definition: Definition, found: Fingerprint, *, locked_torch: str = "") -> tuple[Difference, ...]:
    """Everything in which the built environment is not what was asked for; empty when it is.

    A torch that cannot be imported differs in nothing that can be compared: `torch_error` says it.
    """
    differences = []
    if found.torch:
        differences += _torch_differences(definition, found, locked_torch)
    differences += [
        Difference(outcome="env_not_isolated", message=f"{path} is used and lies outside the environment")
        for path in found.outside
    ]
    if found.user_site:
        differences.append(Difference(outcome="env_not_isolated", message="the user's site directory is active"))
    return tuple(differences)


def _torch_differences(definition: Definition, found: Fingerprint, locked: str) -> list[Difference]:
    wanted = locked or definition.torch
    try:
        have = Version(found.torch)
    except InvalidVersion:
        return [_wrong(f"torch calls itself {found.torch!r}, which is not a version")]
    differences = []
    if wanted and have.public != Version(wanted).public:
        differences.append(_wrong(f"asked for torch {wanted}, got torch {found.torch}"))
    if have.local and have.local.startswith(("cu", "cpu", "rocm", "xpu")) and have.local != definition.cuda:
        differences.append(_wrong(f"asked for {definition.cuda}, got torch {found.torch}"))
    elif found.cuda and found.cuda != backend.cuda_version(definition.cuda):
        differences.append(
            _wrong(f"asked for CUDA {backend.cuda_version(definition.cuda)}, torch was built with {found.cuda}")
        )
    return differences


def _wrong(message: str) -> Difference:
    return Difference(outcome="wrong_build", message=message)


def _outside_paths(paths: list[str], prefix: str, base: str) -> tuple[str, ...]:
    """Entries of sys.path that are neither the environment's nor the interpreter's standard library."""
    packages = ("site-packages", "dist-packages")
    return tuple(
        path
        for path in paths
        if not _below(path, prefix)
        and not (_below(path, base) and not any(part in packages for part in Path(path).parts))
    )


def _outside_libraries(paths: list[str], prefix: str) -> tuple[str, ...]:
    """Loaded CUDA libraries of the system or of another environment."""
    return tuple(path for path in paths if not _below(path, prefix))


def _below(path: str, directory: str) -> bool:
    return Path(path).resolve().is_relative_to(Path(directory).resolve())


@dataclass(slots=True)
class _Waiting:
    """Says from time to time that there is no answer yet."""

    report: Callable[[str], None]
    every_s: float
    patience_s: float
    told: int = 0

    def tell(self, elapsed_s: float) -> bool:
        """Called with the seconds so far; never ends the child."""
        if elapsed_s >= (self.told + 1) * self.every_s:
            self.told += 1
            self.report(f"  torch is being imported for {elapsed_s:.0f} s (given up after {self.patience_s:.0f} s)")
        return False


def _unanswered(done: process.Completed, log: str, driver: str, *, patience_s: float) -> Fingerprint:
    """The interpreter died while importing torch: a crash is an answer too, and so is a silence.

    At the deadline faulthandler writes where the import stood, the innermost call first.
    """
    how = f"took longer than {patience_s:.0f} s" if done.timed_out else f"ended with {done.returncode}"
    lines = log.strip().splitlines()
    if done.timed_out:
        lines = [line.strip() for line in lines if line.startswith("  File ")][:1]
    return Fingerprint(
        torch_error=f"importing torch {how}" + (f": {lines[-1]}" if lines else ""),
        torch_traceback=log[-4000:],
        driver=driver,
    )


_TEXTS = (
    "torch",
    "cuda",
    "git_version",
    "torch_file",
    "torch_error",
    "torch_traceback",
    "triton",
    "cudnn",
    "nccl",
    "python",
    "glibc",
    "architectures",
)
