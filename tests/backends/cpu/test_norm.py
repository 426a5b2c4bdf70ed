"""rms_norm, fused_add_rms_norm and layer_norm against autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hetero.backends.cpu import norm

SHAPES = [(1, 1), (3, 7), (5, 17), (2, 3, 64), (4, 1000), (67, 1023), (0, 16)]
EPS = 1e-5


def plain_rms(offset: float) -> Callable[..., Tensor]:
    return lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * (w + offset)


def size(rstd: Tensor, weight: Tensor) -> float:
    """The gradient's terms before they cancel, over the upstream gradient; in a row of one element they all do."""
    return (rstd.max() * weight.abs().max()).item() if rstd.numel() else 1.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("offset", "casting"), [(0.0, "llama"), (1.0, "gemma")])
def test_rms_norm(
    isa: str, draw: Callable[..., Tensor], check: Callable, shape: tuple, offset: float, casting: str
) -> None:
    x, w, g = draw(*shape), draw(shape[-1]), draw(*shape)
    y, rstd = norm.rms_norm(x, w, EPS, offset, casting)
    dx, dw = norm.rms_norm_backward(g, x, w, rstd, offset, casting)
    check([y, dx, dw], plain_rms(offset), [x, w], [g], size=size(rstd, w + offset))
    torch.testing.assert_close(
        rstd.double(), torch.rsqrt(x.double().square().mean(-1) + EPS), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_fused_add_rms_norm(isa: str, draw: Callable[..., Tensor], check: Callable, shape: tuple) -> None:
    x, r, w, g, gs = draw(*shape), draw(*shape), draw(shape[-1]), draw(*shape), draw(*shape)
    y, s, rstd = norm.fused_add_rms_norm(x, r, w, EPS, 0.0, "llama")
    ds, dw = norm.fused_add_rms_norm_backward(g, gs, s, w, rstd, 0.0, "llama")

    def plain(x: Tensor, r: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        s = x + r
        return plain_rms(0.0)(s, w), s

    check([y, s, ds, ds, dw], plain, [x, r, w], [g, gs], size=size(rstd, w))
    assert torch.equal(s, x + r)


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(isa: str, draw: Callable[..., Tensor], check: Callable, shape: tuple) -> None:
    x, w, b, g = draw(*shape) + 3, draw(shape[-1]), draw(shape[-1]), draw(*shape)
    y, mean, rstd = norm.layer_norm(x, w, b, EPS)
    dx, dw, db = norm.layer_norm_backward(g, x, w, b, mean, rstd)
    if x.numel():
        check([y, dx, dw, db], lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS), [x, w, b], [g])
    else:
        assert y.shape == dx.shape == x.shape
        assert not dw.any() and not db.any()


def test_without_weight_or_bias(isa: str, draw: Callable[..., Tensor], check: Callable) -> None:
    x, w, g = draw(6, 33), draw(33), draw(6, 33)
    y, rstd = norm.rms_norm(x, None, EPS, 1.0, "llama")
    dx, none = norm.rms_norm_backward(g, x, None, rstd, 1.0, "llama")
    check([y, dx], lambda x: plain_rms(0.0)(x, torch.ones(33).to(x)), [x], [g], size=size(rstd, w))
    assert none.numel() == 0
    y, mean, rstd = norm.layer_norm(x, None, w, EPS)
    dx, none, db = norm.layer_norm_backward(g, x, None, w, mean, rstd)
    check([y, dx, db], lambda x, b: F.layer_norm(x, (33,), None, b, EPS), [x, w], [g])
    assert none.numel() == 0


def test_float32_weights_with_bfloat16_input(isa: str, generator: torch.Generator) -> None:
    x, g = (
        torch.randn(9, 40, generator=generator).bfloat16(),
        torch.randn(9, 40, generator=generator).bfloat16(),
    )
    w, b = torch.randn(40, generator=generator), torch.randn(40, generator=generator).bfloat16()
    y, rstd = norm.rms_norm(x, w, EPS, 0.0, "gemma")
    dx, dw = norm.rms_norm_backward(g, x, w, rstd, 0.0, "gemma")
    assert (y.dtype, dx.dtype, dw.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    exact = (g.double() * x.double() * rstd[:, None]).sum(0)
    torch.testing.assert_close(dw.double(), exact, rtol=1e-5, atol=1e-5)
    y, mean, rstd = norm.layer_norm(x, w, b, EPS)
    assert [t.dtype for t in norm.layer_norm_backward(g, x, w, b, mean, rstd)] == [x.dtype, w.dtype, b.dtype]
    exact = F.layer_norm(x.double(), (40,), w.double(), b.double(), EPS)
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=2**-8)


def test_llama_rounds_before_the_weight(isa: str, generator: torch.Generator) -> None:
    x = torch.randn(16, 128, generator=generator).bfloat16()
    w = torch.randn(128, generator=generator).bfloat16()
    y, rstd = norm.rms_norm(x, w, EPS, 0.0, "llama")
    assert torch.equal(y, (x.float() * rstd[:, None]).bfloat16() * w)
    y, rstd = norm.rms_norm(x, w, EPS, 0.0, "gemma")
    assert torch.equal(y, (x.float() * rstd[:, None] * w.float()).bfloat16())


def layouts(x: Tensor) -> list[Tensor]:
    """The same values [3, 4, 40] in layouts that do and do not need a copy, and off any alignment."""
    gap = torch.zeros(3, 4, 57, dtype=x.dtype)
    gap[..., 5:45] = x
    strided = torch.zeros(3, 4, 40, 2, dtype=x.dtype)
    strided[..., 0] = x
    odd = torch.zeros(481, dtype=x.dtype)
    odd[1:] = x.flatten()
    return [
        gap[..., 5:45],
        strided[..., 0],
        odd[1:].view(3, 4, 40),
        x.transpose(0, 1).contiguous().transpose(0, 1),
    ]


def test_layouts(isa: str, draw: Callable[..., Tensor]) -> None:
    x, w, g = draw(3, 4, 40), draw(40), draw(3, 4, 40)
    y, rstd = norm.rms_norm(x, w, EPS, 0.0, "llama")
    dx, dw = norm.rms_norm_backward(g, x, w, rstd, 0.0, "llama")
    for x_other, g_other in zip(layouts(x), layouts(g)):
        assert torch.equal(norm.rms_norm(x_other, w, EPS, 0.0, "llama")[0], y)
        others = norm.rms_norm_backward(g_other, x_other, w, rstd, 0.0, "llama")
        assert torch.equal(others[0], dx)
        torch.testing.assert_close(others[1], dw)


def test_expanded_gradient(isa: str, draw: Callable[..., Tensor]) -> None:
    """``y.sum().backward()`` gives a gradient whose strides are all 0."""
    x, w = draw(5, 24), draw(24)
    _, rstd = norm.rms_norm(x, w, EPS, 0.0, "llama")
    ones = torch.ones((), dtype=x.dtype)
    a = norm.rms_norm_backward(ones.expand(5, 24), x, w, rstd, 0.0, "llama")
    b = norm.rms_norm_backward(torch.ones_like(x), x, w, rstd, 0.0, "llama")
    assert all(map(torch.equal, a, b))


def test_long_column_sums_keep_their_accuracy(kernels: ModuleType, generator: torch.Generator) -> None:
    """The weight's gradient over many rows of one sign: naive float32 summation loses digits."""
    x = torch.rand(5000, 24, generator=generator) + 0.5
    rstd = torch.rsqrt(x.square().mean(-1) + EPS)
    _, dw = norm.rms_norm_backward(torch.ones_like(x), x, torch.ones(24), rstd, 0.0, "llama")
    exact = (x.double() * rstd.double()[:, None]).sum(0)
    assert ((dw.double() - exact) / exact).abs().max() < 8 * torch.finfo(torch.float32).eps


def test_not_finite(isa: str) -> None:
    x = torch.ones(4, 19)
    x[1, 3], x[2, 18] = float("nan"), float("inf")
    y, _ = norm.rms_norm(x, torch.ones(19), EPS, 0.0, "llama")
    expected = plain_rms(0.0)(x, torch.ones(19))
    torch.testing.assert_close(y, expected, equal_nan=True)
    assert y[0].isfinite().all() and y[1].isnan().all() and y[3].isfinite().all()
