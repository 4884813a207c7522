"""Which options of the benchmark a probe takes, and what they become on its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.errors import UsageError

from ..cures import NAMES, PROBED_UNDER
from ..identity import PARSER
from ..probe import RunKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ..judge import Question

PLAIN = "none"
PASSED_ON = ("profile", "threads", "steps", "seed", "workaround")
TRAIN_ONLY: Mapping[str, str] = {
    **{name: f"--{name}" for name in ("profile", "threads", "steps", "seed", "amplify")},
    "sets": "--set",
    "no_control": "--no-control",
    "min_effect": "--min-effect",
    "pairs": "--pairs",
}
"""Options that only the benchmark uses, by their place in the arguments."""


def refuse_unused(args: argparse.Namespace, kind: RunKind) -> None:
    """UsageError for every option that this probe would ignore: an answer must not look as if it had been used."""
    if kind is RunKind.TRAIN:
        return
    ignored = {**TRAIN_ONLY, **({"workaround": "--workaround"} if kind is RunKind.COMMAND else {})}
    parser: argparse.ArgumentParser = getattr(args, PARSER)
    given = [option for name, option in ignored.items() if getattr(args, name) != parser.get_default(name)]
    if given:
        also = "; --probe hazards takes --workaround" if kind is RunKind.COMMAND and "--workaround" in given else ""
        raise UsageError(
            f"--probe {kind} does not use {', '.join(given)}", hint=f"leave it out, or use --probe train{also}"
        )


def hazard_workaround(name: str) -> str:
    """A workaround that the hazard probes can be made under; UsageError for any other, before anything is built."""
    if name in (PLAIN, *PROBED_UNDER):
        return name
    probed = f"the hazards can be probed under {', '.join((PLAIN, *PROBED_UNDER))}"
    if name.partition("=")[0] in {known.partition("=")[0] for known in NAMES}:
        raise UsageError(f"workaround {name} acts on a run, not on the process", hint=probed)
    raise UsageError(f"unknown workaround {name!r}", hint=probed)


def probe_arguments(args: argparse.Namespace, kind: RunKind, question: Question) -> tuple[str, ...]:
    """What is given to the workload after its own options."""
    if kind is RunKind.HAZARDS:
        return ("--only", question.hazard, *(("--workaround", question.under) if question.under else ()))
    if kind is RunKind.COMMAND:
        return ()
    given = [(f"--{name}", getattr(args, name)) for name in PASSED_ON if getattr(args, name) is not None]
    words = [text for option, value in given for text in (option, str(value))]
    words += [text for assignment in args.sets for text in ("--set", assignment)]
    return (*words, *(["--amplify"] if args.amplify else []))
