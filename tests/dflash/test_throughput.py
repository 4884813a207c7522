"""Speed from the workers' records: what is steady, and how threads add up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dflash.throughput import measure


def _worker(times, compiles, tokens=100, anchors=4):
    count = len(times)
    return SimpleNamespace(
        step_times_s=times, step_tokens=[tokens] * count, step_anchors=[anchors] * count, step_compiles=compiles
    )


def _measure(*workers, warmup=1):
    return measure(workers, warmup_steps=warmup, block_size=8, batch_size=1, compile_s=5.0)


def test_warm_up_and_steps_with_a_compilation_do_not_count():
    """Compile time would be taken for training speed."""
    found = _measure(_worker([9.0, 0.5, 4.0, 0.5], [4, 0, 2, 0]))

    assert (found.steady_steps, found.steady_tokens, found.steady_s) == (2, 200, 1.0)
    assert (found.ktok_s, found.steps_s, found.block_tokens_s) == (0.2, 2.0, 64.0)
    assert (found.warmup_s, found.compile_s, found.steady_includes_compiles) == (9.0, 5.0, False)
    assert (found.mean_context, found.anchors_per_token) == (100.0, 0.04)


def test_threads_add_up_even_when_one_died_early():
    """A dead thread would drag the rate of the living down, or be counted as if it had gone on."""
    alive, dead = _worker([1.0, 0.5, 0.5], [0, 0, 0]), _worker([1.0, 0.25], [0, 0])
    found = _measure(alive, dead)

    assert found.ktok_s == pytest.approx(0.2 + 0.4)
    assert found.steady_s * found.ktok_s * 1000 == pytest.approx(found.steady_tokens)


def test_a_run_that_always_compiles_says_so():
    """Short runs would show no speed at all, or a speed that hides its compilations."""
    found = _measure(_worker([1.0, 2.0], [1, 1]))

    assert (found.steady_steps, found.steady_includes_compiles) == (1, True)


def test_nothing_measured_is_zero_tokens():
    """A run that died in its first step would divide by zero."""
    found = _measure(_worker([], []), _worker([1.0], [1]))

    assert (found.steady_tokens, found.ktok_s, found.steady_includes_compiles) == (0, 0.0, False)
