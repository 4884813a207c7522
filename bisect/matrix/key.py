"""What makes a cell of the compatibility matrix that cell: everything that may change a result, and where it ran."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

CLEAN = "clean"
"""The history of an environment to which nothing was done after it was built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellKey:
    """Everything that may change a result. Results are merged or reused only where the whole key is equal.

    Attributes:
        build: the environment's name without its history (`cu130`, `torch-2.14.1-cu130`).
        lock: digest of every distribution and of the history applied; empty where nothing could be locked.
        history: `clean` or the name of what was installed and removed before.
        workaround: the workaround switched on in the benchmark, or `none`.
        cache: state of the compile cache at the start: `cold` or `warm`.
        profile: the benchmark's profile and every argument that changes what runs.
        gpu: the GPUs, e.g. `8x NVIDIA H200`, or `none`.
        driver: version of the GPU driver, empty without one.
        benchmark: digest of the benchmark's source code.
        platform: operating system, processor and number of CPUs.
        node: name of the machine.
    """

    build: str
    lock: str = ""
    history: str = CLEAN
    workaround: str = "none"
    cache: str = "cold"
    profile: str = "smoke"
    gpu: str = "none"
    driver: str = ""
    benchmark: str = ""
    platform: str = ""
    node: str = ""

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this cell in journals, anchors and paths."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def environment(self) -> str:
        """Name of the environment, history included (`cu128+sglang`)."""
        return self.build if self.history == CLEAN else f"{self.build}+{self.history}"

    @property
    def question(self) -> tuple[str, str, str, str, str]:
        """What was asked, whatever machine or benchmark version answered: the key for comparing two matrices."""
        return (self.build, self.history, self.workaround, self.cache, self.profile)

    @property
    def machine(self) -> tuple[str, str, str, str]:
        """Where it ran; cells of different machines are never averaged."""
        return (self.node, self.platform, self.gpu, self.driver)

    @property
    def title(self) -> str:
        """The cell in words, for lists."""
        return f"{self.environment}, workaround {self.workaround}, {self.cache} cache"
