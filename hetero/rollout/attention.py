"""Attention of a model over the paged cache, in the place of the model's own.

Transformers hands its attention to a function by name and passes keyword arguments on to it; :func:`paged` is
registered under :data:`NAME` and finds in ``pages`` what the tokens of this pass belong to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hetero.errors import RolloutError
from hetero.rollout.pages import PagePool

NAME = "hetero_paged"


@dataclass(frozen=True)
class Prefill:
    """A pass over whole prompts laid end to end; ``bounds`` are their first tokens and the end."""

    pool: PagePool
    slots: Tensor  # [tokens] where each token's key and value go: page * size + place
    bounds: list[int]

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, _layer: int, window: int | None, **how: Any
    ) -> Tensor:
        out = torch.empty_like(query)
        for start, end in zip(self.bounds, self.bounds[1:]):
            q, k, v = (x[:, :, start:end] for x in (query, keys, values))
            mask = None
            if window is not None and end - start > window:
                age = torch.arange(end - start, device=q.device)
                age = age[:, None] - age[None, :]
                mask = (age >= 0) & (age < window)
            out[:, :, start:end] = _attention(q, k, v, mask, causal=mask is None, **how)
        return out


@dataclass(frozen=True)
class Decode:
    """A pass over one new token of each sequence."""

    pool: PagePool
    slots: Tensor  # [rows]
    table: Tensor  # [rows, pages of the longest]
    lengths: Tensor  # [rows], with the new token

    def attend(
        self, query: Tensor, _keys: Tensor, _values: Tensor, layer: int, window: int | None, **how: Any
    ) -> Tensor:
        rows, heads, width = query.shape[2], query.shape[1], query.shape[3]
        memory = self.pool.layer(layer, _keys[0].transpose(0, 1), _values[0].transpose(0, 1))
        # [rows, kv heads, length, width]; queries that share a key head stand in a row as if they were positions.
        keys, values = (m[self.table].flatten(1, 2).transpose(1, 2) for m in memory)
        kv_heads = keys.shape[1]
        q = query[0].transpose(0, 1).reshape(rows, kv_heads, heads // kv_heads, width)
        place = torch.arange(keys.shape[2], device=q.device)
        mask = place < self.lengths[:, None]
        if window is not None:
            mask &= place >= self.lengths[:, None] - window
        out = _attention(q, keys, values, mask[:, None, None, :], causal=False, **how)
        return out.reshape(rows, heads, -1).transpose(0, 1)[None]


def paged(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    pages: Prefill | Decode,
    **other: Any,
) -> tuple[Tensor, None]:
    """Store the new keys and values, attend. ``query`` [1, heads, tokens, width]; returns [1, tokens, heads, width]."""
    if other.get("s_aux") is not None:
        raise RolloutError(
            f"{type(module).__name__} has attention sinks, which the built-in rollout engine lacks"
        )
    layer: int = module.layer_idx  # type: ignore[assignment]
    keys, values = key[0].transpose(0, 1), value[0].transpose(0, 1)
    for memory, rows in zip(pages.pool.layer(layer, keys, values), (keys, values)):
        memory.flatten(0, 1)[pages.slots] = rows
    out = pages.attend(query, key, value, layer, sliding_window, scale=scaling, softcap=softcap)
    return out.transpose(1, 2), None


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    scale: float | None,
    softcap: float | None,
) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    if softcap is None:
        return F.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=grouped
        )
    if grouped:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2)).float() * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = softcap * torch.tanh(scores / softcap)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, -1).to(v.dtype) @ v
