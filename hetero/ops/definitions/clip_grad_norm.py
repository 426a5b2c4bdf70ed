"""Global-norm gradient clipping without a host synchronisation.

``n = sqrt(sum |g|^2)`` in float32 over every tensor, then ``g *= min(1, max_norm / (n + 1e-6))``, as
``torch.nn.utils.clip_grad_norm_``. The norm stays on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.precision import wide, wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _clip(grads: list[Tensor], max_norm: float) -> Tensor:
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(wide(g)) for g in grads]))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.copy_(wide(g) * scale)
    return norm


def _fake(grads: list[Tensor], max_norm: float) -> Tensor:
    return grads[0].new_empty((), dtype=wide_dtype(grads[0].dtype))


def _prepare(grads: Sequence[Tensor], max_norm: float) -> tuple[Any, ...]:
    grads = list(grads)
    if not max_norm > 0:
        raise OpError(f"clip_grad_norm: max_norm={max_norm} must be positive (inf only measures)")
    if len({g.dtype for g in grads}) > 1 or len({g.device for g in grads}) > 1:
        raise OpError("clip_grad_norm: the grads of one call must have one dtype and one device")
    return grads, float(max_norm)


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def grads(scale: float) -> list[Tensor]:
        return [
            shapes.normal(s, device, dtype, generator, scale) for s in ((1,), (3, 7), (1023,), (0,), (64, 33))
        ]

    yield Sample("clipped", (grads(10.0), 1.0))
    yield Sample("not clipped", (grads(1e-3), 1.0))
    yield Sample("measured only", (grads(1.0), float("inf")))
    yield Sample("huge", (grads(1e4), 0.5))
    yield Sample("zeros", ([torch.zeros(5, device=device, dtype=dtype)], 1.0))


OP = declare(
    Op(
        name="clip_grad_norm",
        forward=Pass(
            "(Tensor(a!)[] grads, float max_norm) -> (Tensor norm)", _clip, _fake, operands=("grads",)
        ),
        backward=None,
        prepare=_prepare,
        samples=_samples,
        cost=lambda grads, _: Cost(3 * sum(g.numel() for g in grads), 3 * sum(g.nbytes for g in grads)),
    )
)


def clip_grad_norm(grads: Sequence[Tensor], max_norm: float) -> Tensor:
    """Scale ``grads`` in place so that their joint 2-norm is at most ``max_norm``.

    Args:
        grads: any shapes, one dtype and device; may be empty.
        max_norm: positive; ``inf`` measures and changes nothing.

    Returns:
        The norm before clipping: 0-dim float32 tensor on the gradients' device. If it is not finite, the gradients
        become NaN or 0 as with ``torch.nn.utils.clip_grad_norm_``: test it before the optimiser step.

    Raises:
        OpError: ``max_norm`` not positive, mixed dtypes or devices.
    """
    args = _prepare(grads, max_norm)
    return OP.forward(*args) if grads else torch.zeros(())
