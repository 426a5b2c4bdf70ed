"""Gated activations of feed-forward blocks: ``swiglu`` and ``geglu``.

``swiglu = silu(a) b``; ``da = g b s (1 + a (1 - s))`` with ``s = sigmoid(a)``, ``db = g silu(a)``. ``geglu =
gelu(a) b`` with the exact ``gelu(a) = a Phi(a)`` or the tanh form ``a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715
a^3)))``: two different ops, chosen as in ``torch.nn.functional.gelu``. The inputs are saved and the activation
recomputed. Source: Shazeer 2020, arXiv:2002.05202; Hendrycks and Gimpel 2016, arXiv:1606.08415.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample

APPROXIMATIONS = ("none", "tanh")


def _check(name: str, gate: Tensor, up: Tensor) -> None:
    if gate.shape != up.shape or gate.dtype != up.dtype or not gate.is_floating_point():
        raise OpError(
            f"{name}: gate is {gate.dtype} {tuple(gate.shape)}, up is {up.dtype} {tuple(up.shape)}; "
            "they must be floating-point and agree"
        )
    one_device(name, gate, up=up)


def _pairs(
    device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> Iterator[tuple[str, Tensor, Tensor]]:
    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return shapes.normal(shape, device, dtype, generator, scale)

    for rows, width in shapes.ROWS:
        yield f"{rows}x{width}", draw(rows, width), draw(rows, width)
    halves = draw(5, 2 * 33)
    yield "halves of one row", halves[:, :33], halves[:, 33:]
    yield "transposed", draw(6, 4, 8).transpose(0, 1), draw(4, 6, 8)
    yield "huge", draw(4, 65, scale=200.0), draw(4, 65, scale=50.0)
    yield "tiny", draw(4, 65, scale=1e-4), draw(4, 65)


# -- swiglu --------------------------------------------------------------------------------------------------------


def _swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return (F.silu(wide(gate)) * wide(up)).to(gate.dtype).contiguous()


def _swiglu_backward(g_y: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    g, a, b = wide(g_y), wide(gate), wide(up)
    s = torch.sigmoid(a)
    d_gate, d_up = g * b * s * (1 + a * (1 - s)), g * a * s
    return d_gate.to(gate.dtype).contiguous(), d_up.to(up.dtype).contiguous()


def _fake(gate: Tensor, up: Tensor, *_: Any) -> Tensor:
    return gate.new_empty(gate.shape)


def _fake_backward(g_y: Tensor, gate: Tensor, up: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return gate.new_empty(gate.shape), up.new_empty(up.shape)


def _prepare_swiglu(gate: Tensor, up: Tensor) -> tuple[Any, ...]:
    _check("swiglu", gate, up)
    return gate, up


SWIGLU = declare(
    Op(
        name="swiglu",
        forward=Pass("(Tensor gate, Tensor up) -> (Tensor y)", _swiglu, _fake, operands=("gate", "up")),
        backward=Pass(
            "(Tensor g_y, Tensor gate, Tensor up) -> (Tensor d_gate, Tensor d_up)",
            _swiglu_backward,
            _fake_backward,
            operands=("gate", "up"),
        ),
        grads={"gate": "d_gate", "up": "d_up"},
        prepare=_prepare_swiglu,
        samples=lambda *a: (Sample(name, (gate, up)) for name, gate, up in _pairs(*a)),
        cost=lambda gate, *_: Cost(5 * gate.numel(), 3 * gate.nbytes),
        backward_cost=lambda gate, *_: Cost(10 * gate.numel(), 5 * gate.nbytes),
    )
)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``, rounded once.

    Args:
        gate, up: same shape and dtype; they may be the halves of one wider row (``chunk(2, -1)``), without a copy.

    Returns:
        Same shape and dtype.

    Raises:
        OpError: shapes or dtypes that differ.
    """
    return SWIGLU.apply(*_prepare_swiglu(gate, up))


# -- geglu ---------------------------------------------------------------------------------------------------------


def _gelu(a: Tensor, approximate: str) -> Tensor:
    """Not F.gelu: torch_npu computes the tanh form for both (op-plugin opapi/GeluOutKernelNpuOpApi.cpp)."""
    if approximate == "tanh":
        return 0.5 * a * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)))
    return 0.5 * a * (1 + torch.erf(a * math.sqrt(0.5)))


def _geglu(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    return (_gelu(wide(gate), approximate) * wide(up)).to(gate.dtype).contiguous()


def _geglu_backward(g_y: Tensor, gate: Tensor, up: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    g, a, b = wide(g_y), wide(gate), wide(up)
    if approximate == "tanh":
        c, k = math.sqrt(2 / math.pi), 0.044715
        t = torch.tanh(c * (a + k * a * a * a))
        slope = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * c * (1 + 3 * k * a * a)
        # tanh is flat before a^2 overflows: the product there is 0 * inf, and its limit is 0.
        slope = torch.where(t.abs() == 1, 0.5 * (1 + t), slope)
    else:
        slope = 0.5 * (1 + torch.erf(a * math.sqrt(0.5))) + a * torch.exp(-0.5 * a * a) / math.sqrt(
            2 * math.pi
        )
    d_gate, d_up = g * b * slope, g * _gelu(a, approximate)
    return d_gate.to(gate.dtype).contiguous(), d_up.to(up.dtype).contiguous()


def _prepare_geglu(gate: Tensor, up: Tensor, approximate: str = "none") -> tuple[Any, ...]:
    _check("geglu", gate, up)
    if approximate not in APPROXIMATIONS:
        raise OpError(f"geglu: approximate={approximate!r} is not one of {APPROXIMATIONS}")
    return gate, up, approximate


def _geglu_samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    for approximate in APPROXIMATIONS:
        for name, gate, up in _pairs(device, dtype, generator):
            yield Sample(f"{approximate} {name}", (gate, up, approximate))


GEGLU = declare(
    Op(
        name="geglu",
        forward=Pass(
            "(Tensor gate, Tensor up, str approximate) -> (Tensor y)",
            _geglu,
            _fake,
            operands=("gate", "up"),
            flags=("approximate",),
        ),
        backward=Pass(
            "(Tensor g_y, Tensor gate, Tensor up, str approximate) -> (Tensor d_gate, Tensor d_up)",
            _geglu_backward,
            _fake_backward,
            operands=("gate", "up"),
            flags=("approximate",),
        ),
        grads={"gate": "d_gate", "up": "d_up"},
        prepare=_prepare_geglu,
        samples=_geglu_samples,
        cost=lambda gate, *_: Cost(12 * gate.numel(), 3 * gate.nbytes),
        backward_cost=lambda gate, *_: Cost(20 * gate.numel(), 5 * gate.nbytes),
    )
)


def geglu(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    """``gelu(gate) * up``, rounded once.

    Args:
        gate, up: same shape and dtype; they may be the halves of one wider row.
        approximate: ``"none"`` (exact, by erf) or ``"tanh"``, as in ``torch.nn.functional.gelu``.

    Returns:
        Same shape and dtype.

    Raises:
        OpError: shapes or dtypes that differ, an unknown approximation.
    """
    return GEGLU.apply(*_prepare_geglu(gate, up, approximate))
