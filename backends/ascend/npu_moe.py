"""grouped_matmul, moe_permute and moe_unpermute on the vendor's kernels.

``npu_grouped_matmul`` has no autograd; the backward pass is the same call with the weights transposed, and one over the
rows of each group. ``npu_moe_token_permute`` gives the *inverse* of the sorting permutation, which is the op's
``row_id_map``. ``npu_moe_token_unpermute`` takes K from ``probs``, so a plain sum needs a tensor of ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hetero.backends.ascend.vendor import npu
from hetero.ops.where import Facts

_COUNTS = 1  # group_list_type: sizes of the groups, int64 on the device
_ROWS, _INNER = 0, 2  # group_type: what the groups divide
_ONE = {_ROWS: 2, _INNER: 3}  # split_item: one output tensor


def grouped_matmul(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """``[rows, N]``."""
    if not x.shape[0]:
        return x.new_empty((0, weight.shape[2]))
    return _product(x.contiguous(), weight, offs, _ROWS)


def grouped_matmul_backward(
    g_y: Tensor, x: Tensor, weight: Tensor, offs: Tensor, need_x: bool, need_weight: bool
) -> tuple[Tensor, Tensor]:
    """``(dx, dweight)``; empty where not needed."""
    g = g_y.to(x.dtype).contiguous()
    d_x, d_weight = x.new_empty(x.shape if need_x else 0), weight.new_empty(0)
    if need_x and x.shape[0]:
        d_x = _product(g, weight.transpose(1, 2), offs, _ROWS)
    if need_weight:
        rows = x.shape[0] > 0
        d_weight = _product(x.contiguous().T, g, offs, _INNER) if rows else torch.zeros_like(weight)
    return d_x, d_weight.contiguous()


def _product(x: Tensor, weight: Tensor, offs: Tensor, group_type: int) -> Tensor:
    ends = offs.to(torch.int64)
    counts = torch.cat((ends[:1], ends[1:] - ends[:-1]))
    (out,) = npu("npu_grouped_matmul")(
        [x],
        [weight],
        group_list=counts,
        split_item=_ONE[group_type],
        group_type=group_type,
        group_list_type=_COUNTS,
    )
    return out


def moe_permute(tokens: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
    """``(permuted, row_id_map)``."""
    if not tokens.numel():
        rows = experts.numel()
        return tokens.new_empty((rows, tokens.shape[1])), experts.new_empty((rows,), dtype=torch.int32)
    return npu("npu_moe_token_permute")(tokens.contiguous(), experts.contiguous())


def moe_permute_backward(g_permuted: Tensor, tokens: Tensor, row_id_map: Tensor) -> Tensor:
    """``[tokens, hidden]``."""
    if not tokens.numel():
        return tokens.new_empty(tokens.shape)
    return moe_unpermute(g_permuted.to(tokens.dtype), row_id_map, None, len(row_id_map) // len(tokens))


def moe_unpermute(permuted: Tensor, row_id_map: Tensor, probs: Tensor | None, choices: int) -> Tensor:
    """``[tokens, hidden]``."""
    tokens = row_id_map.shape[0] // choices
    if not permuted.numel():
        return permuted.new_empty((tokens, permuted.shape[1]))
    if probs is None and choices > 1:
        probs = permuted.new_ones((tokens, choices))
    return npu("npu_moe_token_unpermute")(
        permuted.contiguous(), row_id_map, None if probs is None else probs.contiguous()
    )


def same_dtype(facts: Facts) -> str | None:
    """Why the dtypes do not fit each other; None when they do. The vendor's documents name no mixture."""
    first = facts.dtypes[0]
    odd = [d for d in facts.dtypes if d not in (None, first)]
    return f"operands of {first} and {odd[0]}" if odd else None
