"""What can be known of a cell before a byte is downloaded, and what would unblock it.

Driver against CUDA variant, GPU architecture against wheel, C library: `envs.backend`. Added here: the GPUs that the
profile needs, the compiler, the disk, and whether the release was ever built for the variant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs import backend

from . import Blocked, State

if TYPE_CHECKING:
    from envs.backend import Machine, Refusal
    from envs.room import Estimate
    from envs.spec import Definition

GPUS_NEEDED = {"gpu1": 1, "node8": 8, "node8-27b": 8}
_COMPAT = {
    "driver_too_old": "; NVIDIA's cuda-compat libraries of that CUDA version, on a data-center GPU, are another way",
}


def needs_gpu(profile: str, machine: Machine) -> Blocked | None:
    """A profile for more GPUs than there are is not shrunk; it is blocked."""
    needed = GPUS_NEEDED.get(profile, 0)
    if len(machine.gpus) >= needed:
        return None
    return Blocked(
        state=State.NEEDS_GPU,
        reason=f"profile {profile} needs {needed} GPU(s), this machine has {len(machine.gpus)}",
        unblock="run on a machine with them, or choose --profile smoke",
    )


def cannot_run(definition: Definition, machine: Machine) -> Blocked | None:
    """The first thing that makes this build useless on this machine; None when it can run."""
    if not definition.cuda:  # an image: what is in it is known only once it is there
        return None
    variants = backend.variants(definition.torch)
    if definition.channel.value == "release" and variants and definition.cuda not in variants:
        return Blocked(
            state=State.NOT_PUBLISHED,
            reason=f"torch {definition.torch} was never built for {definition.cuda}",
            unblock=f"use one of {', '.join(variants)}",
        )
    refusals = backend.preflight(definition.cuda, definition.torch, machine)
    return None if not refusals else from_refusal(refusals[0])


def from_refusal(refusal: Refusal) -> Blocked:
    """A refusal of `envs` as the state of a cell."""
    unblock = refusal.hint + _COMPAT.get(refusal.outcome, "")
    return Blocked.from_outcome(refusal.outcome, reason=refusal.message, unblock=unblock)


def does_not_fit(needs: Estimate, *, free_bytes: int) -> Blocked | None:
    """An environment larger than the free disk would fill it and then fail."""
    wanted = needs.disk_bytes + needs.cache_bytes
    if wanted <= free_bytes:
        return None
    return Blocked.from_outcome(
        "disk_full",
        reason=f"the environment needs about {wanted / 1e9:.1f} GB, {free_bytes / 1e9:.1f} GB are free",
        unblock="free some space with `python -m envs prune`, or choose another place with --store",
    )
