"""swiglu through ``npu_swiglu``, which takes gate and up as the halves of one row (gate first).

Where they are that already, as with one projection for both, nothing is copied. Where they are two tensors they have to
be joined first, in both directions: a read and a write of each that kernels with two inputs do not have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``."""
    if not gate.numel():
        return gate.new_empty(gate.shape)
    return npu("npu_swiglu")(_joined(gate, up), -1)


def swiglu_backward(g_y: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """``(dgate, dup)``."""
    if not gate.numel():
        return gate.new_empty(gate.shape), up.new_empty(up.shape)
    both = npu("npu_swiglu_backward")(g_y.to(gate.dtype).contiguous(), _joined(gate, up), -1)
    d_gate, d_up = both.chunk(2, -1)
    return d_gate.contiguous(), d_up.contiguous()


def _joined(gate: Tensor, up: Tensor) -> Tensor:
    """``[..., 2 width]``: the row that both are halves of, else a new one."""
    width = gate.shape[-1]
    shape = (*gate.shape[:-1], 2 * width)
    halves = (
        gate.stride() == up.stride() == torch.empty(shape, device="meta").stride()
        and up.storage_offset() - gate.storage_offset() == width
        and gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()
    )
    return gate.as_strided(shape, gate.stride()) if halves else torch.cat((gate, up), -1)
