"""fused_add_rms_norm on the AscendC kernels; signatures as declared in hetero.ops."""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.ascendc import CODES, kernels, like, place, rows


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, x + residual, rstd)``."""
    y, s, rstd = like(x), like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)
    if not x.numel():
        return y, s, rstd
    xs, rs, w = rows(x), rows(residual), _weight(weight, x)
    kernels().add_rms_norm(
        place(x), xs.rows, xs.width, xs.address, xs.stride, rs.address, rs.stride, CODES[x.dtype], w.data_ptr(),
        CODES[w.dtype], y.data_ptr(), s.data_ptr(), rstd.data_ptr(), eps, offset, casting == "llama",
    )  # fmt: skip
    return y, s, rstd


def fused_add_rms_norm_backward(
    g_y: Tensor, g_s: Tensor, s: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(ds, dweight or empty)``; ``ds`` is the gradient of ``x`` and of ``residual``."""
    ds = like(s)
    w = _weight(weight, s)
    d_weight = like(w) if weight is not None else s.new_empty(0)
    if not s.numel():
        return ds, d_weight.zero_() if weight is None else torch.zeros_like(weight)
    ss, gs, more, rstd = rows(s), rows(g_y.to(s.dtype)), rows(g_s.to(s.dtype)), rstd.contiguous()
    where = place(s)
    work = s.new_empty(
        kernels().add_rms_norm_backward_work(ss.rows, ss.width, where.cores), dtype=torch.float32
    )
    kernels().add_rms_norm_backward(
        where, ss.rows, ss.width, gs.address, gs.stride, more.address, more.stride, ss.address, ss.stride,
        CODES[s.dtype], w.data_ptr(), CODES[w.dtype], rstd.data_ptr(), offset, ds.data_ptr(), d_weight.data_ptr(),
        work.data_ptr(),
    )  # fmt: skip
    return ds, d_weight if weight is None else d_weight.to(weight.dtype)


def _weight(weight: Tensor | None, x: Tensor) -> Tensor:
    """Adjacent elements in ``x``'s dtype or float32, which holds any other exactly; empty (address 0) for none."""
    if weight is None:
        return x.new_empty(0)
    return (weight if weight.dtype in (x.dtype, torch.float32) else weight.float()).contiguous()
