"""An environment that somebody changed after it was built: what its runs showed is no answer about the build.

What is said of it, and the exit code, are the same for every command.
"""

from __future__ import annotations

from dataclasses import dataclass

from envs.errors import CannotRunError

from .model import OutcomeName

OUTCOME = OutcomeName.INCONSISTENT_ENV.value
EXIT_CODE = CannotRunError.exit_code
"""That of a search, which refuses such an environment: the remedy is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What was changed.

    Attributes:
        environment: its name.
        what: the first files, in a line, and the command that names all.
        rebuild: the command after which it is built anew.
    """

    environment: str
    what: str
    rebuild: str

    def over(self, sentence: str) -> str:
        """The verdict, given the one that its runs would have had in an environment as it was built."""
        return (
            f"{OUTCOME}: {self.environment} was changed after it was built ({self.what}), so this is no answer about "
            f"it; as it is now: {sentence}"
        )

    @property
    def remedy(self) -> str:
        """A line of a report: after that, the next command builds it anew."""
        return f"remove it:     {self.rebuild}"


class ChangedError(CannotRunError):
    """An environment that somebody changed after it was built: what runs in it is no evidence about the build."""

    def __init__(self, changed: Changed) -> None:
        super().__init__(
            f"{changed.environment} was changed after it was built, and what runs in it is no evidence: {changed.what}",
            hint=f"remove it with `{changed.rebuild}`, then give the same command again: it is built anew",
            outcome=OUTCOME,
        )
