"""attention and attention_varlen through ``npu_fusion_attention``.

Its mask is the opposite of torch's: True hides. A sparse mode without a mask is ignored and everything is seen, so the
compressed 2048 x 2048 mask always goes with it. Scale is always passed (the default is 1). A query that sees no key is
not defined by the vendor: where there may be one, ``inner_precise=2`` is asked for and its row is zeroed here. The
backward pass takes maximum and sum of each row; the log-sum-exp as the maximum, with a sum of 1, says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu
from hetero.ops.definitions import attention as dense
from hetero.ops.definitions import attention_varlen as packed
from hetero.ops.where import Facts

#: Source: op-plugin docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention.md
MAX_DIM, MAX_HEADS = 768, 256
_NO_LIMIT = 2**31 - 1
_FULL, _UPPER_LEFT, _LOWER_RIGHT, _BAND = 0, 2, 3, 4  # sparse_mode
_EVERY_ROW, _EMPTY_ROWS = 0, 2  # inner_precise
_COPIES = 8  # of each maximum and sum
_MOST_DOCUMENTS = 1000  # in one call with layout TND


@dataclass(frozen=True)
class Hiding:
    """How to tell the vendor what is hidden. ``empty``: rows that see nothing, broadcastable to [B, heads, queries]."""

    mode: int = _FULL
    mask: Tensor | None = None
    before: int = _NO_LIMIT
    after: int = _NO_LIMIT
    empty: Tensor | None = None

    def arguments(self) -> dict[str, object]:
        return {
            "atten_mask": self.mask,
            "pre_tockens": self.before,
            "next_tockens": self.after,
            "sparse_mode": self.mode,
            "inner_precise": _EVERY_ROW if self.empty is None else _EMPTY_ROWS,
        }


@cache
def compressed(device: torch.device) -> Tensor:
    """The mask that sparse modes 2, 3 and 4 are given whatever the sizes: True above the diagonal."""
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1).to(device)


def hiding(q: Tensor, k: Tensor, mask: Tensor | None, left: int, right: int, lower_right: bool) -> Hiding:
    """For ``q`` and ``k`` [B, tokens, heads, D]."""
    queries, keys = q.shape[1], k.shape[1]
    lower_right = lower_right or queries == keys
    if mask is None:
        if left < 0 and right < 0:
            return Hiding()
        if left < 0 and right == 0 and queries <= keys:
            return Hiding(_LOWER_RIGHT if lower_right else _UPPER_LEFT, compressed(q.device))
        if lower_right and queries <= keys:
            before, after = (_NO_LIMIT if n < 0 else n for n in (left, right))
            return Hiding(_BAND, compressed(q.device), before, after)
    seen = dense.visible(queries, keys, left, right, lower_right, q.device)
    if seen is None:
        assert mask is not None
        seen = mask
    elif mask is not None:
        seen = mask & seen
    seen = seen[(None,) * (4 - seen.dim())]
    # Full masks may be [B, heads, …], [B, 1, …] or [1, 1, …].
    batch = q.shape[0] if seen.shape[0] > 1 or seen.shape[1] > 1 else 1
    hidden = ~seen.expand(batch, seen.shape[1], queries, keys)
    return Hiding(_FULL, hidden.contiguous(), empty=hidden.all(-1))


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, left: int, right: int, lower_right: bool,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(out [B, queries, heads, value dim], lse [B, heads, queries])``."""
    batch, queries, heads, _dim = q.shape
    if not (q.numel() and k.numel() and v.numel()):
        return dense._forward(q, k, v, mask, scale, left, right, lower_right, softcap)
    plan = hiding(q, k, mask, left, right, lower_right)
    out, top, total, *_ = npu("npu_fusion_attention")(
        q.contiguous(), k.contiguous(), v.contiguous(), heads, "BSND", scale=scale, **plan.arguments()
    )
    lse = top[..., 0] + total[..., 0].log()
    if plan.empty is not None:
        empty = plan.empty.expand(batch, heads, queries)
        lse = lse.masked_fill(empty, float("-inf"))
        out = out.masked_fill(empty.transpose(1, 2)[..., None], 0)
    return out.contiguous(), lse.contiguous()


def attention_backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor, scale: float,
    left: int, right: int, lower_right: bool, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(dq, dk, dv)``."""
    if not (q.numel() and k.numel() and v.numel()):
        return tuple(torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))  # type: ignore[return-value]
    plan = hiding(q, k, mask, left, right, lower_right)
    g_out = g_out.to(q.dtype)
    if plan.empty is not None:  # whatever the kernel makes of such a row, it is multiplied by 0
        empty = lse == float("-inf")
        lse = lse.masked_fill(empty, 0)
        g_out = g_out.masked_fill(empty.transpose(1, 2)[..., None], 0)
    top = lse[..., None].expand(*lse.shape, _COPIES).contiguous()
    d_q, d_k, d_v, *_ = npu("npu_fusion_attention_grad")(
        q.contiguous(), k.contiguous(), v.contiguous(), g_out.contiguous(), q.shape[2], "BSND", softmax_max=top,
        softmax_sum=torch.ones_like(top), attention_in=out.contiguous(), scale_value=scale, **plan.arguments(),
    )  # fmt: skip
    return d_q, d_k, d_v


# -- documents behind one another ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Documents of one call: their rows, and running totals of their lengths without the leading 0."""

    q: slice
    k: slice
    q_ends: list[int]
    k_ends: list[int]


def _parts(cu_q: Tensor, cu_k: Tensor, left: int, right: int) -> list[Part] | None:
    """None where some query sees no key, which the vendor does not allow here."""
    q, k = cu_q.tolist(), cu_k.tolist()
    documents = [(q[i + 1] - q[i], k[i + 1] - k[i]) for i in range(len(q) - 1)]
    if any(a and (b == 0 or (a > b and (left >= 0 or right >= 0))) for a, b in documents):
        return None
    parts = []
    for first in range(0, len(documents), _MOST_DOCUMENTS):
        last = min(first + _MOST_DOCUMENTS, len(documents))
        ends = [[c - cu[first] for c in cu[first + 1 : last + 1]] for cu in (q, k)]
        if ends[0][-1]:
            parts.append(Part(slice(q[first], q[last]), slice(k[first], k[last]), *ends))
    return parts


def _band(q: Tensor, left: int, right: int) -> Hiding:
    if left < 0 and right < 0:
        return Hiding()
    if left < 0 and right == 0:
        return Hiding(_LOWER_RIGHT, compressed(q.device))
    before, after = (_NO_LIMIT if n < 0 else n for n in (left, right))
    return Hiding(_BAND, compressed(q.device), before, after)


def attention_varlen(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, scale: float, left: int, right: int,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(out [tokens, heads, value dim], lse [heads, tokens])``."""
    parts = _parts(cu_seqlens_q, cu_seqlens_k, left, right)
    if parts is None:
        return packed._forward(q, k, v, cu_seqlens_q, cu_seqlens_k, scale, left, right, softcap)
    out = q.new_zeros((*q.shape[:2], v.shape[2]))
    lse = torch.full((q.shape[1], q.shape[0]), float("-inf"), dtype=torch.float32, device=q.device)
    plan = _band(q, left, right)
    for part in parts:
        found, top, total, *_ = npu("npu_fusion_attention")(
            q[part.q].contiguous(), k[part.k].contiguous(), v[part.k].contiguous(), q.shape[1], "TND", scale=scale,
            actual_seq_qlen=part.q_ends, actual_seq_kvlen=part.k_ends, softmax_layout="TND", **plan.arguments(),
        )  # fmt: skip
        out[part.q] = found
        lse[:, part.q] = (top[..., 0] + total[..., 0].log()).T
    return out, lse


def attention_varlen_backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, out: Tensor,
    lse: Tensor, scale: float, left: int, right: int, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(dq, dk, dv)``."""
    parts = _parts(cu_seqlens_q, cu_seqlens_k, left, right)
    if parts is None:
        return packed._backward(
            g_out, q, k, v, cu_seqlens_q, cu_seqlens_k, out, lse, scale, left, right, softcap
        )
    d_q, d_k, d_v = (torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))
    plan = _band(q, left, right)
    for part in parts:
        top = lse[:, part.q].T[..., None].expand(-1, -1, _COPIES).contiguous()
        found = npu("npu_fusion_attention_grad")(
            q[part.q].contiguous(), k[part.k].contiguous(), v[part.k].contiguous(),
            g_out[part.q].to(q.dtype).contiguous(), q.shape[1], "TND", softmax_max=top,
            softmax_sum=torch.ones_like(top), attention_in=out[part.q].contiguous(), scale_value=scale,
            actual_seq_qlen=part.q_ends, actual_seq_kvlen=part.k_ends, softmax_layout="TND", **plan.arguments(),
        )  # fmt: skip
        d_q[part.q], d_k[part.k], d_v[part.k] = found[:3]
    return d_q, d_k, d_v


# -- conditions ----------------------------------------------------------------------------------------------------


def fits(facts: Facts) -> str | None:
    """Why the vendor's operator cannot take a call; None when it can."""
    if facts.flags["softcap"]:
        return "npu_fusion_attention has no soft-capping"
    if facts.sizes["value_dim"] > facts.last_dim:
        return f"value_dim {facts.sizes['value_dim']} > dim {facts.last_dim}"
    return None
