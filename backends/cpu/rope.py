"""rope on the compiled kernel; signatures as declared in hetero.ops."""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES, like
from hetero.errors import OpError


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    """``q`` and ``k`` [B, T, heads, D] rotated, contiguous.

    Raises:
        OpError: tables or positions that do not fit. IndexError: a position outside the table.
    """
    batch, tokens, _, dim = q.shape
    half = cos.shape[-1]
    wanted = (cos.shape[0],) if positions is not None else (cos.shape[0], tokens)
    if (
        cos.shape != (*wanted, half)
        or sin.shape != cos.shape
        or 2 * half > dim
        or k.shape[:2] != q.shape[:2]
        or k.shape[-1] != dim
        or (positions is not None and positions.shape != (batch, tokens))
        or (positions is None and cos.shape[0] not in (1, batch))
    ):
        raise OpError(
            f"rope: q {tuple(q.shape)}, k {tuple(k.shape)}, cos {tuple(cos.shape)}, sin {tuple(sin.shape)} and "
            f"positions {None if positions is None else tuple(positions.shape)} do not fit"
        )
    cos, sin = _table(cos), _table(sin)
    if cos.stride() != sin.stride():
        cos, sin = cos.contiguous(), sin.contiguous()
    if positions is not None:
        positions = positions.contiguous()
        strides = (0, cos.stride(0))
    else:
        strides = (cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1))
    rest = (
        cos.data_ptr(), sin.data_ptr(), *strides, cos.shape[0], 0 if positions is None else positions.data_ptr(),
        interleaved, inverse,
    )  # fmt: skip
    return _rotate(q, half, rest), _rotate(k, half, rest)


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
    if x.stride(3) != 1 and x.shape[3] > 1:
        x = x.contiguous()
    kernels().rope(
        x.shape,
        half,
        x.data_ptr(),
        x.stride()[:3],
        CODES[x.dtype],
        *rest,
        y.data_ptr(),
        torch.get_num_threads(),
    )
    return y


def _table(t: Tensor) -> Tensor:
    """float32 with adjacent elements in a row."""
    t = t.float()
    return t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()
