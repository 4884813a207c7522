"""Oracle 2: flex attention against dense attention, forward and gradients; and the counting at the compile site."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.flex_attention import sdpa_dense

from dflash import compat, cpu_kernel
from dflash.attention import DenseAttention, FlexAttention
from dflash.masks import full_mask, sliding_mask

# Nine releases of torch warn of nine things while they trace; what they warn of is not tested here.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

CONTEXT, BLOCK, ANCHORS = 150, 8, (3, 40, 90, 141)


def _flex(**options):
    torch._dynamo.reset()
    return FlexAttention(device_type="cpu", backend="aot_eager", dynamic=None, **options)


class WrittenOut(DenseAttention):
    """Masked softmax attention in float64, one head group at a time."""

    def __call__(self, q, k, v, mask):
        heads = []
        for h in range(q.shape[1]):
            key, value = (x[:, h * x.shape[1] // q.shape[1]].double() for x in (k, v))
            scores = q[:, h].double() @ key.transpose(1, 2) / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~mask[:, 0], float("-inf")).softmax(-1).nan_to_num()
            heads.append(weights.masked_fill(~mask[:, 0], 0.0) @ value)
        return torch.stack(heads, dim=1).to(q.dtype)


def _mod(kind):
    anchors_BN, keep_BN = torch.tensor([ANCHORS]), torch.tensor([[True, True, False, True]])
    if kind == "full":
        return full_mask(anchors_BN, keep_BN, context=CONTEXT, block=BLOCK)
    return sliding_mask(anchors_BN, keep_BN, context=CONTEXT, block=BLOCK, window=20)


def _run(attend, kind, dtype):
    generator = torch.Generator().manual_seed(1)
    queries = len(ANCHORS) * BLOCK
    shapes = [(1, 4, queries, 16), *[(1, 2, CONTEXT + queries, 16)] * 2]
    inputs = [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]
    made = attend.mask(_mod(kind), batch=1, queries=queries, keys=CONTEXT + queries, device=torch.device("cpu"))
    out = attend(*inputs, made)
    out.backward(torch.randn(out.shape, generator=generator).to(dtype))
    return [out.detach().float(), *(x.grad.float() for x in inputs)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("kind", ["full", "sliding"])
@pytest.mark.parametrize("site", ["compiled", "eager", "dense"])
def test_attention_is_the_softmax_written_out_forward_and_backward(site, kind, dtype, tolerance):
    """The benchmark would train on something else than the published attention."""
    attend = DenseAttention() if site == "dense" else _flex(compiled=site == "compiled")
    found, expected = _run(attend, kind, dtype), _run(WrittenOut(), kind, dtype)

    for name, mine, other in zip(("out", "dq", "dk", "dv"), found, expected, strict=True):
        assert torch.allclose(mine, other, atol=tolerance, rtol=tolerance), name


def test_the_cpu_kernel_returns_what_torchs_own_returns():
    """Compiled graphs would get results of another number, shape or unit than the operator promises."""
    generator, queries = torch.Generator().manual_seed(2), len(ANCHORS) * BLOCK
    shapes = [(1, 4, queries, 16), *[(1, 2, CONTEXT + queries, 16)] * 2]
    q, k, v = (torch.randn(s, generator=generator) for s in shapes)
    sizes = {"batch": 1, "queries": queries, "keys": CONTEXT + queries, "device": torch.device("cpu")}
    block_mask = _flex().mask(_mod("full"), **sizes).as_tuple()
    theirs = sdpa_dense(q, k, v, compat.identity_score, block_mask, 0.25, {})
    ours = cpu_kernel._forward(q, k, v, compat.identity_score, block_mask, 0.25, {})
    kept = torch.tensor([True, True, False, True]).repeat_interleave(BLOCK)

    assert [x.shape for x in ours] == [x.shape for x in theirs]
    assert torch.allclose(ours[0], theirs[0], atol=1e-5)
    assert torch.allclose(ours[1][:, :, kept], theirs[1][:, :, kept], atol=1e-5)


def test_a_block_that_is_not_kept_reads_nothing():
    """An empty anchor slot would put noise, or NaN, into the step."""
    out, dq, _, _ = _run(_flex(), "full", torch.float32)
    dropped = slice(2 * BLOCK, 3 * BLOCK)

    assert not out[:, :, dropped].any()
    assert not dq[:, :, dropped].any()


def test_a_compiled_call_is_not_counted_as_dense_and_its_graphs_are():
    """The report would call a healthy run degraded, or a degraded one healthy."""
    dense, graphs = [], []

    def count(backend):
        return lambda graph, inputs: (graphs.append(1), backend(graph, inputs))[1]

    attend = _flex(on_dense=dense.append, count_compiles=count)
    _run(attend, "full", torch.float32)
    _run(attend, "full", torch.float32)

    assert (dense, len(graphs)) == ([], 1)


def test_a_call_without_compilation_is_counted_with_the_bytes_of_its_scores():
    """Dense fallback, the cause of the fourfold slowdown, would go unseen."""
    dense = []
    _run(_flex(compiled=False, on_dense=dense.append), "full", torch.float32)
    queries = len(ANCHORS) * BLOCK

    assert dense == [4 * 4 * queries * (CONTEXT + queries)]


def test_a_call_past_the_recompile_limit_is_counted_as_dense():
    """Dynamo gives up without an exception; nothing else would tell."""
    dense = []
    attend = _flex(on_dense=dense.append)
    before = compat.recompile_limit()
    compat.set_recompile_limit(1)
    try:
        for kind in ("full", "sliding"):
            _run(attend, kind, torch.float32)
    finally:
        compat.set_recompile_limit(before)

    assert len(dense) == 1


def test_each_call_is_announced_before_it_is_made():
    """A workaround that clears the flag before each compiled call would have no place to stand."""
    calls = []
    _run(_flex(before_call=lambda: calls.append(1)), "full", torch.float32)

    assert calls == [1]


def test_the_compiled_mask_builder_builds_the_same_mask():
    """The switch compile_masks would change what is computed, not only how."""
    sizes = {"batch": 1, "queries": 32, "keys": CONTEXT + 32, "device": torch.device("cpu")}
    plain = _flex().mask(_mod("full"), **sizes)
    compiled = _flex(compile_masks=True).mask(_mod("full"), **sizes)

    assert torch.equal(plain.to_dense(), compiled.to_dense())
