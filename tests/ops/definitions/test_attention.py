"""attention and attention_varlen: against torch's own attention, and what each option hides."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from hetero import ops
from hetero.errors import OpError

from .helpers import close, randn

SHAPES = {"q": (2, 4, 6, 8), "k": (2, 2, 9, 8), "v": (2, 2, 9, 8)}


@pytest.fixture
def qkv(generator):
    return [randn(*shape, generator=generator, grad=True) for shape in SHAPES.values()]


def gradients(out, inputs):
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    return torch.autograd.grad((out * weight).sum(), inputs)


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({}, None),
        ({"causal": True}, causal_lower_right(6, 9)),
        ({"causal": True, "align": "upper_left"}, causal_upper_left(6, 9)),
    ],
    ids=["every pair", "lower right", "upper left"],
)
def test_like_torchs(qkv, options, mask):
    q, k, v = qkv
    new = ops.attention(q, k, v, scale=0.3, **options)
    old = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True)
    close(new, old)
    for a, b in zip(gradients(new, qkv), gradients(old, qkv)):
        close(a, b)


def test_a_mask_keeps_where_it_is_true_as_torchs(qkv, generator):
    keep = torch.rand((2, 1, 6, 9), generator=generator) < 0.6
    keep[..., 0] = True
    new = ops.attention(*qkv, scale=0.3, mask=keep)
    close(new, F.scaled_dot_product_attention(*qkv, attn_mask=keep, scale=0.3, enable_gqa=True))


@pytest.mark.parametrize("align", ["lower_right", "upper_left"])
def test_which_keys_a_window_shows(align):
    """Found out by what each output depends on, not by the formula."""
    q, k = torch.randn(1, 1, 4, 2), torch.randn(1, 1, 7, 2)
    v = torch.eye(7)[None, None]
    out = ops.attention(q, k, v, scale=1.0, causal=True, align=align, window_size=(2, -1))
    for i in range(4):
        place = i + 3 if align == "lower_right" else i
        assert out[0, 0, i].nonzero().flatten().tolist() == list(range(max(0, place - 2), place + 1))


def test_soft_capping_is_before_the_mask_and_the_softmax(qkv):
    q, k, v = (t.detach() for t in qkv)
    keep = torch.ones(6, 9, dtype=torch.bool).tril(3)
    s = 5 * torch.tanh(q @ k.repeat_interleave(2, 1).mT * 2 / 5)
    p = s.masked_fill(~keep, float("-inf")).softmax(-1)
    out, lse = ops.attention(q, k, v, scale=2.0, causal=True, softcap=5.0, return_lse=True)
    close(out, p @ v.repeat_interleave(2, 1))
    close(lse, s.masked_fill(~keep, float("-inf")).logsumexp(-1))


def test_a_query_that_sees_nothing_gives_zero_and_no_gradient(qkv):
    q, k, v = qkv
    keep = torch.ones(2, 1, 1, 9, dtype=torch.bool)
    keep[1] = False
    out, lse = ops.attention(q, k, v, scale=1.0, mask=keep, return_lse=True)
    assert not out[1].any() and torch.isinf(lse[1]).all() and torch.isfinite(lse[0]).all()
    for grad in gradients(out, qkv):
        assert not grad[1].any() and torch.isfinite(grad).all() and grad[0].any()


def test_the_log_sum_exp_has_no_gradient(qkv):
    _, lse = ops.attention(*qkv, scale=1.0, return_lse=True)
    assert lse.dtype == torch.float64 and not lse.requires_grad


def test_the_output_lies_as_the_next_projection_wants_it(qkv):
    assert ops.attention(*qkv, scale=1.0).transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window_size": (2, -1)}], ids=str)
def test_packed_documents_are_each_for_itself(options, generator):
    lengths, keys = [3, 0, 5, 1], [4, 0, 5, 2]
    cu, cu_k = (torch.tensor([0, *n]).cumsum(0).to(torch.int32) for n in (lengths, keys))
    q = randn(9, 4, 8, generator=generator, grad=True)
    k, v = (randn(11, 2, 8, generator=generator, grad=True) for _ in "kv")
    packed = ops.attention_varlen(q, k, v, cu, cu_k, scale=0.5, **options)
    apart = [
        ops.attention(
            *(t[a:b].transpose(0, 1)[None] for t, a, b in ((q, *i), (k, *j), (v, *j))), scale=0.5, **options
        )[0].transpose(0, 1)
        for i, j in zip(pairwise(cu), pairwise(cu_k))
    ]
    close(packed, torch.cat(apart))
    for a, b in zip(gradients(packed, (q, k, v)), gradients(torch.cat(apart), (q, k, v))):
        close(a, b)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": (2, 3, 9, 8), "v": (2, 3, 9, 8)}, "must be a multiple"),
        ({"q": (2, 4, 6, 4)}, "batch and dim must agree"),
        ({"q": (4, 6, 8)}, r"\[batch, heads, tokens, dim\]"),
        ({"align": "upper"}, "lower_right"),
        ({"mask": torch.zeros(6, 9)}, "mask must be bool"),
        ({"mask": torch.ones(6, 8, dtype=torch.bool)}, r"broadcast to \(2, 4, 6, 9\)"),
        ({"window_size": (-2, 0)}, "window_size"),
    ],
)
def test_what_does_not_fit_is_named(change, says):
    given = {**SHAPES, **change}
    tensors = [torch.zeros(given.pop(name)) for name in SHAPES]
    with pytest.raises(OpError, match=says):
        ops.attention(*tensors, scale=1.0, **given)


@pytest.mark.parametrize(
    ("cu", "says"),
    [([0, 3, 2, 6], "must rise from 0"), ([1, 6], "must rise from 0"), ([0, 7], "at most 6"), ([], "int32")],
)
def test_lengths_that_do_not_fit_are_named(cu, says):
    q = torch.zeros(6, 2, 4)
    with pytest.raises(OpError, match=says):
        ops.attention_varlen(q, q, q, torch.tensor(cu, dtype=torch.int32), scale=1.0)
