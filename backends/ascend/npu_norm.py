"""rms_norm and fused_add_rms_norm through ``npu_rms_norm`` and ``npu_add_rms_norm``.

The vendor's kernels compute in float32 to the end and round once. ``casting="llama"`` asks for a rounding before the
weight too: in 16-bit dtypes the vendor's result differs from that in the last bit, towards the exact one; in float32
the two are the same. The gradient of the weight comes back in float32 whatever its dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu


def _gamma(x: Tensor, weight: Tensor | None, offset: float) -> Tensor:
    """``weight + offset`` in ``x``'s dtype where that is exact, else in float32: the kernel takes both."""
    if weight is None:
        return torch.full((x.shape[-1],), 1.0 + offset, dtype=torch.float32, device=x.device)
    if not offset and weight.dtype == x.dtype:
        return weight.contiguous()
    return weight.float() + offset


def _empty(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=torch.float32)


def rms_norm(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(y, rstd)``."""
    if not x.numel():
        return _empty(x)
    y, rstd = npu("npu_rms_norm")(x.contiguous(), _gamma(x, weight, offset), eps)
    return y, rstd.squeeze(-1)


def rms_norm_backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(dx, dweight or empty)``."""
    if not x.numel():
        return x.new_empty(x.shape), x.new_empty(0) if weight is None else torch.zeros_like(weight)
    gamma = _gamma(x, weight, offset)
    dx, dgamma = npu("npu_rms_norm_backward")(
        g_y.to(x.dtype).contiguous(), x.contiguous(), gamma, rstd.contiguous()[..., None]
    )
    return dx, x.new_empty(0) if weight is None else dgamma.to(weight.dtype)


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, x + residual, rstd)``."""
    if not x.numel():
        y, rstd = _empty(x)
        return y, x.new_empty(x.shape), rstd
    gamma = _gamma(x, weight, offset)
    if (
        gamma.dtype != x.dtype
    ):  # npu_add_rms_norm wants x's dtype, in which 1 + weight would lose its last bits
        s = (x + residual).contiguous()
        return (y_rstd := rms_norm(s, weight, eps, offset, casting))[0], s, y_rstd[1]
    y, rstd, s = npu("npu_add_rms_norm")(x.contiguous(), residual.contiguous(), gamma, eps)
    return y, s, rstd.squeeze(-1)


def fused_add_rms_norm_backward(
    g_y: Tensor, g_s: Tensor, s: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(ds, dweight or empty)``: npu_add_rms_norm has no derivative, so this is ours from the plain one's."""
    ds, dweight = rms_norm_backward(g_y, s, weight, rstd, offset, casting)
    return ds.add_(g_s) if ds.dtype == g_s.dtype else (ds.float() + g_s).to(s.dtype), dweight
