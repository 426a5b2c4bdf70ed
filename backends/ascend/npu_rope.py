"""rope through ``npu_rotary_mul``; never ``npu_apply_rotary_pos_emb``, which writes to its inputs undeclared.

Layouts that A2 and A3 take: tables shared by the batch go with BSND as 1S1D; tables of each row with TND as T1D, the
only one besides that does not forbid ``interleave``. Tables in another dtype than ``x`` are rounded to it by the
vendor, so wider tables turn ``x`` in their dtype. The gradient is the rotation by the opposite angle; the vendor's own
would also compute one for the tables, which limits the size of the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu

#: Largest batch and number of heads; the head size must be even and below 896.
#: Source: op-plugin docs/zh/custom_APIs/torch_npu/torch_npu-npu_rotary_mul.md
MAX_BATCH, MAX_HEADS, MAX_DIM = 999, 999, 894


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    """``q`` and ``k`` [B, T, heads, D] rotated, contiguous."""
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    if inverse:
        sin = -sin
    # The vendor wants each angle twice, at the places of its two features.
    cos, sin = (t.repeat_interleave(2, -1) if interleaved else torch.cat((t, t), -1) for t in (cos, sin))
    mode = "interleave" if interleaved else "half"
    return _turn(q, cos, sin, mode), _turn(k, cos, sin, mode)


def rope_backward(
    g_q: Tensor,
    g_k: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """The rotation by the opposite angle."""
    return rope(g_q, g_k, cos, sin, positions, interleaved, not inverse)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, mode: str) -> Tensor:
    """``x`` [B, T, H, D] by tables [1 or B, T, R]."""
    if not x.numel():
        return x.new_empty(x.shape)
    width = cos.shape[-1]
    dtype = torch.promote_types(x.dtype, cos.dtype)
    turning = x[..., :width].to(dtype).contiguous()
    tables = [t.to(dtype).contiguous() for t in (cos, sin)]
    if cos.shape[0] == 1:
        turned = npu("npu_rotary_mul")(turning, *(t[:, :, None] for t in tables), mode)
    else:
        tables = [t.expand(x.shape[0], -1, -1).flatten(0, 1)[:, None] for t in tables]
        turned = npu("npu_rotary_mul")(turning.flatten(0, 1), *tables, mode).view(turning.shape)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)
