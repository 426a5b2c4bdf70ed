"""The traps of torch_npu's operators that others have fallen into: what goes wrong without a word is shown not to."""

from __future__ import annotations

import pytest
import torch

from hetero import ops
from hetero.accelerator import device
from hetero.backends.ascend import npu_attention, npu_loss

pytestmark = pytest.mark.emulated("ascend")

DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture
def npu():
    return device("ascend").torch


@pytest.fixture(autouse=True)
def vendors():
    """The vendor's operators, or an error: nothing else takes over."""
    names = (
        "attention",
        "attention_varlen",
        "rms_norm",
        "fused_add_rms_norm",
        "rope",
        "swiglu",
        "cross_entropy",
    )
    with ops.use(";".join(f"{n}=npu" for n in (*names, "adamw", "moe_permute"))):
        yield


def qkv(npu, *shape, dtype=torch.float32, generator):
    return [torch.randn(shape, generator=generator).to(dtype).to(npu) for _ in "qkv"]


# -- attention
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", [(-1, -1), (3, -1)], ids=["causal", "window"])
@pytest.mark.parametrize("tokens", [9, 130])
def test_a_later_token_changes_nothing_before_it(dtype, window, tokens, npu, generator):
    q, k, v = qkv(npu, 2, 2, tokens, 16, dtype=dtype, generator=generator)
    options = {"scale": 0.25, "causal": True, "window_size": window}
    before = ops.attention(q, k, v, **options).cpu()
    at = tokens // 2
    for t in (q, k, v):
        t[:, :, at:] = 7.0
    after = ops.attention(q, k, v, **options).cpu()
    assert torch.equal(before[:, :, :at], after[:, :, :at])
    assert not torch.equal(before[:, :, at:], after[:, :, at:])


def test_another_document_changes_nothing(npu, generator):
    lengths = torch.tensor([0, 4, 9, 11], dtype=torch.int32)
    q, k, v = qkv(npu, 11, 2, 16, generator=generator)
    before = ops.attention_varlen(q, k, v, lengths, scale=0.25, causal=True).cpu()
    for t in (q, k, v):
        t[4:9] = 7.0
    after = ops.attention_varlen(q, k, v, lengths, scale=0.25, causal=True).cpu()
    assert torch.equal(before[:4], after[:4]) and torch.equal(before[9:], after[9:])
    assert not torch.equal(before[4:9], after[4:9])


def test_a_mask_keeps_where_it_is_true(npu, generator):
    q, k, v = qkv(npu, 1, 2, 5, 16, generator=generator)
    keep = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    keep[..., 3:] = False
    shown = ops.attention(q, k, v, scale=0.25, mask=keep.to(npu))
    short = ops.attention(q, k[:, :, :3], v[:, :, :3], scale=0.25)
    torch.testing.assert_close(shown.cpu(), short.cpu())


def test_a_sparse_mode_never_goes_without_its_mask(npu):
    """The vendor ignores the mode then, and everything is seen."""
    for queries, keys in ((4, 4), (3, 7), (7, 3)):
        q, k = torch.zeros(1, queries, 1, 8, device=npu), torch.zeros(1, keys, 1, 8, device=npu)
        for lower_right in (True, False):
            for left, right in ((-1, 0), (2, 0), (2, 1), (-1, 2)):
                plan = npu_attention.hiding(q, k, None, left, right, lower_right)
                assert plan.mask is not None and plan.mask.dtype == torch.bool
                if plan.mode:
                    assert (
                        plan.mask.shape == (2048, 2048)
                        and bool(plan.mask[0, 1])
                        and not bool(plan.mask[1, 0])
                    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_that_are_masked_completely_are_zero_with_no_gradient(dtype, npu, generator):
    q, k, v = (t.requires_grad_() for t in qkv(npu, 2, 2, 4, 16, dtype=dtype, generator=generator))
    keep = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    keep[0, :, 1] = False
    keep[1] = False
    out, lse = ops.attention(q, k, v, scale=0.25, mask=keep.to(npu), return_lse=True)
    out.sum().backward()
    out, lse, *grads = (t.detach().cpu() for t in (out, lse, q.grad, k.grad, v.grad))
    assert not out[1].any() and not out[0, :, 1].any() and out[0, :, 0].any()
    assert torch.isinf(lse[1]).all() and torch.isfinite(lse[0, :, 0]).all()
    assert all(torch.isfinite(g).all() for g in grads)
    assert all(not g[1].any() for g in grads) and not grads[0][0, :, 1].any()


def test_more_queries_than_keys(npu, generator):
    q, k, v = qkv(npu, 1, 2, 6, 16, generator=generator)
    out = ops.attention(q, k[:, :, :2], v[:, :, :2], scale=0.25, causal=True).cpu()
    assert not out[:, :, :4].any() and out[:, :, 4:].any()
    lengths, keys = (torch.tensor(n, dtype=torch.int32) for n in ([0, 6], [0, 2]))
    packed = (q[0].mT.transpose(0, 2).transpose(1, 2), *(t[0, :, :2].transpose(0, 1) for t in (k, v)))
    packed = (q[0].transpose(0, 1), *packed[1:])
    found = ops.attention_varlen(*packed, lengths, keys, scale=0.25, causal=True).cpu()
    torch.testing.assert_close(found.transpose(0, 1)[None], out)


def test_scale_is_never_the_vendors_default_of_one(npu, generator):
    q, k, v = qkv(npu, 1, 1, 3, 16, generator=generator)
    a, b = (ops.attention(q, k, v, scale=s).cpu() for s in (0.25, 1.0))
    assert not torch.allclose(a, b)
    torch.testing.assert_close(a, ops.attention(q * 0.25, k, v, scale=1.0).cpu())


def test_more_documents_than_one_call_takes(npu, generator, monkeypatch):
    monkeypatch.setattr(npu_attention, "_MOST_DOCUMENTS", 2)
    lengths = torch.tensor([0, 2, 3, 3, 7, 11], dtype=torch.int32)
    q, k, v = (t.requires_grad_() for t in qkv(npu, 11, 2, 16, generator=generator))
    out = ops.attention_varlen(q, k, v, lengths, scale=0.25, causal=True)
    out.sum().backward()
    monkeypatch.undo()
    again = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    whole = ops.attention_varlen(*again, lengths, scale=0.25, causal=True)
    whole.sum().backward()
    torch.testing.assert_close(out.cpu(), whole.cpu())
    for a, b in zip((q, k, v), again):
        torch.testing.assert_close(a.grad.cpu(), b.grad.cpu())


# -- losses
def test_a_negative_ignore_index_ignores(npu, generator):
    logits = torch.randn(6, 11, generator=generator).to(npu).requires_grad_()
    labels = torch.tensor([1, -100, 3, 10, -100, 0])
    loss = ops.cross_entropy(logits, labels.to(npu))
    assert loss.shape == (), "the vendor's mean has shape [1]"
    loss.backward()
    expected = logits.detach().cpu().requires_grad_()
    torch.nn.functional.cross_entropy(expected, labels).backward()
    torch.testing.assert_close(logits.grad.cpu(), expected.grad)
    assert not logits.grad.cpu()[[1, 4]].any()


def test_rows_beyond_what_one_call_takes(npu, generator, monkeypatch):
    monkeypatch.setattr(npu_loss, "MAX_ROWS", 4)
    logits = torch.randn(10, 5, generator=generator).to(npu).requires_grad_()
    labels = torch.randint(0, 5, (10,), generator=generator)
    loss = ops.cross_entropy(logits, labels.to(npu), reduction="none")
    loss.sum().backward()
    expected = logits.detach().cpu().requires_grad_()
    torch.nn.functional.cross_entropy(expected, labels, reduction="sum").backward()
    torch.testing.assert_close(logits.grad.cpu(), expected.grad)


# -- norms, activations, rotary
def test_the_gradient_of_the_weight_has_its_dtype(npu, generator):
    x = torch.randn(4, 32, generator=generator).bfloat16().to(npu).requires_grad_()
    for op in (
        lambda w: ops.rms_norm(x, w),
        lambda w: ops.fused_add_rms_norm(x, x, w)[0],
    ):
        weight = torch.ones(32).bfloat16().to(npu).requires_grad_()
        op(weight).float().sum().backward()
        assert weight.grad.dtype == torch.bfloat16


def test_one_plus_a_small_weight_is_not_lost(npu, generator):
    """npu_add_rms_norm wants gamma in bf16, where 1 + 0.001 is 1."""
    x = torch.randn(4, 32, generator=generator).bfloat16().to(npu)
    zero = torch.zeros_like(x)
    for weight in (torch.full((32,), 0.0011).bfloat16(), torch.full((32,), 0.0011)):
        y, s = ops.fused_add_rms_norm(x, zero, weight.to(npu), offset=1.0, casting="gemma")
        wide = s.float().cpu()
        exact = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * (1 + weight.float())
        assert torch.equal(y.cpu(), exact.bfloat16())


def test_more_rows_than_a_grid_has_blocks(npu, generator):
    """A kernel of others stops after 65535 rows."""
    x = torch.randn(65537, 8, generator=generator).to(npu)
    y, s = ops.fused_add_rms_norm(x, x, torch.ones(8).to(npu))
    wide = s[-3:].cpu()
    torch.testing.assert_close(y[-3:].cpu(), wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6))


def test_rotary_writes_to_nothing_and_wants_no_gradient_of_its_tables(npu, generator):
    q, k, _ = qkv(npu, 1, 2, 5, 16, generator=generator)
    cos, sin = (torch.rand(5, 16, generator=generator).to(npu).requires_grad_() for _ in "cs")
    before = [t.detach().cpu().clone() for t in (q, k, cos, sin)]
    q.requires_grad_()
    a, b = ops.rope(q, k, cos, sin)
    (a.sum() + b.sum()).backward()
    assert all(torch.equal(t.detach().cpu(), old) for t, old in zip((q, k, cos, sin), before))
    assert cos.grad is None and sin.grad is None and q.grad is not None


def test_wide_tables_are_not_rounded_to_bfloat16(npu, generator):
    q, k, _ = qkv(npu, 1, 1, 3, 8, dtype=torch.bfloat16, generator=generator)
    angle = torch.full((3, 4), 0.0123)
    wide = ops.rope(q, k, angle.cos().to(npu), angle.sin().to(npu), rotary_dim=8)[0].cpu()
    with ops.use("rope=reference"):
        exact = ops.rope(q.cpu(), k.cpu(), angle.cos(), angle.sin(), rotary_dim=8)[0]
    assert torch.equal(wide, exact)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_halves_of_one_row_are_not_joined_again(dtype, npu, generator):
    both = torch.randn(4, 32, generator=generator).to(dtype).to(npu)
    gate, up = both.chunk(2, -1)
    joined = ops.swiglu(gate, up).cpu()
    assert torch.equal(joined, ops.swiglu(gate.clone(), up.clone()).cpu())
    swapped = ops.swiglu(up, gate).cpu()  # the wrong way round: they do have to be
    assert torch.equal(swapped, ops.swiglu(up.clone(), gate.clone()).cpu()) and not torch.equal(
        joined, swapped
    )


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 8)], ids=str)
def test_empty_tensors(shape, npu):
    x = torch.zeros(shape, device=npu).requires_grad_()
    weight = torch.ones(8, device=npu).requires_grad_()
    y = ops.rms_norm(x, weight) + ops.fused_add_rms_norm(x, x, weight)[0] + ops.swiglu(x, x)
    y.sum().backward()
    assert x.grad.shape == shape and not weight.grad.cpu().any()


# -- optimiser, experts
def test_the_scale_of_gradients_is_applied_and_steps_are_counted_as_torch_does(npu, generator):
    param, grad = (torch.randn(33, generator=generator) for _ in "pg")
    expected = param.clone().requires_grad_()
    optimizer = torch.optim.AdamW([expected], lr=0.1, betas=(0.9, 0.95), weight_decay=0.01)
    p, m, v = (t.to(npu) for t in (param, torch.zeros(33), torch.zeros(33)))
    scale = torch.tensor(0.125)
    for step in range(1, 4):
        expected.grad = grad * scale * step
        optimizer.step()
        given = (grad * step).to(npu)
        options = {"lr": 0.1, "beta2": 0.95, "weight_decay": 0.01, "step": step}
        ops.adamw([p], [given], [m], [v], grad_scale=scale.to(npu), **options)
        torch.testing.assert_close(p.cpu(), expected.detach(), rtol=1e-5, atol=1e-6)
        assert torch.equal(given.cpu(), grad * step), "the gradient itself is left alone"


def test_the_map_of_experts_is_the_inverse_permutation(npu, generator):
    experts = torch.randint(0, 5, (20, 3), generator=generator)
    tokens = torch.randn(20, 4, generator=generator)
    permuted, row_id_map = ops.moe_permute(tokens.to(npu), experts.to(npu))
    order = torch.argsort(experts.flatten(), stable=True)
    assert torch.equal(row_id_map.cpu().long(), torch.argsort(order, stable=True))
    assert torch.equal(permuted.cpu(), tokens[order // 3])
