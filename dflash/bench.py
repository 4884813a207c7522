"""`python -m dflash.bench --output FILE`: the drafter's step against the same mathematics in plain dense attention.

Both replicas start from the same weights and see the same batches, interleaved so that a noisy machine disturbs both;
what is compared is processor time of one thread, not the time on the wall. A figure for people: printed as a
ratio, asserted nowhere. Warm-up, where flex attention compiles, is not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import compat
from .attention import DenseAttention, FlexAttention
from .config import override
from .data import Batch, make_sample, sample_anchors
from .model import make_drafter, make_target
from .profiles import SMOKE
from .replicas import MasterAdamW
from .result import write_atomically
from .step import Replica, drafter_step
from .threads import Worker
from .workarounds import make

if TYPE_CHECKING:
    from .attention import Attention
    from .config import TrainConfig

TARGET_RATIO = 1.2


class Lane:
    """One replica with one way to attend, stepped in the calling thread."""

    def __init__(self, config: TrainConfig, attend: Attention) -> None:
        self._config, self._attend, self._none = config, attend, make("none")
        self._target = make_target(config, "cpu")
        drafter = make_drafter(config, self._target, "cpu")
        optimizer = MasterAdamW(drafter.parameters(), config, num_steps=config.steps)
        self._replica = Replica(index=0, drafter=drafter, optimizer=optimizer)
        self._worker = Worker(name="main", role="drafter", device="cpu", body=lambda _worker: None)

    def step(self, number: int) -> tuple[float, float]:
        """Processor seconds and loss of one step: masks, forward, backward, optimizer."""
        sample = make_sample(self._config, drafter=0, step=number)
        with torch.no_grad():
            batch = Batch(sample=sample, features_BSF=self._target(sample.tokens_BS)[1])
        anchors_BN, keep_BN = sample_anchors(self._config, sample, drafter=0, step=number)
        started = time.process_time()
        report = drafter_step(
            self._worker, self._replica, self._attend, batch, anchors_BN, keep_BN, workaround=self._none
        )
        self._replica.optimizer.step()
        return time.process_time() - started, report.loss.item()


def compare(config: TrainConfig, *, steps: int) -> dict[str, Any]:
    """Median step times of both, their ratio, and the largest difference between their losses."""
    compat.set_recompile_limit(config.recompile_limit)
    flex = Lane(config, FlexAttention(device_type="cpu", backend=config.backend, dynamic=None))
    dense = Lane(config, DenseAttention())
    for number in range(steps):  # the same lengths as below: everything that compiles does it here
        flex.step(number)
        dense.step(number)
    timed = [(flex.step(number), dense.step(number)) for number in range(steps)]
    flex_s, dense_s = (statistics.median(pair[side][0] for pair in timed) for side in (0, 1))
    return {
        "schema": 1,
        "kind": "step-speed",
        "torch": torch.__version__,
        "steps": steps,
        "flex_step_s": flex_s,
        "dense_step_s": dense_s,
        "ratio": flex_s / dense_s,
        "target_ratio": TARGET_RATIO,
        "max_loss_difference": max(abs(pair[0][1] - pair[1][1]) for pair in timed),
    }


def main(argv: list[str]) -> int:
    """Print one line for people, write the figures to FILE."""
    parser = argparse.ArgumentParser(prog="python -m dflash.bench", description="Step speed against dense attention.")
    parser.add_argument("--output", type=Path, metavar="FILE")
    parser.add_argument("--steps", type=int, default=20, metavar="N")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    found = compare(override(SMOKE, ["average_every=1", f"steps={args.steps}"]), steps=args.steps)
    sys.stdout.write(
        f"drafter step on torch {found['torch']}: flex {found['flex_step_s'] * 1e3:.1f} ms, dense "
        f"{found['dense_step_s'] * 1e3:.1f} ms, ratio {found['ratio']:.2f} (to reach: {TARGET_RATIO})\n"
    )
    if args.output:
        write_atomically(args.output, json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
