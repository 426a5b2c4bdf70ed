"""swiglu on the AscendC kernels; signatures as declared in hetero.ops.

torch_npu's own ``npu_swiglu`` takes gate and up as one tensor, so that two separate ones cost a concatenation.
"""

from __future__ import annotations

from torch import Tensor

from hetero.backends.ascend.ascendc import CODES, kernels, like, place, rows


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``."""
    if gate.dim() == 0:
        return swiglu(gate[None], up[None])[0]
    y = like(gate)
    if gate.numel():
        a, b = rows(gate), rows(up)
        kernels().swiglu(
            place(gate), a.rows, a.width, a.address, a.stride, b.address, b.stride, 0, 0, CODES[gate.dtype],
            y.data_ptr(), 0, 0,
        )  # fmt: skip
    return y


def swiglu_backward(g_y: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """``(dgate, dup)``."""
    if gate.dim() == 0:
        d_gate, d_up = swiglu_backward(g_y[None], gate[None], up[None])
        return d_gate[0], d_up[0]
    d_gate, d_up = like(gate), like(up)
    if gate.numel():
        a, b, g = rows(gate), rows(up), rows(g_y.to(gate.dtype))
        kernels().swiglu(
            place(gate), a.rows, a.width, a.address, a.stride, b.address, b.stride, g.address, g.stride,
            CODES[gate.dtype], 0, d_gate.data_ptr(), d_up.data_ptr(),
        )  # fmt: skip
    return d_gate, d_up
