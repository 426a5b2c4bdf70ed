"""The dtype that maths is done in."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """``x`` in float32, or float64 if it is that already (so that references can be checked in float64)."""
    return x if x.dtype == torch.float64 else x.float()


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that :func:`wide` gives."""
    return torch.float64 if dtype == torch.float64 else torch.float32
