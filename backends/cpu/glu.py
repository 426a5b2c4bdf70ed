"""swiglu and geglu on the compiled kernels; signatures as declared in hetero.ops."""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES, like, rows

_SILU = 0
_GELU = {"none": 1, "tanh": 2}


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``."""
    return _forward(gate, up, _SILU)


def swiglu_backward(g_y: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """``(dgate, dup)``."""
    return _backward(g_y, gate, up, _SILU)


def geglu(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    """``gelu(gate) * up``."""
    return _forward(gate, up, _GELU[approximate])


def geglu_backward(g_y: Tensor, gate: Tensor, up: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    """``(dgate, dup)``."""
    return _backward(g_y, gate, up, _GELU[approximate])


def _forward(gate: Tensor, up: Tensor, activation: int) -> Tensor:
    if gate.dim() == 0:
        return _forward(gate[None], up[None], activation)[0]
    a, b, y = rows(gate), rows(up), like(gate)
    kernels().glu(
        a.rows, a.width, a.address, a.stride, b.address, b.stride, 0, 0, CODES[gate.dtype], activation,
        y.data_ptr(), 0, 0, torch.get_num_threads(),
    )  # fmt: skip
    return y


def _backward(g_y: Tensor, gate: Tensor, up: Tensor, activation: int) -> tuple[Tensor, Tensor]:
    if gate.dim() == 0:
        d_gate, d_up = _backward(g_y[None], gate[None], up[None], activation)
        return d_gate[0], d_up[0]
    a, b, g = rows(gate), rows(up), rows(g_y.to(gate.dtype))
    d_gate, d_up = like(gate), like(up)
    kernels().glu(
        a.rows, a.width, a.address, a.stride, b.address, b.stride, g.address, g.stride, CODES[gate.dtype], activation,
        0, d_gate.data_ptr(), d_up.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return d_gate, d_up
