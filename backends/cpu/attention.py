"""attention and attention_varlen over torch's own flash attention for the CPU, which keeps no scores in memory.

It is called below autograd, where it hands out the log-sum-exp. It knows a causal mask through the upper left corner
and any additive mask; windows and masks of ours become the latter. Rows that see no key are NaN there and are set
right here. Documents are a loop: time goes with the sum of their squared lengths, as it should. Half precision is
computed in float32: torch's bf16 kernel is no faster, and its log-sum-exp is off by 6e-5.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from hetero.ops.definitions import attention as dense
from hetero.ops.definitions import attention_varlen as packed
from hetero.ops.where import Facts

#: Changes with this file; results also change with torch, whose version is part of a record's version.
REVISION = 1


def fits(facts: Facts) -> str | None:
    """What torch's kernel cannot do."""
    if facts.sizes["value_dim"] != facts.last_dim:
        return f"value dimension {facts.sizes['value_dim']} is not that of the keys, {facts.last_dim}"
    return None


@cache
def _knows_groups() -> bool:
    """Whether this torch's kernel takes fewer key heads than query heads."""
    q, k = torch.zeros(1, 2, 1, 8), torch.zeros(1, 1, 1, 8)
    try:
        out = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)[0]
    except RuntimeError:
        return False
    return out.shape == q.shape


def _heads(t: Tensor, heads: int) -> Tensor:
    """``t`` [B, tokens, key heads, D] as float32 [B, heads, tokens, D], one key head a query head if need be."""
    t = t.transpose(1, 2).float()
    if t.shape[1] != heads and not _knows_groups():
        t = t.repeat_interleave(heads // t.shape[1], 1)
    return t if t.stride(-1) == 1 else t.contiguous()


def _hidden(
    q: Tensor, k: Tensor, mask: Tensor | None, left: int, right: int, lower_right: bool
) -> tuple[bool, Tensor | None]:
    """``(causal, keep)`` for the kernel; ``keep`` [B or 1, heads or 1, queries, keys]."""
    queries, keys = q.shape[1], k.shape[1]
    if left >= keys - 1:
        left = -1
    if mask is None and left < 0 and right == 0 and (queries == keys or not lower_right):
        return True, None
    seen = dense.visible(queries, keys, left, right, lower_right, q.device)
    if mask is not None:
        seen = mask if seen is None else mask & seen
    return False, None if seen is None else seen[(None,) * (4 - seen.dim())]


def _additive(keep: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    if keep is None:
        return None
    bias = torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))
    return bias.expand(*keep.shape[:2], q.shape[1], k.shape[1])


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, left: int, right: int, lower_right: bool,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(out [B, queries, heads, D], lse [B, heads, queries])``."""
    if not (q.numel() and k.numel()):
        return dense._forward(q, k, v, mask, scale, left, right, lower_right, softcap)
    causal, keep = _hidden(q, k, mask, left, right, lower_right)
    heads = q.shape[2]
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        _heads(q, heads),
        _heads(k, heads),
        _heads(v, heads),
        0.0,
        causal,
        attn_mask=_additive(keep, q, k),
        scale=scale,
    )
    out = out.transpose(1, 2).to(q.dtype)
    if keep is not None:
        empty = ~keep.any(-1).expand(lse.shape)
        lse = lse.masked_fill(empty, float("-inf"))
        out = out.masked_fill(empty.transpose(1, 2)[..., None], 0)
    return out.contiguous(), lse.contiguous()


def attention_backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor, scale: float,
    left: int, right: int, lower_right: bool, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(dq, dk, dv)``."""
    if not (q.numel() and k.numel()):
        return dense._backward(g_out, q, k, v, mask, out, lse, scale, left, right, lower_right, softcap)
    causal, keep = _hidden(q, k, mask, left, right, lower_right)
    if keep is not None:
        empty = lse == float("-inf")
        lse = lse.masked_fill(empty, 0)
        g_out = g_out.masked_fill(empty.transpose(1, 2)[..., None], 0)
    heads, kv_heads = q.shape[2], k.shape[2]
    given = (_heads(t, heads) for t in (g_out, q, k, v, out))
    grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *given, lse, 0.0, causal, attn_mask=_additive(keep, q, k), scale=scale
    )
    d_q, d_k, d_v = (g.transpose(1, 2) for g in grads)
    if d_k.shape[2] != kv_heads:
        d_k, d_v = (g.unflatten(2, (kv_heads, -1)).sum(3) for g in (d_k, d_v))
    return d_q.to(q.dtype).contiguous(), d_k.to(q.dtype).contiguous(), d_v.to(q.dtype).contiguous()


def attention_varlen(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, scale: float, left: int, right: int,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(out [tokens, heads, D], lse [heads, tokens])``."""
    out, lse = packed._fake_forward(q, k, v)
    out.zero_()
    lse.fill_(float("-inf"))
    for a, b in packed._documents(cu_seqlens_q, cu_seqlens_k):
        o, s = attention(q[None, a], k[None, b], v[None, b], None, scale, left, right, True, softcap)
        out[a], lse[:, a] = o[0], s[0]
    return out, lse


def attention_varlen_backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, out: Tensor,
    lse: Tensor, scale: float, left: int, right: int, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(dq, dk, dv)``."""
    d_q, d_k, d_v = (t.zero_() for t in dense.fake_backward(g_out, q, k, v))
    for a, b in packed._documents(cu_seqlens_q, cu_seqlens_k):
        given = g_out[None, a], q[None, a], k[None, b], v[None, b], None, out[None, a], lse[None, :, a]
        found = attention_backward(*given, scale, left, right, True, softcap)
        d_q[a], d_k[b], d_v[b] = (t[0] for t in found)
    return d_q, d_k, d_v
