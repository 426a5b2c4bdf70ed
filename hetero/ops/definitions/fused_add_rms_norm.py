"""Residual add and RMS normalisation in one pass over memory.

``s = x + residual`` (rounded to the storage dtype, as two separate steps would), ``y = rms_norm(s)``; both are
returned. Backward: ``ds = rms_norm_backward(g_y) + g_s`` and ``dx = dresidual = ds``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import rms_norm as plain
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    s = (x + residual).contiguous()
    y, rstd = plain.forward(s, weight, eps, offset, casting)
    return y, s, rstd


def _backward(
    g_y: Tensor, g_s: Tensor, s: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    d_s, d_weight = plain.backward(wide(g_y), wide(s), weight, rstd, offset, casting)
    return (d_s + wide(g_s)).to(s.dtype).contiguous(), d_weight if weight is not None else s.new_empty(0)


def _fake_forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=wide(x).dtype)


def _fake_backward(
    g_y: Tensor, g_s: Tensor, s: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    return s.new_empty(s.shape), s.new_empty(0) if weight is None else weight.new_empty(weight.shape)


def _prepare(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    offset: float = 0.0,
    casting: str = "llama",
) -> tuple[Any, ...]:
    plain.check("fused_add_rms_norm", x, weight, casting)
    if residual.shape != x.shape or residual.dtype != x.dtype:
        raise OpError(
            f"fused_add_rms_norm: residual is {residual.dtype} {tuple(residual.shape)}, "
            f"x is {x.dtype} {tuple(x.shape)}; they must agree"
        )
    one_device("fused_add_rms_norm", x, residual=residual)
    return x, residual, weight, eps, offset, casting


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    for sample in plain.OP.samples(device, dtype, generator):
        x, *rest = sample.args
        residual = shapes.normal(tuple(x.shape), device, dtype, generator)
        yield Sample(sample.name, (x, residual, *rest))


OP = declare(
    Op(
        name="fused_add_rms_norm",
        forward=Pass(
            "(Tensor x, Tensor residual, Tensor? weight, float eps, float offset, str casting)"
            " -> (Tensor y, Tensor s, Tensor rstd)",
            _forward,
            _fake_forward,
            operands=("x", "residual", "weight"),
            flags=("casting",),
        ),
        backward=Pass(
            "(Tensor g_y, Tensor g_s, Tensor s, Tensor? weight, Tensor rstd, float offset, str casting)"
            " -> (Tensor d_s, Tensor d_weight)",
            _backward,
            _fake_backward,
            operands=("s", "weight"),
            flags=("casting",),
        ),
        grads={"x": "d_s", "residual": "d_s", "weight": "d_weight"},
        public=2,
        prepare=_prepare,
        samples=_samples,
        cost=lambda x, *_: Cost(5 * x.numel(), 4 * x.nbytes),
        backward_cost=lambda x, *_: Cost(9 * x.numel(), 4 * x.nbytes),
    )
)


def fused_add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    offset: float = 0.0,
    casting: str = "llama",
) -> tuple[Tensor, Tensor]:
    """``residual = x + residual; y = rms_norm(residual)``, functional: neither argument is written to.

    Args:
        x, residual: ``[..., hidden]``, same dtype.
        weight, eps, offset, casting: as in :func:`hetero.ops.rms_norm`.

    Returns:
        ``(y, residual)``, both ``[..., hidden]`` in ``x``'s dtype.

    Raises:
        OpError: shapes or dtypes that do not fit, an unknown casting.
    """
    return OP.apply(*_prepare(x, residual, weight, eps, offset=offset, casting=casting))
