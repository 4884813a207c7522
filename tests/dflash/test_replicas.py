"""Oracle 9, and that replicas never hang each other."""

from __future__ import annotations

import threading

import pytest
import torch

from dflash.config import override
from dflash.profiles import SMOKE
from dflash.replicas import Averager, MasterAdamW, learning_rate, mean_in_place

from .reference import Toy

pytestmark = pytest.mark.torch


def test_after_averaging_all_replicas_hold_the_mean():
    """Replicas would drift apart although they are said to agree."""
    replicas = [[torch.full((3,), float(i)), torch.full((2, 2), 10.0 * i)] for i in (1, 2, 6)]
    mean_in_place(replicas)

    for tensors in replicas:
        assert [t.unique().item() for t in tensors] == [3.0, 30.0]


def test_the_mean_of_the_replicas_gradients_is_the_gradient_of_the_big_batch():
    """Training on three GPUs would not be training on a batch three times as large."""
    toy = Toy(batch=2)
    parameters = list(toy.drafter.parameters())

    def gradients(rows):
        hidden = toy.hidden(tokens=toy.tokens_BS[rows], features=toy.features_BSF[rows], anchors=toy.anchors_BN[rows])
        return list(torch.autograd.grad(hidden.square().mean(), parameters))

    one, two = gradients(slice(0, 1)), gradients(slice(1, 2))
    mean_in_place([one, two])

    for mean, big in zip(one, gradients(slice(0, 2)), strict=True):
        assert torch.allclose(mean, big, atol=1e-5)


def _meet(averager, name, value, found):
    tensor = torch.tensor([float(value)])
    averager.average(name, [tensor])
    found[name] = tensor.item()


def _start(averager, values):
    found, threads = {}, []
    for name, value in values.items():
        threads.append(threading.Thread(target=_meet, args=(averager, name, value, found)))
        threads[-1].start()
    return found, threads


def test_three_threads_leave_with_the_same_mean():
    """The barrier would let a thread go with its own gradients."""
    averager = Averager(["a", "b", "c"])
    found, threads = _start(averager, {"a": 1, "b": 2, "c": 6})
    for thread in threads:
        thread.join(5)

    assert found == {"a": 3.0, "b": 3.0, "c": 3.0}
    assert averager.group_sizes == [3]


def test_a_replica_that_dies_does_not_hang_the_others():
    """One race in one thread would end as a hang instead of an error."""
    averager = Averager(["a", "b", "c"])
    found, threads = _start(averager, {"a": 1, "b": 3})
    threads[0].join(0.2)
    assert threads[0].is_alive()
    averager.leave("c")
    for thread in threads:
        thread.join(5)

    assert found == {"a": 2.0, "b": 2.0}
    assert averager.group_sizes == [2]


def test_master_weights_take_steps_too_small_for_bfloat16():
    """Late in training, updates below the rounding of bf16 would all be lost."""
    config = override(SMOKE, ["learning_rate=1e-5", "average_every=1", "grad_clip=1e9"])
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = MasterAdamW([parameter], config, num_steps=2000)
    for _ in range(300):
        parameter.grad = torch.ones_like(parameter)
        optimizer.collect()
        optimizer.step()

    assert parameter.grad is None
    assert optimizer.masters[0].mean().item() == pytest.approx(1 - 300 * 1e-5, abs=6e-4)
    assert parameter.mean().item() == pytest.approx(optimizer.masters[0].mean().item(), abs=4e-3)
    assert parameter.mean().item() < 1.0


def test_gradients_between_two_meetings_are_averaged_too():
    """Meeting every fifth step would mean steps five times as long."""
    config = override(SMOKE, ["average_every=2"])
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = MasterAdamW([parameter], config, num_steps=1)
    for value in (1.0, 3.0):
        parameter.grad = torch.full((2,), value)
        optimizer.collect()

    assert optimizer.gradients()[0].tolist() == [2.0, 2.0]


def test_the_learning_rate_warms_up_and_falls_along_a_cosine():
    """A step of full size at the start, or never reaching the end."""
    config = override(SMOKE, ["learning_rate=1.0", "warmup_ratio=0.1"])
    rates = [learning_rate(config, step, 100) for step in range(100)]

    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[55] == pytest.approx(0.5)
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert rates[-1] < 1e-3
