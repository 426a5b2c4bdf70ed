"""Sample inputs shared by the ops' declarations: the odd shapes and values that break kernels."""

from __future__ import annotations

import torch
from torch import Tensor

#: (rows, width): one element, odd, prime, not a multiple of any vector, wide, many rows, none.
ROWS = ((1, 1), (3, 7), (5, 17), (4, 64), (2, 1000), (7, 1023), (33, 128), (0, 16))


def normal(
    shape: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype,
    generator: torch.Generator,
    scale: float = 1.0,
) -> Tensor:
    """Normal values times ``scale``, drawn on the CPU so that every device gets the same."""
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (drawn * scale).to(device=device, dtype=dtype)


def strided(x: Tensor) -> Tensor:
    """The same values with a gap after every row, as a slice of a wider buffer has."""
    wide = x.new_zeros((*x.shape[:-1], x.shape[-1] + 3))
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def labels_for(
    rows: int,
    classes: int,
    device: torch.device,
    generator: torch.Generator,
    ignore_index: int,
    ignored: float = 0.3,
) -> Tensor:
    """Random labels, about ``ignored`` of them ``ignore_index``."""
    labels = torch.randint(0, classes, (rows,), generator=generator)
    mask = torch.rand(rows, generator=generator) < ignored
    return torch.where(mask, torch.full_like(labels, ignore_index), labels).to(device)
