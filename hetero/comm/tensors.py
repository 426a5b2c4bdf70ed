"""Tensors on their way into a collective: checked, described, dense."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hetero.errors import CommError


def check(t: object, name: str, device: torch.device) -> Tensor:
    """``t`` if a communicator on ``device`` can carry it.

    Raises:
        CommError: it is not a dense tensor there.
    """
    if not isinstance(t, Tensor):
        raise CommError(f"{name} must be a tensor, got {type(t).__name__}")
    if t.layout != torch.strided or t.is_quantized:
        raise CommError(
            f"{name} is {t.layout}{' quantized' * t.is_quantized}: collectives take dense tensors"
        )
    here = t.device.index is None or device.index is None or t.device.index == device.index
    if t.device.type != device.type or not here:
        raise CommError(
            f"{name} is on {t.device}, this communicator's device is {device}: move it there first"
        )
    return t


def check_list(tensors: object, name: str, count: int, device: torch.device) -> list[Tensor]:
    """``tensors`` as a list of ``count`` dense tensors of one dtype."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence) or len(tensors) != count:
        got = type(tensors).__name__ if not isinstance(tensors, Sequence) else f"{len(tensors)}"
        raise CommError(
            f"{name} must be a list of {count} tensors, one for each rank of the group; got {got}"
        )
    checked = [check(t, f"{name}[{i}]", device) for i, t in enumerate(tensors)]
    dtypes = {t.dtype for t in checked}
    if len(dtypes) > 1:
        raise CommError(f"{name} mixes dtypes ({', '.join(sorted(map(str, dtypes)))})")
    return checked


def check_splits(splits: Sequence[int] | None, name: str, count: int, rows: int) -> list[int]:
    """``splits`` as ``count`` row counts that sum to ``rows``; None: equal parts."""
    if splits is None:
        if rows % count:
            raise CommError(f"{rows} rows do not divide by {count} ranks: give {name}")
        return [rows // count] * count
    values = list(splits)
    if len(values) != count or any(n < 0 for n in values) or sum(values) != rows:
        raise CommError(f"{name}={values} must be {count} counts that sum to {rows} rows")
    return values


def show(t: Tensor) -> str:
    """``float32[3, 5]``."""
    return f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}"


def dense(t: Tensor) -> Tensor:
    """``t`` flat and contiguous, detached: ``t``'s own memory where it is that already, else a copy."""
    return t.detach().resolve_conj().resolve_neg().contiguous().view(-1)


def write_back(t: Tensor, flat: Tensor) -> None:
    """Give ``t`` the values of ``flat``, which :func:`dense` made of it."""
    if flat.data_ptr() != t.data_ptr():
        t.detach().copy_(flat.view(t.shape))


def as_bytes(flat: Tensor) -> Tensor:
    """The memory of a flat tensor as uint8."""
    return flat.view(torch.uint8)


def as_numbers(flat: Tensor, op: str) -> Tensor:
    """A flat tensor for reduction: complex numbers as pairs of reals.

    Raises:
        CommError: ``op`` does not work on the real and imaginary parts alone.
    """
    if not flat.is_complex():
        return flat
    if op not in ("sum", "avg"):
        raise CommError(f"{op} of complex numbers cannot be reduced in parts; only sum and avg can")
    return torch.view_as_real(flat).view(-1)
