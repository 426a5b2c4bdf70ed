"""The loss of each sampled token, before it is summed.

``log_ratio = log p - log p_old`` and ``A`` the advantage. ``sg`` lets no gradient through.

================  ==========================================================================================
clip              ``-min(min(r, delta) A, clip(r, 1 - low, 1 + high) A)``, ``r = exp(log_ratio)`` (PPO, Schulman et al.
                  2017, arXiv 1707.06347; ``high > low`` is DAPO's clip-higher, arXiv 2503.14476; ``delta`` bounds the
                  ratio where the advantage is negative, INTELLECT-2, arXiv 2505.07291)
dual_clip         ``clip`` with, for A < 0, at most ``-c A`` (Ye et al. 2020, arXiv 1912.09729)
cispo             ``-sg(min(r, high)) A log p`` (MiniMax-M1, arXiv 2506.13585); the cap is ``high`` itself
sapo              ``-(4 / tau) sigmoid(tau (r - 1)) A``, tau for A > 0 and for A <= 0 (arXiv 2511.20347)
vespo             ``-sg(phi) A log p``, ``phi = exp(lam + k log w - lam w)`` of the sequence's weight w
================  ==========================================================================================
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Log-ratios of sequences are sums and can be large; exp of more than this is no longer a useful weight.
_LOG_LIMIT = 20.0


def log_weights(log_ratio: Tensor, mask: Tensor, level: str = "token") -> Tensor:
    """Log importance weights: [B, T] for each "token", [B, 1] for each "sequence".

    A sequence's is the mean over its tokens (GSPO, Zheng et al. 2025, arXiv 2507.18071).
    """
    if level == "token":
        return log_ratio
    if level == "sequence":
        return (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    raise ValueError(f"importance_sampling_level {level!r} is not token or sequence")


def clip(
    weights: Tensor,
    advantages: Tensor,
    low: float,
    high: float,
    delta: float | None = None,
    dual: float | None = None,
) -> Tensor:
    """The clipped objective of importance weights; see the table. ``delta`` and ``dual`` are off when None."""
    bounded = weights if delta is None else weights.clamp(max=delta)
    loss = -torch.minimum(bounded * advantages, weights.clamp(1 - low, 1 + high) * advantages)
    if dual is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -dual * advantages), loss)


def cispo(log_p: Tensor, weights: Tensor, advantages: Tensor, high: float) -> Tensor:
    return -weights.clamp(max=high).detach() * advantages * log_p


def sapo(weights: Tensor, advantages: Tensor, positive: float = 1.0, negative: float = 1.05) -> Tensor:
    tau = torch.where(advantages > 0, positive, negative)
    return -(4 / tau) * torch.sigmoid(tau * (weights - 1)) * advantages


def vespo(
    log_p: Tensor,
    log_ratio: Tensor,
    advantages: Tensor,
    mask: Tensor,
    positive: tuple[float, float] = (2.0, 3.0),
    negative: tuple[float, float] = (3.0, 2.0),
    correction: Tensor | None = None,
) -> Tensor:
    """Weights a whole sequence by a gamma-shaped function of its importance weight; (k, lam) by the advantage's sign.

    ``correction`` multiplies the weight by that between rollout and trainer.
    """
    log_w = (log_ratio * mask).sum(-1, keepdim=True)
    if correction is not None:
        log_w = log_w + (correction.clamp(min=1e-8).log() * mask).sum(-1, keepdim=True)
    log_w = log_w.clamp(-_LOG_LIMIT, _LOG_LIMIT)
    k = torch.where(advantages >= 0, positive[0], negative[0])
    lam = torch.where(advantages >= 0, positive[1], negative[1])
    phi = torch.exp(lam + k * log_w - lam * log_w.exp())
    return -phi.detach() * advantages * log_p


def high_entropy(entropy: Tensor, mask: Tensor, quantile: float) -> Tensor:
    """1 on the share ``quantile`` of the masked tokens with the highest entropy (Wang et al. 2025, arXiv 2506.01939).

    ``quantile`` 1 keeps all. The threshold is over all the tokens given: hand in those of the whole batch.
    """
    kept = entropy[mask.bool()].float()
    if kept.numel() == 0:
        return torch.zeros_like(mask)
    return (entropy >= torch.quantile(kept, 1 - quantile)).to(mask.dtype) * mask
