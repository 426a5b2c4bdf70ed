"""Layer normalisation.

``n = (x - mean) rstd`` with the biased variance, ``y = n w + b``; backward with ``h = g w``:
``dx = rstd (h - mean(h) - n mean(h n))``, ``dw = sum g n``, ``db = sum g``. Source: Ba et al. 2016,
arXiv:1607.06450.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    x_wide = wide(x)
    mean = x_wide.mean(-1)
    centred = x_wide - mean[..., None]
    rstd = torch.rsqrt(centred.square().mean(-1) + eps)
    y = centred * rstd[..., None]
    if weight is not None:
        y = y * weight.to(y.dtype)
    if bias is not None:
        y = y + bias.to(y.dtype)
    return y.to(x.dtype).contiguous(), mean.contiguous(), rstd.contiguous()


def _backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    g = wide(g_y)
    normed = (wide(x) - mean[..., None]) * rstd[..., None]
    h = g if weight is None else g * weight.to(g.dtype)
    d_x = rstd[..., None] * (h - h.mean(-1, keepdim=True) - normed * (h * normed).mean(-1, keepdim=True))
    empty = x.new_empty(0)
    rows = (-1, x.shape[-1])
    d_weight = empty if weight is None else (g * normed).reshape(rows).sum(0).to(weight.dtype)
    d_bias = x.new_empty(0) if bias is None else g.reshape(rows).sum(0).to(bias.dtype)
    return d_x.to(x.dtype).contiguous(), d_weight, d_bias


def _fake_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    def stat() -> Tensor:
        return x.new_empty(x.shape[:-1], dtype=wide(x).dtype)

    return x.new_empty(x.shape), stat(), stat()


def _fake_backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    def like(p: Tensor | None) -> Tensor:
        return x.new_empty(0) if p is None else p.new_empty(p.shape)

    return x.new_empty(x.shape), like(weight), like(bias)


def _prepare(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Any, ...]:
    if not x.is_floating_point() or x.dim() == 0:
        raise OpError(
            f"layer_norm: x must be a floating-point tensor [..., hidden], got {x.dtype} {tuple(x.shape)}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p.shape) != (x.shape[-1],):
            raise OpError(f"layer_norm: {name} has shape {tuple(p.shape)}, expected ({x.shape[-1]},)")
    one_device("layer_norm", x, weight=weight, bias=bias)
    return x, weight, bias, eps


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return shapes.normal(shape, device, dtype, generator, scale)

    for rows, width in shapes.ROWS:
        yield Sample(f"{rows}x{width}", (draw(rows, width), draw(width), draw(width), 1e-5))
    x = draw(2, 3, 96)
    yield Sample("no bias", (x, draw(96), None, 1e-5))
    yield Sample("bare", (x, None, None, 1e-5))
    yield Sample("strided", (shapes.strided(x), draw(96), draw(96), 1e-5))
    yield Sample("transposed", (x.transpose(0, 1), draw(96), draw(96), 1e-5))
    yield Sample("huge", (draw(4, 65, scale=1e4), draw(65), draw(65), 1e-5))
    yield Sample("far from zero", (draw(4, 65) + 100, draw(65), draw(65), 1e-5))


_OPERANDS = ("x", "weight", "bias")

OP = declare(
    Op(
        name="layer_norm",
        forward=Pass(
            "(Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor y, Tensor mean, Tensor rstd)",
            _forward,
            _fake_forward,
            operands=_OPERANDS,
        ),
        backward=Pass(
            "(Tensor g_y, Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd)"
            " -> (Tensor d_x, Tensor d_weight, Tensor d_bias)",
            _backward,
            _fake_backward,
            operands=_OPERANDS,
        ),
        grads={"x": "d_x", "weight": "d_weight", "bias": "d_bias"},
        prepare=_prepare,
        samples=_samples,
        cost=lambda x, *_: Cost(7 * x.numel(), 2 * x.nbytes),
        backward_cost=lambda x, *_: Cost(11 * x.numel(), 3 * x.nbytes),
    )
)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Layer normalisation over the last dimension.

    Args:
        x: ``[..., hidden]``, any floating dtype; statistics are float32 (float64 for float64).
        weight, bias: ``[hidden]`` or None.
        eps: added to the variance.

    Returns:
        ``[..., hidden]`` in ``x``'s dtype.

    Raises:
        OpError: shapes that do not fit.
    """
    return OP.apply(*_prepare(x, weight, bias, eps))
