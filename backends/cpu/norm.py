"""rms_norm, fused_add_rms_norm and layer_norm on the compiled kernels; signatures as declared in hetero.ops."""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES, like, none, per_row, rows


def rms_norm(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(y, rstd)``."""
    y, _, rstd = _rms_norm(x, None, weight, eps, offset, casting)
    return y, rstd


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, x + residual, rstd)``."""
    return _rms_norm(x, residual, weight, eps, offset, casting)


def _rms_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor, Tensor]:
    xs = rows(x)
    rs = rows(residual) if residual is not None else None
    w = _weight(weight)
    y, rstd = like(x), per_row(x)
    s = like(x) if residual is not None else none(x)
    kernels().rms_norm(
        xs.rows, xs.width, xs.address, xs.stride, rs.address if rs else 0, rs.stride if rs else 0, CODES[x.dtype],
        w.data_ptr(), CODES[w.dtype], y.data_ptr(), s.data_ptr(), rstd.data_ptr(), eps, offset, casting == "llama",
        torch.get_num_threads(),
    )  # fmt: skip
    return y, s, rstd


def rms_norm_backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(dx, dweight or empty)``."""
    return _rms_norm_backward(g_y, None, x, weight, rstd, offset)


def fused_add_rms_norm_backward(
    g_y: Tensor, g_s: Tensor, s: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """``(ds, dweight or empty)``; ``ds`` is the gradient of ``x`` and of ``residual``."""
    return _rms_norm_backward(g_y, g_s, s, weight, rstd, offset)


def _rms_norm_backward(
    g_y: Tensor, g_s: Tensor | None, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float
) -> tuple[Tensor, Tensor]:
    xs, gs = rows(x), rows(g_y.to(x.dtype))
    more = rows(g_s.to(x.dtype)) if g_s is not None else None
    rstd = rstd.contiguous()
    w = _weight(weight)
    dx, dweight = like(x), like(weight) if weight is not None else none(x)
    kernels().rms_norm_backward(
        xs.rows, xs.width, gs.address, gs.stride, xs.address, xs.stride, more.address if more else 0,
        more.stride if more else 0, CODES[x.dtype], w.data_ptr(), CODES[w.dtype], rstd.data_ptr(), offset,
        dx.data_ptr(), dweight.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return dx, dweight


def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, mean, rstd)``."""
    xs = rows(x)
    weight, bias = _same_dtype(weight, bias)
    w, b = _weight(weight), _weight(bias)
    y, mean, rstd = like(x), per_row(x), per_row(x)
    code = CODES[w.dtype if weight is not None else b.dtype]
    kernels().layer_norm(
        xs.rows, xs.width, xs.address, xs.stride, CODES[x.dtype], w.data_ptr(), b.data_ptr(), code, y.data_ptr(),
        mean.data_ptr(), rstd.data_ptr(), eps, torch.get_num_threads(),
    )  # fmt: skip
    return y, mean, rstd


def layer_norm_backward(
    g_y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``(dx, dweight or empty, dbias or empty)``."""
    xs, gs = rows(x), rows(g_y.to(x.dtype))
    mean, rstd = mean.contiguous(), rstd.contiguous()
    w_in, b_in = _same_dtype(weight, bias)
    w = _weight(w_in)
    dx = like(x)
    dweight = like(w_in) if w_in is not None else none(x)
    dbias = like(b_in) if b_in is not None else none(x)
    code = CODES[b_in.dtype] if w_in is None and b_in is not None else CODES[w.dtype]
    kernels().layer_norm_backward(
        xs.rows, xs.width, gs.address, gs.stride, xs.address, xs.stride, CODES[x.dtype], w.data_ptr(), code,
        mean.data_ptr(), rstd.data_ptr(), dx.data_ptr(), dweight.data_ptr(), dbias.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    if weight is not None and bias is not None:
        dweight, dbias = dweight.to(weight.dtype), dbias.to(bias.dtype)
    return dx, dweight, dbias


def _weight(weight: Tensor | None) -> Tensor:
    """Adjacent elements; empty, whose address is 0, for none."""
    return torch.empty(0) if weight is None else weight.contiguous()


def _same_dtype(weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The kernels take weight and bias in one dtype; float32 holds both exactly."""
    if weight is None or bias is None or weight.dtype == bias.dtype:
        return weight, bias
    return weight.float(), bias.float()
