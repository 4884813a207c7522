"""`python -m dflash.hazards --output FILE [--only NAME,...]`: probe the torch of this environment.

Exit code 0 when every probe was run, whatever it answered; 2 for a name that is no probe.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import ConfigError, TrainConfig

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from .isolate import Finished
    from .registry import Probe


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dflash.hazards",
        description="Show each thread-safety hole of this torch by a forced interleaving.",
        epilog="example: python -m dflash.hazards --output hazards.json --only fx_flag_trace,fx_flag_compile",
    )
    parser.add_argument("--output", type=Path, required=True, help="the result file (JSON, schema 1)")
    parser.add_argument("--only", default="", metavar="NAME,...", help="these probes only")
    parser.add_argument("--workaround", default="none", metavar="NAME", help="probe under a change of the process")
    return parser.parse_args(argv)


def settle_environment(environ: MutableMapping[str, str]) -> None:
    """Before torch is imported: no thread pools in this process, which will fork, and no stray settings."""
    environ["OMP_NUM_THREADS"] = environ["OPENBLAS_NUM_THREADS"] = "1"
    environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        environ.pop(name, None)


def describe_environment() -> dict[str, str]:
    import torch

    return {
        "torch": torch.__version__,
        "git_version": torch.version.git_version or "",
        "cuda": torch.version.cuda or "",
        "python": platform.python_version(),
    }


def entry(finished: Finished) -> dict[str, object]:
    return {
        "name": finished.probe.name,
        "title": finished.probe.title,
        "answer": finished.finding.answer.value,
        "evidence": list(finished.finding.evidence),
        "meaning": finished.probe.meaning,
        "seconds": round(finished.seconds, 3),
    }


def write(path: Path, result: dict[str, object]) -> None:
    """Replace the file in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def under(text: str) -> Callable[[], None]:
    """What applies the workaround in a probe's process; ConfigError when it cannot be judged by the probes."""
    from ..workarounds import make

    workaround = make(text)
    if refusal := workaround.refusal(TrainConfig()):
        raise ConfigError(f"workaround {text} cannot be used: {refusal}", hint="choose another one")
    if text != "none" and not workaround.changes_process:
        raise ConfigError(f"workaround {text} acts on a run, not on the process", hint="probe without it")
    return workaround.prepare


def probe_all(
    probes: Sequence[Probe], output: Path, started: float, *, workaround: str, prepare: Callable[[], None]
) -> None:
    """Run the probes; the file is whole, in the table's order, after each of them."""
    from .isolate import run_isolated

    order = {probe.name: number for number, probe in enumerate(probes)}
    done: list[Finished] = []
    num_cpus = len(os.sched_getaffinity(0))
    for finished in run_isolated(probes, num_at_once=min(4, num_cpus), prepare=prepare):
        done.append(finished)
        done.sort(key=lambda each: order[each.probe.name])
        answer = finished.finding.answer.value
        sys.stderr.write(f"{finished.probe.name:26} {answer:15} {finished.seconds:5.1f} s\n")
        write(
            output,
            {
                "schema": 1,
                "kind": "hazards",
                "finished": len(done) == len(probes),
                "wall_s": round(time.monotonic() - started, 3),
                "environment": describe_environment(),
                "workaround": workaround,
                "hazards": [entry(each) for each in done],
            },
        )


def main(argv: Sequence[str]) -> int:
    started = time.monotonic()
    arguments = parse(argv)
    settle_environment(os.environ)
    from .registry import select

    try:
        probes = select(arguments.only)
        import_for_all_probes()
        prepare = under(arguments.workaround)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return 2
    probe_all(probes, arguments.output, started, workaround=arguments.workaround, prepare=prepare)
    return 0


def import_for_all_probes() -> None:
    """What every probe needs, once, before the fork: imports only, no compilation."""
    import torch._dynamo
    import torch._dynamo.backends.common
    import torch._functorch.aot_autograd
    import torch.fx.experimental.proxy_tensor
    import torch.nested._internal.nested_tensor  # every first fake tensor mode imports it, for 1 s
    import torch.nn.attention.flex_attention  # noqa: F401


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
