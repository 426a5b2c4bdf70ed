"""The last linear layer joined to a loss: torch's matrix products around AscendC kernels over rows of logits.

Signatures as declared in hetero.ops. Tokens are taken a chunk at a time; a chunk's logits are overwritten with their
gradient, which goes into the next matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend import ascendc_loss
from hetero.backends.ascend.ascendc import CODES, kernels, place
from hetero.ops.definitions import linear_head


def fused_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, token_scale: Tensor | None,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``(loss, lse, d_hidden, d_weight, d_bias)``; the gradients are of ``sum(token_scale * loss)``, where given."""
    loss, lse = (hidden.new_empty(hidden.shape[0], dtype=torch.float32) for _ in range(2))
    want = token_scale is not None
    gradients = linear_head.Gradients(hidden, weight, bias, want and need_hidden, want and need_weight)
    options = (ignore_index, label_smoothing, z_loss, softcap)
    for part in linear_head.chunks(hidden.shape[0], weight.shape[0]):
        z = linear_head.logits_of(hidden[part], weight, bias).contiguous()
        loss[part], lse[part] = ascendc_loss.cross_entropy(z, labels[part], *options)
        if token_scale is not None and (need_hidden or need_weight):
            gradients.add(
                part, ascendc_loss.gradient(z, token_scale[part], z, labels[part], lse[part], *options)
            )
    return loss, lse, *gradients.take()


def fused_linear_cross_entropy_backward(
    g_loss: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(d_hidden, d_weight, d_bias)`` for any upstream gradient; the logits are made again."""
    gradients = linear_head.Gradients(hidden, weight, bias, need_hidden, need_weight)
    options = (ignore_index, label_smoothing, z_loss, softcap)
    for part in linear_head.chunks(hidden.shape[0], weight.shape[0]):
        z = linear_head.logits_of(hidden[part], weight, bias).contiguous()
        gradients.add(part, ascendc_loss.gradient(z, g_loss[part], z, labels[part], lse[part], *options))
    return gradients.take()


def linear_log_prob(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, temperature: float, softcap: float,
    ignore_index: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(logp, entropy, lse)``, 0 where ignored; ``logp`` is NaN where the label is outside ``[0, V)``."""
    count = hidden.shape[0]
    logp, entropy, lse = (hidden.new_empty(count, dtype=torch.float32) for _ in range(3))
    labels = labels.contiguous()
    for part in linear_head.chunks(count, weight.shape[0]):
        z = linear_head.logits_of(hidden[part], weight, bias).contiguous()
        kernels().log_prob(
            place(z), z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(),
            ignore_index, temperature, softcap, logp[part].data_ptr(), entropy[part].data_ptr(), lse[part].data_ptr(),
            0, 0, 0, 0,
        )  # fmt: skip
    return logp, entropy, lse


def linear_log_prob_backward(
    g_logp: Tensor, g_entropy: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    entropy: Tensor, temperature: float, softcap: float, ignore_index: int, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(d_hidden, d_weight, d_bias)``; the logits are made again."""
    gradients = linear_head.Gradients(hidden, weight, bias, need_hidden, need_weight)
    labels, lse, entropy = labels.contiguous(), lse.contiguous(), entropy.contiguous()
    g_logp, g_entropy = g_logp.float().contiguous(), g_entropy.float().contiguous()
    for part in linear_head.chunks(hidden.shape[0], weight.shape[0]):
        z = linear_head.logits_of(hidden[part], weight, bias).contiguous()
        kernels().log_prob(
            place(z), z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(),
            ignore_index, temperature, softcap, 0, entropy[part].data_ptr(), lse[part].data_ptr(),
            g_logp[part].data_ptr(), g_entropy[part].data_ptr(), z.data_ptr(), z.stride(0),
        )  # fmt: skip
        gradients.add(part, z)
    return gradients.take()
