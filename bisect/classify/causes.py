"""Which of several findings is the root: what each outcome brings about, and what only wraps, follows or remarks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import OutcomeName
from ..signatures import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..logs.findings import Finding

LEADS_TO: dict[OutcomeName, frozenset[OutcomeName]] = {
    OutcomeName.WRONG_BUILD: frozenset(OutcomeName) - {OutcomeName.WRONG_BUILD},
    OutcomeName.ENV_NOT_ISOLATED: frozenset(
        {OutcomeName.IMPORT_BROKEN, OutcomeName.INCONSISTENT_ENV, OutcomeName.WRONG_BUILD, OutcomeName.LIBRARY_MIX}
    ),
    OutcomeName.HARDWARE_FAULT: frozenset(
        {OutcomeName.CUDA_ERROR, OutcomeName.NO_GPU, OutcomeName.HANG, OutcomeName.SEGFAULT, OutcomeName.ABORT}
    ),
    OutcomeName.DRIVER_TOO_OLD: frozenset({OutcomeName.NO_GPU, OutcomeName.CUDA_ERROR}),
    OutcomeName.ARCH_UNSUPPORTED: frozenset({OutcomeName.CUDA_ERROR}),
    OutcomeName.COMPILE_DISABLED: frozenset(
        {OutcomeName.DENSE_FALLBACK, OutcomeName.NOTHING_COMPILED, OutcomeName.OUT_OF_MEMORY, OutcomeName.NAN_LOSS}
    ),
    OutcomeName.RECOMPILE_LIMIT: frozenset({OutcomeName.DENSE_FALLBACK, OutcomeName.OUT_OF_MEMORY, OutcomeName.HANG}),
    OutcomeName.DENSE_FALLBACK: frozenset({OutcomeName.OUT_OF_MEMORY, OutcomeName.HANG}),
    OutcomeName.DISK_FULL: frozenset(
        {OutcomeName.DOWNLOAD_FAILED, OutcomeName.BUILD_FAILED, OutcomeName.IMPORT_BROKEN, OutcomeName.COMPILE_ERROR}
    ),
    OutcomeName.DOWNLOAD_FAILED: frozenset(
        {OutcomeName.NOT_PUBLISHED, OutcomeName.RESOLUTION_CONFLICT, OutcomeName.BUILD_FAILED}
    ),
    OutcomeName.TOOL_TOO_OLD: frozenset({OutcomeName.BUILD_FAILED, OutcomeName.RESOLUTION_CONFLICT}),
    OutcomeName.LIBRARY_MIX: frozenset({OutcomeName.CUDA_ERROR}),
    OutcomeName.NAN_LOSS: frozenset(),
}
"""What each outcome brings about when both are seen: the first is then the root, whatever stands first in the log."""


_SEEN_BY_OTHERS = frozenset({OutcomeName.SEGFAULT, OutcomeName.OUT_OF_MEMORY})
"""Deaths of one rank that the others then see as a lost connection or a collective that never ends."""


def root_first(findings: Sequence[Finding]) -> list[Finding]:
    """Failures by role and position, then notices, then remarks; with the root cause brought to the front.

    What only wraps another error (role WRAPPER) is no root of one that explains itself; a notice or a remark is.
    """
    ordered = sorted(findings, key=lambda finding: (finding.role, finding.position))
    while ordered and ordered[0].role is not Role.REMARK:
        first = ordered[0]
        root = next((finding for finding in ordered[1:] if _brings_about(finding, first)), None)
        if root is None:
            break
        ordered.remove(root)
        ordered.insert(0, replace(root, role=min(root.role, first.role)))
    return ordered


def _brings_about(root: Finding, first: Finding) -> bool:
    if first.outcome.name is OutcomeName.UNKNOWN and root.role is Role.NOTICE:
        return True
    if first.role is Role.SYMPTOM and root.role is Role.ENDING and root.position < first.position:
        return root.outcome.name in _SEEN_BY_OTHERS
    able = root.role <= first.role or root.role >= Role.NOTICE
    return able and first.outcome.name in LEADS_TO.get(root.outcome.name, frozenset())
