"""rope on the AscendC kernel; signatures as declared in hetero.ops.

Unlike ``npu_rotary_mul`` it takes float32 tables with bfloat16 heads, tables by position, partial and odd head sizes.
"""

from __future__ import annotations

from torch import Tensor

from hetero.backends.ascend.ascendc import CODES, kernels, like, place


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    """``q`` and ``k`` [B, T, heads, D] rotated, contiguous. A position outside the table gives NaN for its token."""
    cos, sin = _table(cos), _table(sin)
    if cos.stride() != sin.stride():
        cos, sin = cos.contiguous(), sin.contiguous()
    if positions is not None:
        positions = positions.contiguous()
        strides = (0, cos.stride(0))
    else:
        strides = (cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1))
    size = sum((n - 1) * s for n, s in zip(cos.shape, cos.stride())) + 1 if cos.numel() else 0
    rest = (
        cos.data_ptr(), sin.data_ptr(), *strides, cos.shape[0], size, 0 if positions is None else positions.data_ptr(),
        interleaved, inverse,
    )  # fmt: skip
    return _rotate(q, cos.shape[-1], rest), _rotate(k, cos.shape[-1], rest)


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


def _rotate(x: Tensor, half: int, rest: tuple[int | bool, ...]) -> Tensor:
    y = like(x)
    if not x.numel():
        return y
    if (x.stride(3) != 1 and x.shape[3] > 1) or x.stride(2) < x.shape[3]:
        x = x.contiguous()
    kernels().rope(place(x), x.shape, half, x.data_ptr(), x.stride()[:3], CODES[x.dtype], *rest, y.data_ptr())
    return y


def _table(t: Tensor) -> Tensor:
    """float32 with adjacent elements in a row."""
    t = t.float()
    return t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()
