"""What ``npu_fusion_attention`` is documented to compute, written from the documentation with torch on the CPU."""

from __future__ import annotations

import math
from typing import Any

import torch

COMPRESSED = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1)


def heads_first(x: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    """[B, N, S, D] of a tensor in one of the dense layouts."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.unflatten(2, (heads, -1)).transpose(1, 2)
    return x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3)  # SBH


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The way back."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    return x.permute(2, 0, 1, 3).flatten(2)


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    left_out: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Softmax attention of [B, N, S, D] in float32; ``left_out`` is true where a score does not count."""
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1).float(), v.repeat_interleave(share, 1).float()
    scores = q.float() @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if left_out is not None:
        scores = scores.masked_fill(left_out, float("-inf"))
    return (scores.softmax(-1) @ v).to(q.dtype)


def causal(sq: int, skv: int, *, bottom_right: bool = False) -> torch.Tensor:
    """True above the diagonal that starts at the top left, or ends at the bottom right."""
    return torch.ones(sq, skv, dtype=torch.bool).triu(1 + (skv - sq if bottom_right else 0))


def fusion(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, layout: str, **kwargs: Any
) -> torch.Tensor:
    """The vendor's call; its scale is 1 unless one is passed."""
    import torch_npu

    return torch_npu.npu_fusion_attention(q, k, v, heads, layout, **kwargs)[0]
