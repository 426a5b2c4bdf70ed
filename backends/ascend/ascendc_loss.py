"""cross_entropy on the AscendC kernels; signatures as declared in hetero.ops.

Unlike ``npu_cross_entropy_loss`` it honours a negative ignore_index, gives float32 losses, and keeps no tensor of the
logits' size for the backward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.ascendc import CODES, kernels, like, place, rows


def cross_entropy(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """``(loss, lse)`` of each row of ``logits`` [N, V]; 0 where ignored, NaN where the label is outside ``[0, V)``."""
    loss, lse = like(labels, torch.float32), like(labels, torch.float32)
    if labels.numel():
        x, labels = rows(logits), labels.contiguous()
        kernels().cross_entropy(
            place(logits), x.rows, x.width, x.address, x.stride, CODES[logits.dtype], labels.data_ptr(), ignore_index,
            label_smoothing, z_loss, softcap, 0, loss.data_ptr(), lse.data_ptr(), 0, 0,
        )  # fmt: skip
    return loss, lse


def cross_entropy_backward(
    g_loss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float,
    z_loss: float, softcap: float,
) -> Tensor:  # fmt: skip
    """Gradient by the logits; exactly 0 in ignored rows."""
    return gradient(like(logits), g_loss, logits, labels, lse, ignore_index, label_smoothing, z_loss, softcap)


def gradient(
    to: Tensor, g_loss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float,
    z_loss: float, softcap: float,
) -> Tensor:  # fmt: skip
    """The same, written to ``to``, which is contiguous and may be ``logits``."""
    if labels.numel():
        x, labels, lse, scale = (
            rows(logits),
            labels.contiguous(),
            lse.contiguous(),
            g_loss.float().contiguous(),
        )
        kernels().cross_entropy(
            place(logits), x.rows, x.width, x.address, x.stride, CODES[logits.dtype], labels.data_ptr(), ignore_index,
            label_smoothing, z_loss, softcap, scale.data_ptr(), 0, lse.data_ptr(), to.data_ptr(), x.width,
        )  # fmt: skip
    return to
