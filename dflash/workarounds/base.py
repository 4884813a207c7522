"""What a workaround is: a name, an argument, and a handful of places in a run that it may change.

A run calls the hooks in this order: `refusal`, `configure`, `prepare` (main thread, before the attention is wrapped
by torch.compile), `attention`, `rehearse` (main thread, models built, no thread started); then each drafter thread
calls `prepare_thread` once, and every step `step`, `masks` inside it, and `before_call` right before each
compiled attention call, in the thread that makes the call, which in a backward may be one of autograd's own.
`restore` undoes what was changed in the process.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from ..attention import Attention
    from ..config import TrainConfig

FLAG_HAZARDS = ("fx_flag_trace", "fx_flag_make_fx", "fx_flag_flex", "fx_flag_compile", "fx_flag_stuck")
CRASH_HAZARDS = (*FLAG_HAZARDS, "fx_patcher", "mask_metadata", "metrics_context", "first_concurrent_compile")


class Benchmark(Protocol):
    """What a workaround may ask of the run it belongs to."""

    config: TrainConfig

    def num_compiles(self) -> int: ...

    def num_dense_calls(self) -> int: ...

    def masks(self, *, drafter: int, step: int) -> dict[str, Any]:
        """Build the masks of one step of one drafter, in the calling thread."""

    def rehearse(self, *, drafter: int, step: int) -> None:
        """Run one step in the calling thread and throw its gradients away."""


class Workaround:
    """Changes nothing; the base of the others.

    Attributes:
        name: as on the command line.
        summary: what it does.
        safe_argument: why it is safe, or why it is only lucky.
        builds: on which builds it applies.
        closes: hazards (names of `dflash.hazards`) that cannot hurt this benchmark under it, by that argument.
        changes_process: whether `prepare` alone does it, so that the hazard probes can be run under it.
        applied: what was really changed in this run.
    """

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "nothing is changed"
    safe_argument: ClassVar[str] = "nothing keeps one thread's trace from another thread's compiled call"
    builds: ClassVar[str] = "all"
    closes: tuple[str, ...] = ()
    changes_process: ClassVar[bool] = False

    def __init__(self) -> None:
        self.applied: list[str] = []
        self._undo = contextlib.ExitStack()

    def refusal(self, config: TrainConfig) -> str:  # noqa: ARG002 - for those that need it
        """Why it cannot be used with this build, configuration and machine; empty when it can."""
        return ""

    def configure(self, config: TrainConfig) -> TrainConfig:
        """The configuration that will run."""
        return config

    def prepare(self) -> None:
        """Change the process, in the main thread, before the attention is wrapped by torch.compile."""

    def attention(self, make: Callable[[], Attention], on_dense: Callable[[int], None]) -> Attention:  # noqa: ARG002
        """The attention of all drafters; `on_dense` hears of every call that ran unfused."""
        return make()

    def rehearse(self, benchmark: Benchmark) -> None:
        """Do work once in the main thread, before any drafter thread starts."""

    def prepare_thread(self) -> None:
        """Change the calling drafter thread, before the start."""

    def step(self, shape: Hashable) -> AbstractContextManager[object]:  # noqa: ARG002
        """Around mask building, forward and backward of one step; equal shapes compile nothing new."""
        return contextlib.nullcontext()

    def masks(self, build: Callable[[], dict[str, Any]], *, drafter: int, step: int) -> dict[str, Any]:  # noqa: ARG002
        """The masks of one step."""
        return build()

    def before_call(self) -> None:
        """Right before each call of the compiled attention, in the calling thread."""

    def restore(self) -> None:
        """Undo what `prepare` changed in the process."""
        self._undo.close()

    def document(self) -> dict[str, Any]:
        """The workaround as the result file spells it."""
        return {
            "name": self.name,
            "summary": self.summary,
            "safe_argument": self.safe_argument,
            "builds": self.builds,
            "closes": list(self.closes),
            "applied": list(self.applied),
        }
