"""All tensors of a call on one device: a kernel would take an address of one device for memory of another."""

from __future__ import annotations

from torch import Tensor

from hetero.errors import OpError


def one_device(op: str, first: Tensor, **others: Tensor | None) -> None:
    """Refuse a tensor of ``others`` that is not where ``first`` is (the meta device included).

    Raises:
        OpError: names the argument and both devices.
    """
    device = first.device
    for name, tensor in others.items():
        if tensor is not None and tensor.device != device:
            raise OpError(f"{op}: {name} is on {tensor.device}, the first operand on {device}; move it there")
