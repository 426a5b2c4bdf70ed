"""cross_entropy through ``npu_cross_entropy_loss``, for float32 logits.

The vendor's operator has no ignored rows for a negative ``ignore_index``, and a label outside [0, classes) reads
elsewhere: labels are put in range and the rows masked here. It is called for one loss a row, since its mean is a [1]
tensor and counts ignored rows. Its losses are in the dtype of the logits, which is why only float32 comes here, and it
writes the log-probabilities, as large as the logits, beside them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu
from hetero.ops.where import Facts

#: Most rows of one call with gradients. Source: op-plugin docs/zh/custom_APIs/torch_npu
MAX_ROWS = 200000
_NONE = -100  # negative: nothing is ignored


def cross_entropy(
    logits: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """Loss and log-sum-exp of each row; both 0 where the label is ignored."""
    if not logits.shape[0]:
        return logits.new_empty(labels.shape), logits.new_empty(labels.shape)
    kept = labels != ignore_index
    at = labels.where(kept, 0)
    loss = torch.cat([_losses(x, y) for x, y in zip(logits.split(MAX_ROWS), at.split(MAX_ROWS))])
    lse = loss + logits.gather(-1, at[:, None])[:, 0]
    return loss.where(kept, 0.0), lse.where(kept, 0.0)


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    return npu("npu_cross_entropy_loss")(logits.contiguous(), labels, None, "none", _NONE)[0].reshape(
        labels.shape
    )


def cross_entropy_backward(
    g_loss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float,
    z_loss: float, softcap: float,
) -> Tensor:  # fmt: skip
    """Gradient of ``sum(g_loss * loss)`` by the logits."""
    if not logits.shape[0]:
        return logits.new_empty(logits.shape)
    kept = labels != ignore_index
    # An ignored row has no log-sum-exp; one that is as good as infinite gives probabilities of 0 and no NaN.
    log_prob = (logits - lse.where(kept, torch.finfo(lse.dtype).max)[:, None]).contiguous()
    grads = g_loss.to(logits.dtype).where(kept, 0.0)
    parts = (t.split(MAX_ROWS) for t in (grads, log_prob, labels.where(kept, 0)))
    backward = npu("npu_cross_entropy_loss_backward")
    found = [backward(g, p, y, None, None, None, "none", _NONE) for g, p, y in zip(*parts)]
    return (found[0] if len(found) == 1 else torch.cat(found)).masked_fill_(~kept[:, None], 0.0)


def plain(facts: Facts) -> str | None:
    """Why a call is not the plain cross entropy that the vendor's operator is with gradients; None when it is."""
    for name in ("label_smoothing", "z_loss", "softcap"):
        if facts.flags[name]:
            return f"npu_cross_entropy_loss has no gradient with {name}"
    return None
