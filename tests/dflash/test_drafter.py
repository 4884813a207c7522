"""Oracles 3 to 6 and 10: the drafter's own mathematics."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from dflash.attention import CausalAttention, DenseAttention, FlexAttention
from dflash.model import Drafter, Layer, Target, initialise, rotary
from dflash.profiles import NODE8, NODE8_27B
from dflash.sizes import drafter_parameters, target_parameters

from .reference import TINY, Toy

# Nine releases of torch warn of nine things while they trace; what they warn of is not tested here.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

NAMES = {
    "input_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    **{name: f"self_attn.{name}" for name in ("q_norm", "k_norm", "q_proj", "k_proj", "v_proj", "o_proj")},
    **{name: f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")},
}


def test_a_layer_without_context_is_the_layer_of_qwen3():
    """A wrong norm, rotation or head grouping would make another model of the same size."""
    modeling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3", reason="transformers is not here")
    theirs_config = modeling.Qwen3Config(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        num_hidden_layers=1, vocab_size=40, rms_norm_eps=1e-6, rope_theta=1e6, attn_implementation="eager",
    )  # fmt: skip
    theirs, ours = modeling.Qwen3DecoderLayer(theirs_config, 0), Layer(TINY)
    initialise(ours, seed=3, scale=0.3)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=torch.Generator().manual_seed(4)) * 0.1)
    renamed = {f"{NAMES[key.rsplit('.', 1)[0]]}.weight": value for key, value in ours.state_dict().items()}
    theirs.load_state_dict(renamed)
    x_BSM = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(5))
    position_BS = torch.arange(11).expand(2, -1)
    causal = torch.full((11, 11), float("-inf")).triu(1)[None, None]
    angles = modeling.Qwen3RotaryEmbedding(theirs_config)(x_BSM, position_BS)
    with torch.no_grad():
        expected = theirs(x_BSM, attention_mask=causal, position_ids=position_BS, position_embeddings=angles)
        cos, sin = rotary(position_BS, 8, 1e6, torch.float32)
        found = ours(x_BSM, None, cos, sin, CausalAttention(), None)

    expected = expected[0] if isinstance(expected, tuple) else expected
    assert torch.allclose(found, expected, atol=1e-5)


def test_packed_blocks_equal_each_block_alone():
    """Training would optimise something the drafter never does when it drafts one block."""
    toy = Toy()
    packed = toy.hidden()

    for row in range(2):
        for j, anchor in enumerate(toy.anchors_BN[row].tolist()):
            alone = toy.hidden(
                tokens=toy.tokens_BS[row : row + 1],
                features=toy.features_BSF[row : row + 1, :anchor],
                anchors=torch.tensor([[anchor]]),
            )
            assert torch.allclose(alone[0, 0], packed[row, j], atol=1e-5)


@pytest.mark.parametrize("attend", ["dense", "flex"])
def test_nothing_at_or_after_the_anchor_reaches_a_block(attend):
    """The answer would leak into the question: high training accuracy, nothing accepted when decoding."""
    torch._dynamo.reset()
    flex = FlexAttention(device_type="cpu", backend="eager", dynamic=None)
    toy = Toy(attend=DenseAttention() if attend == "dense" else flex)
    with torch.no_grad():
        before = toy.hidden()
        for j, anchor in enumerate(toy.anchors_BN[0].tolist()):
            features, tokens = toy.features_BSF.clone(), toy.tokens_BS.clone()
            features[0, anchor:] += 3.0
            tokens[0, anchor + 1 :] = (tokens[0, anchor + 1 :] + 1) % (toy.config.vocab_size - 1)
            assert torch.equal(toy.hidden(features=features, tokens=tokens)[0, j], before[0, j])
            features[0, anchor - 1] += 3.0
            assert not torch.allclose(toy.hidden(features=features)[0, j], before[0, j])


@pytest.mark.parametrize("attend", ["dense", "flex"])
def test_the_gradient_at_or_after_the_anchor_is_exactly_zero(attend):
    """A leak too small to see in the outputs would still train the drafter to use it."""
    torch._dynamo.reset()
    flex = FlexAttention(device_type="cpu", backend="aot_eager", dynamic=None)
    toy = Toy(attend=DenseAttention() if attend == "dense" else flex, batch=1)
    features = toy.features_BSF.requires_grad_()
    hidden = toy.hidden(features=features)

    for j, anchor in enumerate(toy.anchors_BN[0].tolist()):
        (gradient,) = torch.autograd.grad(hidden[0, j].square().sum(), features, retain_graph=True)
        assert not gradient[0, anchor:].any()
        assert gradient[0, :anchor].abs().sum(-1).all()


def test_one_block_does_not_read_another():
    """Blocks packed side by side would help each other, which they cannot when drafting."""
    toy = Toy()
    with torch.no_grad():
        before = toy.hidden()
        tokens = toy.tokens_BS.clone()
        tokens[0, toy.anchors_BN[0, 1]] = (tokens[0, toy.anchors_BN[0, 1]] + 1) % (toy.config.vocab_size - 1)
        after = toy.hidden(tokens=tokens)

    changed = [j for j in range(toy.config.num_anchors) if not torch.equal(before[0, j], after[0, j])]
    assert changed == [1]


def test_the_order_of_anchors_does_not_matter():
    """Sorting the anchors, done for speed, would change what is learnt."""
    toy = Toy()
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        sorted_first, permuted = toy.hidden(), toy.hidden(anchors=toy.anchors_BN[:, order])

    assert torch.allclose(permuted, sorted_first[:, order], atol=1e-5)


def test_a_dropped_block_leaves_the_others_alone():
    """Empty anchor slots would disturb the real ones."""
    toy = Toy()
    keep = toy.keep_BN.clone()
    keep[:, 2] = False
    with torch.no_grad():
        all_kept, dropped = toy.hidden(), toy.hidden(keep=keep)

    others = [0, 1, 3, 4]
    assert torch.equal(dropped[:, others], all_kept[:, others])
    assert dropped.isfinite().all()


@pytest.mark.parametrize(("config", "expected"), [(NODE8, 1_048_626_432), (NODE8_27B, 1_730_213_120)])
def test_the_number_of_trained_parameters_is_the_published_one(config, expected):
    """The benchmark would train a drafter of another size than it says."""
    with torch.device("meta"):
        tables = torch.empty(config.vocab_size, config.hidden_size)
        drafter = Drafter(config, embed_VM=tables, head_VM=tables)

    assert sum(p.numel() for p in drafter.parameters()) == drafter_parameters(config) == expected


def test_the_target_has_the_size_the_memory_check_assumes():
    """A profile would be refused, or accepted, on a wrong estimate."""
    config = dataclasses.replace(NODE8, target_num_layers=6, num_features=3)
    with torch.device("meta"):
        target = Target(config)

    assert sum(p.numel() for p in target.parameters()) == target_parameters(config)


def test_replicas_start_equal_and_the_target_needs_no_gradient():
    """Averaging would mix unrelated models, or the frozen tables would be trained."""
    first, second = Toy(), Toy()

    assert all(torch.equal(a, b) for a, b in zip(first.drafter.parameters(), second.drafter.parameters(), strict=True))
    assert not any(p.requires_grad for p in first.target.parameters())
    assert not first.drafter.embed_VM.requires_grad
    assert not first.drafter.head_VM.requires_grad
