"""Advantages from rewards: one number a completion, or one a token with a value model.

Groups are the completions of one prompt, G of them in consecutive rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Added to the standard deviation of rewards (GRPO, Shao et al. 2024, arXiv 2402.03300; the value is TRL's).
STD_EPSILON = 1e-4


def combine_rewards(rewards: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum [B] of the rewards [B, K] of K functions; NaN means that a function does not apply to a row.

    A row to which none applies is NaN: it has no reward, and :func:`group_relative` leaves it out.
    """
    total = (rewards * weights).nansum(1)
    return total.masked_fill(rewards.isnan().all(1), torch.nan)


def group_relative(rewards: Tensor, group: int, scale: str = "group") -> Tensor:
    """GRPO's advantage ``(r - mean) / (std + 1e-4)`` over the scored rows of each group, 0 for an unscored row.

    Args:
        rewards: [B] float, NaN where a completion could not be scored.
        group: G; B is a multiple of it.
        scale: divide by the standard deviation (n - 1 in the denominator) of the "group", of the "batch", or by
            "none" (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783). That of a single row counts as 0.
    """
    grouped = rewards.view(-1, group)
    centred = grouped - grouped.nanmean(1, keepdim=True)
    if scale == "group":
        centred = centred / (_std(grouped, 1) + STD_EPSILON)
    elif scale == "batch":
        centred = centred / (_std(grouped.flatten(), 0) + STD_EPSILON)
    elif scale != "none":
        raise ValueError(f"scale {scale!r} is not group, batch or none")
    return centred.nan_to_num(nan=0.0).flatten()


def group_of_rewards(rewards: Tensor, weights: Tensor, group: int) -> Tensor:
    """GDPO: each reward function [B, K] made relative to its group by itself, weighted, summed, then normalised over
    the batch, so that a function of small range is not drowned by one of large range.
    """
    each = torch.stack([group_relative(column, group) for column in rewards.unbind(1)], 1)
    total = (each * weights).sum(1)
    return (total - total.mean()) / (_std(total, 0) + STD_EPSILON)


def leave_one_out(rewards: Tensor, group: int) -> Tensor:
    """RLOO (Ahmadian et al. 2024, arXiv 2402.14740): the reward less the mean of the others' in the group."""
    if group < 2:
        raise ValueError("leave-one-out needs groups of at least 2 completions")
    grouped = rewards.view(-1, group)
    scored = (~grouped.isnan()).sum(1, keepdim=True)
    others = (grouped.nansum(1, keepdim=True) - grouped) / (scored - 1).clamp(min=1)
    return (grouped - others).nan_to_num(nan=0.0).flatten()


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """Discounted sum [B, T] of token rewards [B, T] from each token on; tokens outside ``mask`` are passed over."""
    out = torch.zeros_like(rewards)
    running = rewards.new_zeros(rewards.shape[0])
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t].bool()
        running = torch.where(here, rewards[:, t] + gamma * running, running)
        out[:, t] = torch.where(here, running, 0)
    return out


def generalized(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float = 1.0, lam: float = 0.95
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438): advantages and returns, both [B, T].

    ``delta_t = r_t + gamma v_{t+1} - v_t``, ``A_t = delta_t + gamma lam A_{t+1}``, returns ``A + v``. Tokens outside
    ``mask`` (padding, tool output) are passed over: the next token of the mask is the next in time.
    """
    out = torch.zeros_like(rewards)
    next_value = next_advantage = rewards.new_zeros(rewards.shape[0])
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t].bool()
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_advantage = torch.where(here, advantage, next_advantage)
        next_value = torch.where(here, values[:, t], next_value)
        out[:, t] = torch.where(here, advantage, 0)
    return out, (out + values) * mask


def whiten(values: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """``(x - mean) / sqrt(var + 1e-8)`` over the mask, variance with n - 1; the mean stays without ``shift_mean``."""
    count = mask.sum()
    mean = (values * mask).sum() / count.clamp(min=1)
    variance = (((values - mean) ** 2) * mask).sum() / (count - 1).clamp(min=1)
    white = (values - mean) * torch.rsqrt(variance + 1e-8)
    return (white if shift_mean else white + mean) * mask


def _std(values: Tensor, dim: int) -> Tensor:
    """Standard deviation over ``dim`` (kept), n - 1 in the denominator, NaN left out; 0 for fewer than two numbers."""
    mean = values.nanmean(dim, keepdim=True)
    count = (~values.isnan()).sum(dim, keepdim=True)
    return (((values - mean) ** 2).nansum(dim, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
