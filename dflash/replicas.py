"""The optimizer of a replica, and how replicas agree: fp32 master weights, averaged gradients.

`Averager` is the only place where drafter threads wait for each other. A replica that dies leaves, and the others
average without it: a dead thread must never hang a living one.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from .config import TrainConfig


def learning_rate(config: TrainConfig, step: int, total: int) -> float:
    """Cosine to zero after a linear warm-up; `step` counts optimizer steps from 0."""
    warmup = max(1, math.ceil(config.warmup_ratio * total))
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


class MasterAdamW:
    """AdamW on fp32 copies of the parameters; gradients of several backward passes are summed in fp32."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], config: TrainConfig, *, num_steps: int) -> None:
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float().clone() for parameter in self.parameters]
        self._config, self._num_steps, self.steps_done = config, num_steps, 0
        self._optimizer = torch.optim.AdamW(self.masters, lr=config.learning_rate, weight_decay=config.weight_decay)

    def collect(self) -> None:
        """Move the parameters' gradients into the masters, as this step's share of the mean over a round."""
        share = 1.0 / max(1, self._config.average_every)
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                gradient = parameter.grad.float() * share
                master.grad = gradient if master.grad is None else master.grad.add_(gradient)
            parameter.grad = None

    def discard(self) -> None:
        """Forget the collected gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def gradients(self) -> list[Tensor]:
        """The collected gradients, zero where a parameter had none."""
        for master in self.masters:
            if master.grad is None:
                master.grad = torch.zeros_like(master)
        return [master.grad for master in self.masters if master.grad is not None]

    def step(self) -> None:
        """Clip, step, and write the new weights back in the parameters' own type."""
        torch.nn.utils.clip_grad_norm_(self.masters, self._config.grad_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._config, self.steps_done, self._num_steps)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.steps_done += 1
        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                parameter.copy_(master)


class Averager:
    """A meeting of the living replicas, each bringing gradients and leaving with their mean.

    `_meeting` guards everything. The last to arrive computes the mean, summing in the order of the names so that
    the result does not depend on timing. Waiters hold no other lock.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._meeting = threading.Condition()
        self._living = set(names)
        self._brought: dict[str, Sequence[Tensor]] = {}
        self._round = 0
        self.group_sizes: list[int] = []

    def leave(self, name: str) -> None:
        """Stop counting on `name`; may complete the round the others are waiting in."""
        with self._meeting:
            self._living.discard(name)
            self._brought.pop(name, None)
            self._close_if_complete()

    def average(self, name: str, gradients: Sequence[Tensor]) -> None:
        """Wait for all living replicas, then hold the mean of what they brought (in place)."""
        _synchronise(gradients)
        with self._meeting:
            mine = self._round
            self._brought[name] = gradients
            self._close_if_complete()
            self._meeting.wait_for(lambda: self._round != mine)

    def _close_if_complete(self) -> None:
        if not self._brought or self._living - self._brought.keys():
            return
        mean_in_place([self._brought[name] for name in sorted(self._brought)])
        self.group_sizes.append(len(self._brought))
        self._brought = {}
        self._round += 1
        self._meeting.notify_all()


def mean_in_place(replicas: Sequence[Sequence[Tensor]]) -> None:
    """Make every replica's tensors their mean, across devices."""
    for tensors in zip(*replicas, strict=True):
        total = tensors[0].clone()
        for tensor in tensors[1:]:
            total += tensor.to(total.device)
        total /= len(tensors)
        for tensor in tensors:
            tensor.copy_(total)
    for tensors in replicas:
        _synchronise(tensors)


def _synchronise(tensors: Sequence[Tensor]) -> None:
    """Finish the device's queued work, so that another thread (and its stream) may touch the tensors."""
    if tensors and tensors[0].device.type == "cuda":
        torch.cuda.synchronize(tensors[0].device)
