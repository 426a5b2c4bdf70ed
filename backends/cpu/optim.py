"""adamw and clip_grad_norm on the compiled kernels; signatures as declared in hetero.ops. Both work in place."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES


def adamw(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], masters: list[Tensor],
    grad_scale: Tensor | None, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    """One step for all tensors, of any strides; those that differ or leave gaps are copied and put back."""
    if not params:
        return
    copies: list[tuple[Tensor, Tensor]] = []
    groups = []
    for i, param in enumerate(params):
        group = [param, grads[i], exp_avgs[i], exp_avg_sqs[i], *([masters[i]] if masters else [])]
        if not _aligned(group):
            flat = [t.contiguous() for t in group]
            copies += [(t, f) for j, (t, f) in enumerate(zip(group, flat)) if j != 1 and t is not f]
            group = flat
        groups.append(group)
    columns = list(zip(*groups))
    addresses = [[t.data_ptr() for t in column] for column in columns]
    kernels().adamw(
        [p.numel() for p in params], *addresses[:4], addresses[4] if masters else [],
        [CODES[p.dtype] for p in params], [CODES[g.dtype] for g in grads],
        grad_scale.data_ptr() if grad_scale is not None else 0,
        lr, beta1, beta2, eps, weight_decay, step, torch.get_num_threads(),
    )  # fmt: skip
    for original, copy in copies:
        original.copy_(copy)


def clip_grad_norm(grads: list[Tensor], max_norm: float) -> Tensor:
    """The joint 2-norm, after scaling the gradients to at most ``max_norm``."""
    flat = [g if _dense(g) else g.contiguous() for g in grads]
    norm = torch.empty(())
    kernels().clip(
        [g.numel() for g in flat], [g.data_ptr() for g in flat], [CODES[g.dtype] for g in flat], max_norm,
        norm.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    for original, copy in zip(grads, flat):
        if original is not copy:
            original.copy_(copy)
    return norm


def _dense(t: Tensor) -> bool:
    """Whether the elements fill one stretch of memory, each once, in whatever order."""
    return t.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(t)


def _aligned(group: Iterable[Tensor]) -> bool:
    """Whether equal offsets from the tensors' addresses are equal elements."""
    first, *rest = group
    if first.is_contiguous():
        return all(t.is_contiguous() for t in rest)
    return _dense(first) and all(t.stride() == first.stride() for t in rest)
