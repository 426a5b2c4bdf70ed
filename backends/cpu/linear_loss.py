"""fused_linear_cross_entropy and linear_log_prob: torch's matrix products around the compiled row kernels.

Signatures as declared in hetero.ops.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.cpu.linear_head import Head, Kept, each_chunk
from hetero.backends.cpu.native import kernels
from hetero.backends.cpu.views import CODES


def fused_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, token_scale: Tensor | None,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``(loss, lse, d_hidden, d_weight, d_bias)``; the gradients are of ``sum(token_scale * loss)``, where given.

    Raises:
        IndexError: a label outside ``[0, V)``.
    """
    kept, labels = _kept(labels, weight.shape[0], ignore_index)
    want = token_scale is not None
    head = Head(kept.take(hidden), weight, bias, want and need_hidden, want and need_weight)
    scale = kept.take(token_scale.float()) if token_scale is not None else None
    loss, lse = torch.empty(kept.count), torch.empty(kept.count)

    def rows(part: slice, z: Tensor) -> None:
        gradient = want and (need_hidden or need_weight)
        kernels().cross_entropy(
            z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(), ignore_index,
            label_smoothing, z_loss, softcap, _address(scale, part), 0, loss[part].data_ptr(), lse[part].data_ptr(),
            z.data_ptr() if gradient else 0, z.stride(0), torch.get_num_threads(),
        )  # fmt: skip

    each_chunk(head, rows, with_gradients=want)
    return kept.put(loss), kept.put(lse), *head.gradients(kept)


def fused_linear_cross_entropy_backward(
    g_loss: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(d_hidden, d_weight, d_bias)`` for any upstream gradient; the logits are made again."""
    kept, labels = _kept(labels, weight.shape[0], ignore_index)
    head = Head(kept.take(hidden), weight, bias, need_hidden, need_weight)
    scale, lse = kept.take(g_loss.float()), kept.take(lse)

    def rows(part: slice, z: Tensor) -> None:
        kernels().cross_entropy(
            z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(), ignore_index,
            label_smoothing, z_loss, softcap, _address(scale, part), _address(lse, part), 0, 0,
            z.data_ptr(), z.stride(0), torch.get_num_threads(),
        )  # fmt: skip

    each_chunk(head, rows, with_gradients=True)
    return head.gradients(kept)


def linear_log_prob(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, temperature: float, softcap: float,
    ignore_index: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(logp, entropy, lse)``, 0 where ignored.

    Raises:
        IndexError: a label outside ``[0, V)``.
    """
    kept, labels = _kept(labels, weight.shape[0], ignore_index)
    head = Head(kept.take(hidden), weight, bias, False, False)
    logp, entropy, lse = (torch.empty(kept.count) for _ in range(3))

    def rows(part: slice, z: Tensor) -> None:
        kernels().log_prob(
            z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(), ignore_index,
            temperature, softcap, logp[part].data_ptr(), entropy[part].data_ptr(), lse[part].data_ptr(), 0, 0,
            0, 0, torch.get_num_threads(),
        )  # fmt: skip

    each_chunk(head, rows, with_gradients=False)
    return kept.put(logp), kept.put(entropy), kept.put(lse)


def linear_log_prob_backward(
    g_logp: Tensor, g_entropy: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    entropy: Tensor, temperature: float, softcap: float, ignore_index: int, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(d_hidden, d_weight, d_bias)``; the logits are made again."""
    kept, labels = _kept(labels, weight.shape[0], ignore_index)
    head = Head(kept.take(hidden), weight, bias, need_hidden, need_weight)
    lse, entropy = kept.take(lse), kept.take(entropy)
    g_logp, g_entropy = kept.take(g_logp.float()), kept.take(g_entropy.float())

    def rows(part: slice, z: Tensor) -> None:
        kernels().log_prob(
            z.shape[0], z.shape[1], z.data_ptr(), z.stride(0), CODES[z.dtype], labels[part].data_ptr(), ignore_index,
            temperature, softcap, 0, entropy[part].data_ptr(), lse[part].data_ptr(), g_logp[part].data_ptr(),
            g_entropy[part].data_ptr(), z.data_ptr(), z.stride(0), torch.get_num_threads(),
        )  # fmt: skip

    each_chunk(head, rows, with_gradients=True)
    return head.gradients(kept)


def _kept(labels: Tensor, vocab: int, ignore_index: int) -> tuple[Kept, Tensor]:
    """The rows that count and their labels, once all labels are known to be in range."""
    labels = labels.contiguous()
    kernels().check_labels(labels.data_ptr(), labels.numel(), vocab, ignore_index)
    kept = Kept(labels, ignore_index)
    return kept, kept.take(labels)


def _address(t: Tensor | None, part: slice) -> int:
    return 0 if t is None else t[part].data_ptr()
