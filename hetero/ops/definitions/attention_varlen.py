"""Attention within documents that lie behind one another, without padding (:mod:`hetero.ops.definitions.attention`).

Document ``i`` is rows ``cu_seqlens[i]`` to ``cu_seqlens[i + 1]``; no query sees a key of another one. Where a document
has more keys than queries the diagonal goes through its lower right corner. Rows after the last document give 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.attention import (
    band,
    check_heads,
    dense_backward,
    dense_forward,
    fake_backward,
    visible,
)
from hetero.ops.definitions.precision import wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _documents(cu_q: Tensor, cu_k: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows of each document that has a query."""
    q, k = cu_q.tolist(), cu_k.tolist()
    for i in range(len(q) - 1):
        if q[i] < q[i + 1]:
            yield slice(q[i], q[i + 1]), slice(k[i], k[i + 1])


def _keep(q: Tensor, k: Tensor, left: int, right: int) -> Tensor | None:
    return visible(q.shape[0], k.shape[0], left, right, True, q.device)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, scale: float, left: int, right: int,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    out, lse = (t.zero_() for t in _fake_forward(q, k, v))
    lse -= float("inf")
    for a, b in _documents(cu_seqlens_q, cu_seqlens_k):
        keep = _keep(q[a], k[b], left, right)
        o, s = dense_forward(q[None, a], k[None, b], v[None, b], keep, scale, softcap)
        out[a], lse[:, a] = o[0], s[0]
    return out, lse


def _backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, out: Tensor,
    lse: Tensor, scale: float, left: int, right: int, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    d_q, d_k, d_v = (t.zero_() for t in fake_backward(g_out, q, k, v))
    for a, b in _documents(cu_seqlens_q, cu_seqlens_k):
        keep = _keep(q[a], k[b], left, right)
        given = g_out[None, a], q[None, a], k[None, b], v[None, b], keep, out[None, a], lse[None, :, a]
        found = dense_backward(*given, scale, softcap)
        d_q[a], d_k[b], d_v[b] = (t[0] for t in found)
    return d_q, d_k, d_v


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    tokens, heads, _dim = q.shape
    lse = q.new_empty((heads, tokens), dtype=wide_dtype(q.dtype))
    return q.new_empty((tokens, heads, v.shape[-1])), lse


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    *,
    scale: float,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float | None = None,
) -> tuple[Any, ...]:
    name = "attention_varlen"
    if q.dim() != 3 or k.dim() != 3 or v.dim() != 3:
        raise OpError(
            f"{name}: q, k and v must be [tokens, heads, dim], got {tuple(q.shape)}, {tuple(k.shape)}, "
            f"{tuple(v.shape)}"
        )
    check_heads(name, q, k, v, tokens=0, heads=1)
    cu_seqlens_k = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
    for what, cu, tokens in (
        ("cu_seqlens_q", cu_seqlens_q, q.shape[0]),
        ("cu_seqlens_k", cu_seqlens_k, k.shape[0]),
    ):
        if cu.dtype not in (torch.int32, torch.int64) or cu.dim() != 1 or not cu.numel():
            raise OpError(
                f"{name}: {what} must be int32 or int64 [documents + 1], got {cu.dtype} {tuple(cu.shape)}"
            )
        if cu.is_cpu:  # elsewhere looking would synchronise
            steps = cu.diff()
            if int(cu[0]) != 0 or bool((steps < 0).any()) or int(cu[-1]) > tokens:
                raise OpError(f"{name}: {what} must rise from 0 to at most {tokens}, it is {cu.tolist()}")
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        raise OpError(
            f"{name}: cu_seqlens_q is for {len(cu_seqlens_q) - 1} documents, cu_seqlens_k for {len(cu_seqlens_k) - 1}"
        )
    return q, k, v, cu_seqlens_q, cu_seqlens_k, float(scale), *band(name, causal, window_size, softcap)


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(
        name: str, q_lens: list[int], k_lens: list[int] | None, hq: int, hk: int, d: int, left: int = -1,
        right: int = 0, softcap: float = 0.0, host: bool = True, spare: int = 0,
    ) -> Sample:  # fmt: skip
        where = torch.device("cpu") if host else device
        cu = [
            torch.tensor([0, *lens]).cumsum(0).to(torch.int32 if host else torch.int64).to(where)
            for lens in (q_lens, k_lens or q_lens)
        ]
        sizes = sum(q_lens) + spare, sum(k_lens or q_lens) + spare
        tensors = [
            shapes.normal((n, h, d), device, dtype, generator)
            for n, h in ((sizes[0], hq), (sizes[1], hk), (sizes[1], hk))
        ]
        return Sample(name, (*tensors, *cu, d**-0.5, left, right, softcap))

    yield case("causal, grouped heads", [3, 1, 5], None, 4, 2, 8)
    yield case("more keys than queries", [2, 3], [4, 3], 2, 1, 8)
    yield case("every pair, lengths on the device", [4, 3], None, 2, 2, 8, right=-1, host=False)
    yield case("window, soft-capped", [7, 2], None, 2, 1, 8, left=2, softcap=4.0)
    yield case("an empty document", [3, 0, 2], None, 2, 2, 4)
    yield case("window", [9, 4], None, 2, 1, 8, left=3)
    yield case("window to both sides", [9, 4], None, 2, 1, 8, left=1, right=2)
    yield case("rows of no document", [3, 2], None, 2, 2, 8, spare=2)
    yield case("one document of one token", [1], None, 1, 1, 2)
    yield case("longer", [67, 30, 31], None, 4, 2, 64)


_SIZES = {"heads": ("q", 1), "kv_heads": ("k", 1), "value_dim": ("v", 2)}
_FLAGS = ("left", "right", "softcap")
_ARGS = "Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k"
_OPTIONS = "float scale, int left, int right, float softcap"


def _cost(q: Tensor, k: Tensor, v: Tensor, *_: Any, times: int = 1) -> Cost:
    """At least one key a query: how many more says the content of a tensor."""
    products = 2 * q.shape[0] * q.shape[1] * (q.shape[2] + v.shape[2])
    return Cost(products * times, times * (q.nbytes + k.nbytes + v.nbytes) + q.nbytes)


OP = declare(
    Op(
        name="attention_varlen",
        forward=Pass(
            f"({_ARGS}, {_OPTIONS}) -> (Tensor out, Tensor lse)",
            _forward,
            _fake_forward,
            operands=("q", "k", "v"),
            flags=_FLAGS,
            sizes=_SIZES,
        ),
        backward=Pass(
            f"(Tensor g_out, {_ARGS}, Tensor out, Tensor lse, {_OPTIONS}) -> (Tensor d_q, Tensor d_k, Tensor d_v)",
            _backward,
            fake_backward,
            operands=("q", "k", "v"),
            flags=_FLAGS,
            sizes=_SIZES,
        ),
        grads={"q": "d_q", "k": "d_k", "v": "d_v"},
        public=2,
        constants=("lse",),
        prepare=_prepare,
        samples=_samples,
        cost=_cost,
        backward_cost=lambda *args: _cost(*args, times=2),
    )
)


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    *,
    scale: float,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each document of a packed row, as ``flash_attn_varlen_func``.

    Args:
        q: ``[tokens, heads, dim]``; k: ``[keys, kv_heads, dim]``; v: the same with its own dim.
        cu_seqlens_q, cu_seqlens_k: int32 or int64 ``[documents + 1]``, running totals of the lengths from 0; the
            second is the first by default. Some kernels need them on the host: on the CPU they cost no
            synchronisation, whatever the device of ``q``.
        scale, causal, window_size, softcap, return_lse: as in :func:`hetero.ops.attention`; the last query of a
            document stands where its last key does. The log-sum-exp is ``[heads, tokens]``.

    Returns:
        ``[tokens, heads, value_dim]`` in ``q``'s dtype.

    Raises:
        OpError: shapes, lengths or options that do not fit.
    """
    out, lse = OP.apply(
        *_prepare(
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_k,
            scale=scale,
            causal=causal,
            window_size=window_size,
            softcap=softcap,
        )
    )
    return (out, lse) if return_lse else out
