"""Tensors as the kernels want them: an address, adjacent elements within a row, the distance between rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: DLPack's type code and bit width of the storage dtypes that the kernels take.
CODES = {torch.float32: (2 << 8) | 32, torch.bfloat16: (4 << 8) | 16}


class Rows(NamedTuple):
    """A tensor ``[..., width]`` as rows; ``tensor`` owns the memory that ``address`` points to."""

    tensor: Tensor
    address: int
    rows: int
    width: int
    stride: int


def rows(x: Tensor) -> Rows:
    """``x`` as rows, without a copy wherever its strides allow."""
    width = x.shape[-1]
    if x.is_contiguous():
        return Rows(x, x.data_ptr(), x.numel() // width if width else x.shape[:-1].numel(), width, width)
    flat = x if x.dim() == 2 else x.reshape(x.shape[:-1].numel(), width)
    if width > 1 and flat.stride(1) != 1:
        flat = flat.contiguous()
    return Rows(flat, flat.data_ptr(), flat.shape[0], width, flat.stride(0))


def like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised and contiguous, in ``x``'s shape."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def per_row(x: Tensor) -> Tensor:
    """Uninitialised float32, one element for each row of ``x``."""
    leading = x.shape[:-1]
    return (
        torch.empty(*leading) if leading else torch.empty(())
    )  # sizes one by one: parsing a tuple takes longer


def none(x: Tensor) -> Tensor:
    """What stands for a gradient that was not asked for: empty, in ``x``'s dtype."""
    return torch.empty(0, dtype=x.dtype)
