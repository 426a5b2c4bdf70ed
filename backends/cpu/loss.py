"""cross_entropy on the compiled kernels; signatures as declared in hetero.ops."""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES, like, rows


def cross_entropy(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """``(loss, lse)`` of each row of ``logits`` [N, V]; both are 0 where the label is ``ignore_index``.

    Raises:
        IndexError: a label outside ``[0, V)``.
    """
    x, labels = rows(logits), labels.contiguous()
    loss, lse = like(labels, torch.float32), like(labels, torch.float32)
    kernels().cross_entropy(
        x.rows, x.width, x.address, x.stride, CODES[logits.dtype], labels.data_ptr(), ignore_index, label_smoothing,
        z_loss, softcap, 0, 0, loss.data_ptr(), lse.data_ptr(), 0, 0, torch.get_num_threads(),
    )  # fmt: skip
    return loss, lse


def cross_entropy_backward(
    g_loss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float,
    z_loss: float, softcap: float,
) -> Tensor:  # fmt: skip
    """Gradient by the logits; exactly 0 in ignored rows."""
    d_logits = like(logits)
    if d_logits.numel() == 0:
        return d_logits
    x, labels, lse, scale = rows(logits), labels.contiguous(), lse.contiguous(), g_loss.float().contiguous()
    kernels().cross_entropy(
        x.rows, x.width, x.address, x.stride, CODES[logits.dtype], labels.data_ptr(), ignore_index, label_smoothing,
        z_loss, softcap, scale.data_ptr(), lse.data_ptr(), 0, 0, d_logits.data_ptr(), x.width,
        torch.get_num_threads(),
    )  # fmt: skip
    return d_logits
