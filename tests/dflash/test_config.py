"""The numbers of a run: overriding, refusing, and what a profile needs of a machine."""

from __future__ import annotations

import dataclasses

import pytest

from dflash.config import ConfigError, override, spread_layers, validated
from dflash.profiles import GPU1, NODE8, NODE8_27B, PROFILES, SMOKE, choose_profile
from dflash.sizes import GIB, Machine, dense_score_bytes, missing

H200 = 141 * 10**9


def test_every_value_can_be_set_from_text():
    """A value could be changed in a definition file only."""
    for field in dataclasses.fields(SMOKE):
        value = getattr(SMOKE, field.name)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        assert getattr(override(SMOKE, [f"{field.name}={text}"]), field.name) == value


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("stepz=3", "stepz"),
        ("steps", "steps"),
        ("steps=three", "three"),
        ("checkpoint=perhaps", "perhaps"),
        ("dynamic=maybe", "maybe"),
        ("steps=0", "steps"),
        ("num_layers=2", "layer_types has 4"),
        ("layer_types=full,full,full,round", "round"),
        ("num_kv_heads=3", "num_kv_heads 3"),
        ("head_dim=15", "15"),
        ("min_context=300", "300"),
        ("min_context=9", "two blocks"),
        ("target_num_layers=2", "2"),
        ("warmup_steps=40", "leaves no step"),
        ("drafter_devices=", "empty"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(assignment, named):
    """A typing error would train something else, or end in a stack trace minutes later."""
    with pytest.raises(ConfigError, match=named) as caught:
        override(SMOKE, [assignment])

    assert caught.value.hint


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_keeps_its_own_rules(profile):
    """A shipped profile would be refused by its own check."""
    assert validated(PROFILES[profile]) == PROFILES[profile]


def test_auto_takes_the_largest_profile_whose_gpus_are_here():
    """A machine would be asked for GPUs it lacks, or eight GPUs would idle."""
    chosen = [choose_profile("auto", Machine(gpu_memory=(H200,) * n)) for n in (0, 1, 7, 8)]

    assert chosen == ["smoke", "gpu1", "gpu1", "node8"]
    with pytest.raises(ConfigError, match="large"):
        choose_profile("large", Machine())


def test_profiles_fit_the_machines_they_are_for():
    """The incident's own topology would be refused on the incident's machine."""
    node = Machine(gpu_memory=(H200,) * 8)

    assert missing(SMOKE, Machine()) == ()
    assert missing(GPU1, Machine(gpu_memory=(24 * GIB,))) == ()
    assert missing(NODE8, node) == ()
    assert missing(NODE8_27B, node) == ()


def test_what_is_missing_is_named_and_nothing_shrinks():
    """A profile would silently run as something smaller."""
    assert missing(GPU1, Machine()) == ("cuda:0 is not there: 0 GPU(s) visible",)
    lacking = missing(NODE8, Machine(gpu_memory=(H200,) * 4))
    assert [text.split()[0] for text in lacking] == [f"cuda:{i}" for i in range(4, 8)]
    (small,) = {text.partition(" has ")[2] for text in missing(NODE8_27B, Machine(gpu_memory=(24 * GIB,) * 8))[-3:]}
    assert small.startswith("24.0 GiB, about ")
    assert "no device this benchmark knows" in missing(override(SMOKE, ["drafter_devices=tpu"]), Machine())[0]


def test_dense_attention_is_refused_before_it_is_tried_where_its_scores_do_not_fit():
    """TORCH_COMPILE_DISABLE=1 would look like a way out until the GPU is full."""
    gpu = Machine(gpu_memory=(48 * GIB,) * 8)

    assert dense_score_bytes(NODE8, 3072) == 8192 * (3072 + 8192) * 32 * 4
    assert missing(NODE8, gpu) == ()
    assert missing(NODE8, gpu, force="dense")
    assert missing(SMOKE, Machine(), force="dense") == ()


def test_feature_layers_are_those_of_the_published_drafters():
    """The drafter would read other layers than the ones it was designed for."""
    assert [spread_layers(n, 5) for n in (36, 64, 40)] == [
        (1, 9, 17, 25, 33),
        (1, 16, 31, 46, 61),
        (1, 10, 19, 28, 37),
    ]
    assert spread_layers(7, 1) == (3,)
