"""Root-mean-square normalisation.

``r = (mean(x^2) + eps)^(-1/2)``, ``y = x r (w + offset)``; backward with ``h = g (w + offset)`` and
``n = x r``: ``dx = r (h - n mean(h n))``, ``dw = sum over rows of g n``. Source: Zhang and Sennrich 2019,
arXiv:1910.07467. ``casting`` says where the storage dtype is rounded to: ``"llama"`` rounds ``n`` before the
weight, as Transformers' Llama and Qwen do; ``"gemma"`` rounds once at the end (with ``offset=1``).
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

CASTINGS = ("llama", "gemma")


def scaled(normed: Tensor, weight: Tensor | None, offset: float, casting: str, dtype: torch.dtype) -> Tensor:
    """``normed`` (wide) times ``weight + offset``, rounded to ``dtype`` as ``casting`` says."""
    if weight is None:
        return normed.to(dtype)
    if casting == "llama":
        normed = normed.to(dtype).to(normed.dtype)
    return (normed * (weight.to(normed.dtype) + offset)).to(dtype)


def forward(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """The reference."""
    x_wide = wide(x)
    rstd = torch.rsqrt(x_wide.square().mean(-1) + eps)
    y = scaled(x_wide * rstd[..., None], weight, offset, casting, x.dtype)
    return y.contiguous(), rstd.contiguous()


def backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """The reference of the backward pass."""
    g, normed = wide(g_y), wide(x) * rstd[..., None]
    h = g if weight is None else g * (weight.to(g.dtype) + offset)
    d_x = rstd[..., None] * (h - normed * (h * normed).mean(-1, keepdim=True))
    if weight is None:
        return d_x.to(x.dtype).contiguous(), x.new_empty(0)
    d_weight = (g * normed).reshape(-1, x.shape[-1]).sum(0)
    return d_x.to(x.dtype).contiguous(), d_weight.to(weight.dtype)


def _fake_forward(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=wide(x).dtype)


def _fake_backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(0) if weight is None else weight.new_empty(weight.shape)


def check(name: str, x: Tensor, weight: Tensor | None, casting: str) -> None:
    """Refuse what no implementation could make sense of."""
    if not x.is_floating_point() or x.dim() == 0:
        raise OpError(
            f"{name}: x must be a floating-point tensor [..., hidden], got {x.dtype} {tuple(x.shape)}"
        )
    if weight is not None and tuple(weight.shape) != (x.shape[-1],):
        raise OpError(
            f"{name}: weight has shape {tuple(weight.shape)}, expected ({x.shape[-1]},) from x {tuple(x.shape)}"
        )
    one_device(name, x, weight=weight)
    if casting not in CASTINGS:
        raise OpError(f"{name}: casting={casting!r} is not one of {CASTINGS}")


def _prepare(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, offset: float = 0.0, casting: str = "llama"
) -> tuple[Any, ...]:
    check("rms_norm", x, weight, casting)
    return x, weight, eps, offset, casting


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    for rows, width in shapes.ROWS:
        x = shapes.normal((rows, width), device, dtype, generator)
        weight = shapes.normal((width,), device, dtype, generator)
        yield Sample(f"llama {rows}x{width}", (x, weight, 1e-6, 0.0, "llama"))
        yield Sample(f"gemma {rows}x{width}", (x, weight, 1e-6, 1.0, "gemma"))
    x = shapes.normal((2, 3, 96), device, dtype, generator)
    yield Sample("no weight", (x, None, 1e-5, 0.0, "llama"))
    yield Sample(
        "strided", (shapes.strided(x), shapes.normal((96,), device, dtype, generator), 1e-6, 0.0, "llama")
    )
    yield Sample(
        "transposed", (x.transpose(0, 1), shapes.normal((96,), device, dtype, generator), 1e-6, 0.0, "gemma")
    )
    huge = shapes.normal((4, 65), device, dtype, generator, scale=1e4)
    yield Sample("huge", (huge, shapes.normal((65,), device, dtype, generator), 1e-6, 0.0, "llama"))
    tiny = shapes.normal((4, 65), device, dtype, generator, scale=1e-6)
    yield Sample("tiny", (tiny, shapes.normal((65,), device, dtype, generator), 1e-6, 0.0, "llama"))
    yield Sample(
        "zeros", (torch.zeros_like(huge), shapes.normal((65,), device, dtype, generator), 1e-6, 0.0, "llama")
    )
    if dtype != torch.float32:
        weight = shapes.normal((96,), device, torch.float32, generator)
        yield Sample("float32 weight", (x, weight, 1e-6, 0.0, "llama"))


OP = declare(
    Op(
        name="rms_norm",
        forward=Pass(
            "(Tensor x, Tensor? weight, float eps, float offset, str casting) -> (Tensor y, Tensor rstd)",
            forward,
            _fake_forward,
            operands=("x", "weight"),
            flags=("casting",),
        ),
        backward=Pass(
            "(Tensor g_y, Tensor x, Tensor? weight, Tensor rstd, float offset, str casting)"
            " -> (Tensor d_x, Tensor d_weight)",
            backward,
            _fake_backward,
            operands=("x", "weight"),
            flags=("casting",),
        ),
        grads={"x": "d_x", "weight": "d_weight"},
        prepare=_prepare,
        samples=_samples,
        cost=lambda x, *_: Cost(4 * x.numel(), 2 * x.nbytes),
        backward_cost=lambda x, *_: Cost(8 * x.numel(), 3 * x.nbytes),
    )
)


def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, offset: float = 0.0, casting: str = "llama"
) -> Tensor:
    """Root-mean-square normalisation over the last dimension.

    Args:
        x: ``[..., hidden]``, any floating dtype; statistics are float32 (float64 for float64).
        weight: ``[hidden]`` or None.
        eps: added to the mean square.
        offset: added to the weight (Gemma: 1).
        casting: ``"llama"`` or ``"gemma"``, see the module.

    Returns:
        ``[..., hidden]`` in ``x``'s dtype.

    Raises:
        OpError: shapes that do not fit, an unknown casting.
    """
    return OP.apply(*_prepare(x, weight, eps, offset=offset, casting=casting))
