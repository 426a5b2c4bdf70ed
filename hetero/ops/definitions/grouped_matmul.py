"""Grouped matrix product: rows sorted by expert, each group times its own expert's matrix.

``y[r] = x[r] W[e]`` for the rows ``r`` of group ``e``; ``dx[r] = g[r] W[e]^T``, ``dW[e] = x_e^T g_e``. Groups are given
by where they end, as in ``torch.nn.functional.grouped_mm``; a group may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _groups(offs: Tensor) -> Iterator[tuple[int, slice]]:
    """``(expert, rows)`` of the groups that have rows."""
    start = 0
    for expert, end in enumerate(offs.tolist()):
        if end > start:
            yield expert, slice(start, end)
        start = end


def _forward(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    y = _fake_forward(x, weight, offs).zero_()
    for expert, rows in _groups(offs):
        y[rows] = (wide(x[rows]) @ wide(weight[expert])).to(y.dtype)
    return y


def _backward(
    g_y: Tensor, x: Tensor, weight: Tensor, offs: Tensor, need_x: bool, need_weight: bool
) -> tuple[Tensor, Tensor]:
    d_x, d_weight = (t.zero_() for t in _fake_backward(g_y, x, weight, offs, need_x, need_weight))
    for expert, rows in _groups(offs):
        g = wide(g_y[rows])
        if need_x:
            d_x[rows] = (g @ wide(weight[expert]).T).to(d_x.dtype)
        if need_weight:
            d_weight[expert] = (wide(x[rows]).T @ g).to(d_weight.dtype)
    return d_x, d_weight


def _fake_forward(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], weight.shape[2]))


def _fake_backward(
    g_y: Tensor, x: Tensor, weight: Tensor, offs: Tensor, need_x: bool, need_weight: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape if need_x else 0), weight.new_empty(weight.shape if need_weight else 0)


def _prepare(x: Tensor, weight: Tensor, offs: Tensor) -> tuple[Any, ...]:
    named = {"x": x, "weight": weight, "offs": offs}
    shown = ", ".join(f"{name} {t.dtype} {tuple(t.shape)}" for name, t in named.items())
    fits = (
        x.dim() == 2
        and weight.dim() == 3
        and x.shape[1] == weight.shape[1]
        and x.dtype == weight.dtype
        and x.is_floating_point()
        and offs.shape == weight.shape[:1]
        and offs.dtype in (torch.int32, torch.int64)
    )
    if not fits:
        raise OpError(
            "grouped_matmul: x must be [rows, K], weight [experts, K, N] in its dtype, offs int32 or int64 [experts]: "
            f"got {shown}"
        )
    one_device("grouped_matmul", x, weight=weight, offs=offs)
    if offs.is_cpu and offs.numel():  # elsewhere looking would synchronise
        ends = [0, *offs.tolist()]
        if ends[-1] != x.shape[0] or any(a > b for a, b in pairwise(ends)):
            raise OpError(
                f"grouped_matmul: offs must rise to the {x.shape[0]} rows of x, they are {ends[1:]}"
            )
    return x, weight, offs


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(
        name: str, counts: list[int], k: int, n: int, spare: int = 0, index: Any = torch.int32
    ) -> Sample:
        x = shapes.normal((sum(counts) + spare, k), device, dtype, generator)
        weight = shapes.normal((len(counts), k, n), device, dtype, generator, k**-0.5)
        return Sample(name, (x, weight, torch.tensor(counts).cumsum(0).to(index).to(device)))

    yield case("three experts", [3, 1, 4], 8, 6)
    yield case("experts without rows", [0, 5, 0, 2, 0], 7, 3, index=torch.int64)
    yield case("one row", [1], 1, 1)
    yield case("no rows", [0, 0], 8, 4)
    yield case("wider", [33, 20, 11], 96, 64)


OP = declare(
    Op(
        name="grouped_matmul",
        forward=Pass(
            "(Tensor x, Tensor weight, Tensor offs) -> (Tensor y)",
            _forward,
            _fake_forward,
            operands=("x", "weight"),
            sizes={"experts": ("weight", 0), "out_dim": ("weight", 2)},
        ),
        backward=Pass(
            "(Tensor g_y, Tensor x, Tensor weight, Tensor offs, bool need_x, bool need_weight)"
            " -> (Tensor d_x, Tensor d_weight)",
            _backward,
            _fake_backward,
            operands=("x", "weight"),
            sizes={"experts": ("weight", 0), "out_dim": ("weight", 2)},
        ),
        grads={"x": "d_x", "weight": "d_weight"},
        prepare=_prepare,
        samples=_samples,
        cost=lambda x, weight, _: Cost(
            2 * x.numel() * weight.shape[2], x.nbytes + (x.nbytes // max(1, x.shape[1])) * weight.shape[2]
        ),
        backward_cost=lambda x, weight, _: Cost(
            4 * x.numel() * weight.shape[2], 2 * x.nbytes + weight.nbytes
        ),
    )
)


def grouped_matmul(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """``x``'s rows times the matrix of their group, for mixtures of experts.

    Args:
        x: ``[rows, K]``, sorted by group (:func:`hetero.ops.moe_permute`).
        weight: ``[groups, K, N]``, same dtype.
        offs: int32 or int64 ``[groups]``: where each group ends, on ``x``'s device (``counts.cumsum(0)``); the last is
            the number of rows.

    Returns:
        ``[rows, N]`` in ``x``'s dtype.

    Raises:
        OpError: shapes or dtypes that do not fit, or (on the CPU; elsewhere looking would synchronise) offsets.
    """
    return OP.apply(*_prepare(x, weight, offs))
