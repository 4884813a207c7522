"""Every error the tool raises on purpose, with its exit code.

The message says what and which value; the hint says what to do. `outcome` names, in the spelling of
`bisect.model.Outcome`, what the error means for a probe (`not_published`, `disk_full`, ...).
"""

from typing import ClassVar


class ToolError(Exception):
    """Base of the errors shown to a person in one line plus a hint, without a traceback."""

    exit_code: ClassVar[int] = 1
    default_outcome: ClassVar[str] = "harness_error"

    def __init__(self, message: str, *, hint: str = "", outcome: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.outcome = outcome or self.default_outcome

    @property
    def told(self) -> str:
        """What a person is shown: the error, and the hint on a line of its own."""
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


class UsageError(ToolError):
    """The command line, a definition, a lock or another input file is wrong."""

    exit_code = 2


class ContradictionError(ToolError):
    """An endpoint contradicts what was claimed of it."""

    exit_code = 3


class CannotBuildError(ToolError):
    """An environment cannot be made: not published, not resolvable, not downloadable, failed to install."""

    exit_code = 5
    default_outcome = "build_failed"


class CannotRunError(ToolError):
    """This machine cannot do it: no GPU, no daemon, no disk, no compiler, a driver too old."""

    exit_code = 6


class InterruptedRunError(ToolError):
    """Stopped by a signal; the journal is intact and the message says how to resume."""

    exit_code = 130
