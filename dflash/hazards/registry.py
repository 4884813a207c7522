"""The table of probes: name, title, what it means for multi-threaded training, and what a crash means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config import ConfigError
from . import flags, limit, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from .forced import Finding


@dataclass(frozen=True)
class Probe:
    """One hazard.

    Attributes:
        name: the frozen identifier used in files and on command lines.
        title: what is looked at.
        meaning: one sentence on what a leak means for multi-threaded training.
        run: the probe; runs once in a process of its own.
        crash_is_the_hazard: whether a death of that process by a signal is the hazard itself.
        long: whether it takes many seconds, so that it is begun first and the short ones run beside it.
    """

    name: str
    title: str
    meaning: str
    run: Callable[[], Finding]
    crash_is_the_hazard: bool = False
    long: bool = False


PROBES: tuple[Probe, ...] = (
    Probe(
        name="fx_flag_trace",
        title="FX flag seen from another thread during fx.symbolic_trace",
        meaning="a compiled call in one drafter thread crashes while another thread traces outside the compiler",
        run=flags.fx_flag_trace,
    ),
    Probe(
        name="fx_flag_make_fx",
        title="FX flag seen from another thread during make_fx",
        meaning="a compiled call in one drafter thread crashes while another thread runs make_fx",
        run=flags.fx_flag_make_fx,
    ),
    Probe(
        name="fx_flag_flex",
        title="FX flag seen from another thread during eager flex attention with gradients",
        meaning="one thread in dense fallback traces on every forward and keeps crashing the others",
        run=flags.fx_flag_flex,
    ),
    Probe(
        name="fx_flag_compile",
        title="FX flag seen from another thread during a real AOT compilation",
        meaning="a compiled call in one drafter thread crashes while another thread compiles: the incident",
        run=flags.fx_flag_compile,
    ),
    Probe(
        name="fx_flag_stuck",
        title="FX flag left set for good by overlapping traces",
        meaning="after one unlucky overlap every compiled call in every thread crashes until the process ends",
        run=flags.fx_flag_stuck,
    ),
    Probe(
        name="mask_flag",
        title="create_block_mask leaves the FX flag set, alone or beside another thread's trace",
        meaning="every compiled call after a rebuilt mask crashes, in any thread",
        run=flags.mask_flag,
    ),
    Probe(
        name="is_compiling_leak",
        title="torch.compiler.is_compiling() seen from another thread during a compilation",
        meaning="eager code that asks is_compiling() silently takes its other branch, and the FX check is masked",
        run=state.is_compiling_leak,
    ),
    Probe(
        name="config_thread_local",
        title="Dynamo configuration set in the main thread is not seen in a worker thread",
        meaning="recompile_limit and every other setting must be made in each thread, or it is silently the default",
        run=state.config_thread_local,
    ),
    Probe(
        name="config_patch_leak",
        title="a temporary Dynamo configuration of one thread is seen by another one",
        meaning="a config.patch around one thread's compilation changes what the others compile",
        run=state.config_patch_leak,
    ),
    Probe(
        name="fx_patcher",
        title="overlapping FX traces lose the patcher (CURRENT_PATCHER is None)",
        meaning="a thread that traces outside the compile lock crashes, or leaves module calls patched",
        run=state.fx_patcher,
    ),
    Probe(
        name="recompile_limit",
        title="recompile limit reached by devices x masks x grad modes",
        meaning="calls beyond the limit run dense attention without an error: slow, or out of memory",
        run=limit.recompile_limit,
        long=True,
    ),
    Probe(
        name="mask_metadata",
        title="eager create_block_mask beside a compilation (KeyError: 'custom')",
        meaning="rebuilding a mask eagerly in one drafter thread crashes while another thread compiles",
        run=state.mask_metadata,
    ),
    Probe(
        name="metrics_context",
        title="two backward compilations share one metrics record",
        meaning="the first backward of a drafter thread crashes while another thread compiles its backward",
        run=state.metrics_context,
    ),
    Probe(
        name="cudagraph_thread",
        title="CUDA graph trees used in a thread that did not import them",
        meaning="mode='reduce-overhead' or 'max-autotune' crashes in a drafter thread",
        run=state.cudagraph_thread,
        long=True,
    ),
    Probe(
        name="first_concurrent_compile",
        title="the first compilations of a process begun in several threads at once",
        meaning="the process dies at the start unless the main thread makes one compilation first",
        run=state.first_concurrent_compile,
        crash_is_the_hazard=True,
    ),
)


def select(names: str) -> tuple[Probe, ...]:
    """The probes named in a comma-separated list, in table order; all for an empty list; ConfigError for a stranger."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [probe.name for probe in PROBES]
    for name in wanted:
        if name not in known:
            raise ConfigError(f"no probe is named {name!r}", hint=f"choose of {', '.join(known)}")
    return tuple(probe for probe in PROBES if not wanted or probe.name in wanted)
