"""Shared by the ops that join the last linear layer to a loss: logits one chunk of tokens at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide, wide_dtype

#: Upper bound for the elements of one chunk of logits (64 MiB in float32).
CHUNK_ELEMENTS = 1 << 24


def chunks(rows: int, classes: int) -> Iterator[slice]:
    """Slices of the rows whose logits are held at one time."""
    size = max(1, min(rows, CHUNK_ELEMENTS // max(classes, 1)))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def logits_of(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``hidden weight^T + bias``, multiplied in the storage dtype as an ordinary linear layer would."""
    return torch.nn.functional.linear(hidden, weight, bias)


class Gradients:
    """Collects the gradients of a linear layer over chunks of its logits' gradient, in at least float32."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, need_hidden: bool, need_weight: bool
    ) -> None:
        self.hidden, self.weight, self.bias = hidden, weight, bias
        acc = wide_dtype(weight.dtype)
        self.d_hidden = (
            torch.zeros_like(hidden, memory_format=torch.contiguous_format) if need_hidden else None
        )
        self.d_weight = weight.new_zeros(weight.shape, dtype=acc) if need_weight else None
        self.d_bias = bias.new_zeros(bias.shape, dtype=acc) if need_weight and bias is not None else None

    def add(self, part: slice, d_logits: Tensor) -> None:
        """Account for the rows ``part``, whose logits have the (wide) gradient ``d_logits``."""
        stored = d_logits.to(self.hidden.dtype)
        if self.d_hidden is not None:
            self.d_hidden[part] = stored @ self.weight
        if self.d_weight is not None:
            self.d_weight += (stored.T @ self.hidden[part]).to(self.d_weight.dtype)
        if self.d_bias is not None:
            self.d_bias += wide(d_logits).sum(0)

    def take(self) -> tuple[Tensor, Tensor, Tensor]:
        """``(d_hidden, d_weight, d_bias)`` in storage dtypes; an empty tensor for what was not asked for."""
        d_weight = self.weight.new_empty(0) if self.d_weight is None else self.d_weight.to(self.weight.dtype)
        d_bias = self.weight.new_empty(0)
        if self.d_bias is not None and self.bias is not None:
            d_bias = self.d_bias.to(self.bias.dtype)
        d_hidden = self.hidden.new_empty(0) if self.d_hidden is None else self.d_hidden
        return d_hidden, d_weight, d_bias


def fake_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, need_hidden: bool, need_weight: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Shapes of :meth:`Gradients.take`."""
    return (
        hidden.new_empty(hidden.shape if need_hidden else (0,)),
        weight.new_empty(weight.shape if need_weight else (0,)),
        weight.new_empty(bias.shape if need_weight and bias is not None else (0,)),
    )


def prepare(
    name: str, hidden: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Check the operands; return ``hidden`` as [N, H] and ``labels`` as [N]."""
    if (
        weight.dim() != 2
        or 0 in weight.shape
        or hidden.dim() == 0
        or hidden.shape[-1] != weight.shape[1]
        or hidden.dtype != weight.dtype
    ):
        raise OpError(
            f"{name}: hidden {hidden.dtype} {tuple(hidden.shape)} and weight {weight.dtype} {tuple(weight.shape)} do "
            "not fit; they are [..., hidden] and [classes, hidden] in one dtype"
        )
    if labels.shape != hidden.shape[:-1] or labels.dtype != torch.int64:
        raise OpError(
            f"{name}: labels must be int64 {tuple(hidden.shape[:-1])}, got {labels.dtype} {tuple(labels.shape)}"
        )
    if bias is not None and (tuple(bias.shape) != (weight.shape[0],) or bias.dtype != weight.dtype):
        raise OpError(
            f"{name}: bias {bias.dtype} {tuple(bias.shape)} does not fit weight {tuple(weight.shape)}"
        )
    one_device(name, hidden, weight=weight, labels=labels, bias=bias)
    return hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
