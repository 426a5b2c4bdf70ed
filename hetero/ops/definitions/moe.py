"""Sorting tokens by expert and back: ``moe_permute`` and ``moe_unpermute``.

A token is copied once for each of the K experts that a router chose for it. Copy ``i`` (token ``i // K``, choice
``i % K``) goes to row ``row_id_map[i]``: rows are ordered by expert, and within one by ``i``, so that the order is
always the same. Going back, ``y[t] = sum_k probs[t, k] row[row_id_map[t K + k]]``. Each is the other's gradient, up to
``probs``, whose own gradient is the product of the row and the upstream one. ``row_id_map`` is the inverse of the
sorting permutation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample

# -- permute -------------------------------------------------------------------------------------------------------


def _permute(tokens: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
    flat = experts.reshape(-1)
    order = torch.argsort(flat, stable=True)
    row_id_map = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return tokens[order // max(1, experts.shape[1])].contiguous(), row_id_map.to(torch.int32)


def _permute_backward(g_permuted: Tensor, tokens: Tensor, row_id_map: Tensor) -> Tensor:
    return _unpermute(g_permuted, row_id_map, None, len(row_id_map) // max(1, len(tokens))).to(tokens.dtype)


def _fake_permute(tokens: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
    rows = experts.numel()
    return tokens.new_empty((rows, tokens.shape[1])), tokens.new_empty((rows,), dtype=torch.int32)


def _fake_permute_backward(g_permuted: Tensor, tokens: Tensor, row_id_map: Tensor) -> Tensor:
    return tokens.new_empty(tokens.shape)


def _prepare_permute(tokens: Tensor, experts: Tensor) -> tuple[Any, ...]:
    if (
        tokens.dim() != 2
        or not tokens.is_floating_point()
        or experts.dim() != 2
        or len(experts) != len(tokens)
        or experts.shape[1] == 0
        or experts.dtype not in (torch.int32, torch.int64)
    ):
        raise OpError(
            "moe_permute: tokens must be [tokens, hidden] and experts int32 or int64 [tokens, K], got "
            f"{tokens.dtype} {tuple(tokens.shape)} and {experts.dtype} {tuple(experts.shape)}"
        )
    one_device("moe_permute", tokens, experts=experts)
    return tokens, experts


def _draw(
    device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> Iterator[tuple[str, Tensor, Tensor]]:
    for tokens, choices, experts, hidden in (
        (5, 2, 3, 8),
        (1, 1, 1, 1),
        (7, 3, 16, 5),
        (0, 2, 4, 8),
        (33, 4, 8, 96),
    ):
        scores = torch.rand((tokens, experts), generator=generator)
        chosen = scores.topk(choices, -1).indices.to(device)
        yield (
            f"{tokens} tokens to {choices} of {experts}",
            shapes.normal((tokens, hidden), device, dtype, generator),
            chosen,
        )


PERMUTE = declare(
    Op(
        name="moe_permute",
        forward=Pass(
            "(Tensor tokens, Tensor experts) -> (Tensor permuted, Tensor row_id_map)",
            _permute,
            _fake_permute,
            operands=("tokens",),
            sizes={"choices": ("experts", 1)},
        ),
        backward=Pass(
            "(Tensor g_permuted, Tensor tokens, Tensor row_id_map) -> (Tensor d_tokens)",
            _permute_backward,
            _fake_permute_backward,
            operands=("tokens",),
        ),
        grads={"tokens": "d_tokens"},
        public=2,
        constants=("row_id_map",),
        prepare=_prepare_permute,
        samples=lambda *a: (Sample(name, (tokens, experts)) for name, tokens, experts in _draw(*a)),
        cost=lambda tokens, experts: Cost(  # a copy counts as one operation
            experts.numel() * tokens.shape[1], tokens.nbytes * (1 + experts.shape[1]) + experts.nbytes
        ),
        backward_cost=lambda tokens, experts: Cost(
            experts.numel() * tokens.shape[1], tokens.nbytes * (1 + experts.shape[1])
        ),
    )
)


def moe_permute(tokens: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
    """A copy of each token for each of its experts, ordered by expert.

    Args:
        tokens: ``[tokens, hidden]``.
        experts: int32 or int64 ``[tokens, K]``, the experts chosen for each token.

    Returns:
        ``(permuted, row_id_map)``: ``[tokens K, hidden]``, and int32 ``[tokens K]``: copy ``t K + k`` of token ``t`` is
        row ``row_id_map[t K + k]``. Feed it to :func:`moe_unpermute`.

    Raises:
        OpError: shapes or dtypes that do not fit.
    """
    return PERMUTE.apply(*_prepare_permute(tokens, experts))


# -- unpermute -----------------------------------------------------------------------------------------------------


def _unpermute(permuted: Tensor, row_id_map: Tensor, probs: Tensor | None, choices: int) -> Tensor:
    choices = max(1, choices)
    rows = wide(permuted)[row_id_map.long()].unflatten(0, (len(row_id_map) // choices, choices))
    if probs is not None:
        rows = rows * probs.to(rows.dtype)[..., None]
    return rows.sum(1).to(permuted.dtype).contiguous()


def _unpermute_backward(
    g_y: Tensor, permuted: Tensor, row_id_map: Tensor, probs: Tensor | None, choices: int, need_probs: bool
) -> tuple[Tensor, Tensor]:
    at = row_id_map.long()
    g = wide(g_y).repeat_interleave(choices, 0)
    scaled = g if probs is None else g * probs.reshape(-1, 1).to(g.dtype)
    d_permuted = torch.empty_like(permuted, memory_format=torch.contiguous_format)
    d_permuted[at] = scaled.to(permuted.dtype)
    if probs is None or not need_probs:
        return d_permuted, permuted.new_empty(0)
    return d_permuted, (g * wide(permuted)[at]).sum(-1).reshape(probs.shape).to(probs.dtype)


def _fake_unpermute(permuted: Tensor, row_id_map: Tensor, probs: Tensor | None, choices: int) -> Tensor:
    return permuted.new_empty((row_id_map.shape[0] // choices, permuted.shape[1]))


def _fake_unpermute_backward(
    g_y: Tensor, permuted: Tensor, row_id_map: Tensor, probs: Tensor | None, choices: int, need_probs: bool
) -> tuple[Tensor, Tensor]:
    d_probs = permuted.new_empty(0) if probs is None or not need_probs else probs.new_empty(probs.shape)
    return permuted.new_empty(permuted.shape), d_probs


def _prepare_unpermute(
    permuted: Tensor, row_id_map: Tensor, probs: Tensor | None = None, *, choices: int | None = None
) -> tuple[Any, ...]:
    if probs is not None and choices is None and probs.dim() == 2:
        choices = probs.shape[1]
    choices = 1 if choices is None else choices
    if (
        permuted.dim() != 2
        or not permuted.is_floating_point()
        or row_id_map.dtype != torch.int32
        or row_id_map.shape != permuted.shape[:1]
        or choices < 1
        or len(row_id_map) % choices
        or (probs is not None and probs.shape != (len(row_id_map) // choices, choices))
    ):
        raise OpError(
            "moe_unpermute: permuted must be [tokens K, hidden], row_id_map int32 [tokens K] and probs [tokens, K], "
            f"got {permuted.dtype} {tuple(permuted.shape)}, {row_id_map.dtype} {tuple(row_id_map.shape)} and "
            f"{None if probs is None else tuple(probs.shape)} with choices={choices}"
        )
    one_device("moe_unpermute", permuted, row_id_map=row_id_map, probs=probs)
    return permuted, row_id_map, probs, choices


def _unpermute_samples(
    device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> Iterator[Sample]:
    for name, tokens, experts in _draw(device, dtype, generator):
        count = experts.numel()
        rows = torch.randperm(count, generator=generator).to(torch.int32).to(device)
        permuted = shapes.normal((count, tokens.shape[1]), device, dtype, generator)
        probs = shapes.normal(tuple(experts.shape), device, dtype, generator).abs()
        yield Sample(name, (permuted, rows, probs, experts.shape[1]))
        yield Sample(f"{name}, summed", (permuted, rows, None, experts.shape[1]))


UNPERMUTE = declare(
    Op(
        name="moe_unpermute",
        forward=Pass(
            "(Tensor permuted, Tensor row_id_map, Tensor? probs, int choices) -> (Tensor y)",
            _unpermute,
            _fake_unpermute,
            operands=("permuted", "probs"),
            flags=("choices",),
        ),
        backward=Pass(
            "(Tensor g_y, Tensor permuted, Tensor row_id_map, Tensor? probs, int choices, bool need_probs)"
            " -> (Tensor d_permuted, Tensor d_probs)",
            _unpermute_backward,
            _fake_unpermute_backward,
            operands=("permuted", "probs"),
            flags=("choices",),
        ),
        grads={"permuted": "d_permuted", "probs": "d_probs"},
        prepare=_prepare_unpermute,
        samples=_unpermute_samples,
        cost=lambda permuted, row_id_map, probs, choices: Cost(
            2 * permuted.numel(), permuted.nbytes + permuted.nbytes // choices + row_id_map.nbytes
        ),
        backward_cost=lambda permuted, *_: Cost(3 * permuted.numel(), 3 * permuted.nbytes),
    )
)


def moe_unpermute(
    permuted: Tensor, row_id_map: Tensor, probs: Tensor | None = None, *, choices: int | None = None
) -> Tensor:
    """Put what :func:`moe_permute` sorted back in order, and sum the K rows of each token.

    Args:
        permuted: ``[tokens K, hidden]``.
        row_id_map: as :func:`moe_permute` gave it.
        probs: ``[tokens, K]`` weights of the rows, or None: a plain sum.
        choices: K; from ``probs``, or 1, by default.

    Returns:
        ``[tokens, hidden]`` in ``permuted``'s dtype; the sum is in float32.

    Raises:
        OpError: shapes or dtypes that do not fit.
    """
    return UNPERMUTE.apply(*_prepare_unpermute(permuted, row_id_map, probs, choices=choices))
