"""Any layout in memory gives the same numbers."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import hetero.ops as ops


@st.composite
def layouts(draw):
    """A tensor with up to four dimensions whose memory is permuted, stepped and offset at random."""
    shape = [*draw(st.lists(st.integers(0, 5), min_size=0, max_size=3)), draw(st.integers(1, 40))]
    order = draw(st.permutations(range(len(shape))))
    step = draw(st.sampled_from([1, 1, 2, 3]))
    offset = draw(st.integers(0, 3))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
    return shape, order, step, offset, dtype, draw(st.integers(0, 2**31))


def laid_out(case):
    shape, order, step, offset, dtype, seed = case
    generator = torch.Generator().manual_seed(seed)
    sizes = [shape[i] for i in order]
    sizes[-1] *= step
    numel = 1
    for s in sizes:
        numel *= s
    flat = torch.randn(numel + offset, generator=generator).to(dtype)[offset:]
    x = flat.view(sizes)[..., ::step] if sizes[-1] else flat.view(sizes)
    inverse = [order.index(i) for i in range(len(order))]
    return x.permute(inverse), generator


def unit(dtype):
    return {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_any_layout_gives_the_same_numbers(case):
    x, generator = laid_out(case)
    w = torch.randn(x.shape[-1], generator=generator).to(x.dtype)
    other = torch.randn(x.shape, generator=generator).to(x.dtype)
    with torch.no_grad():
        got = [
            ops.rms_norm(x, w), *ops.fused_add_rms_norm(x, other, w), ops.layer_norm(x, w, w), ops.swiglu(x, other),
            ops.geglu(other, x),
        ]  # fmt: skip
        x64, w64, o64 = x.double(), w.double(), other.double()
        s64 = (x + other).double()
        want = [
            F.rms_norm(x64, w64.shape, w64, 1e-6), F.rms_norm(s64, w64.shape, w64, 1e-6), s64,
            F.layer_norm(x64, w64.shape, w64, w64, 1e-5), F.silu(x64) * o64, F.gelu(o64) * x64,
        ]  # fmt: skip
    tolerance = unit(x.dtype)
    for g, e in zip(got, want):
        assert g.shape == e.shape and g.dtype == x.dtype
        torch.testing.assert_close(g.double(), e, rtol=tolerance, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 9),
    st.integers(1, 70),
    st.integers(0, 2**31),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_cross_entropy_of_any_shape(rows, classes, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(classes, rows, generator=generator) * 5).to(dtype).T.requires_grad_()
    labels = torch.randint(-1, classes, (rows,), generator=generator)
    loss = ops.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
    exact = logits.detach().double().requires_grad_()
    want = F.cross_entropy(exact, labels, ignore_index=-1, reduction="sum")
    torch.testing.assert_close(loss.double(), want, rtol=1e-5, atol=1e-5)
    (got,) = torch.autograd.grad(loss, logits)
    (expected,) = torch.autograd.grad(want, exact)
    torch.testing.assert_close(got.double(), expected, rtol=unit(dtype), atol=unit(dtype))
