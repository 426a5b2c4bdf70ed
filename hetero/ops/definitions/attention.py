"""Scaled dot-product attention, with grouped heads, masks, a sliding window and soft-capped scores.

``s = scale q k^T``, capped to ``c tanh(s / c)``; ``p = exp(s - lse)`` over the keys a query sees; ``out = p v``.
Backward with ``d = p (g v^T - rowsum(g out))``, times ``1 - tanh^2`` when capped: ``dq = scale d k``, ``dk = scale
d^T q``, ``dv = p^T g``, summed over the query heads that share a key head. A query that sees no key gives 0 and no
gradient, and its log-sum-exp is ``-inf``. Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023,
arXiv:2305.13245 (grouped heads); Dao 2023, arXiv:2307.08691 (the backward pass from the log-sum-exp).

Inside, tensors are ``[batch, tokens, heads, dim]``, as projections leave them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hetero.errors import OpError
from hetero.ops.definitions import shapes
from hetero.ops.definitions.devices import one_device
from hetero.ops.definitions.precision import wide, wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample

#: Which corner of the (queries, keys) rectangle the diagonal goes through; names as in torch.nn.attention.bias.
ALIGNMENTS = ("lower_right", "upper_left")


def visible(
    queries: int, keys: int, left: int, right: int, lower_right: bool, device: torch.device
) -> Tensor | None:
    """Whether a query sees a key, [queries, keys]: from ``left`` before its own place to ``right`` after it.

    -1 is no limit; None when nothing is hidden.
    """
    if left < 0 and right < 0:
        return None
    at = torch.arange(queries, device=device)[:, None] + (keys - queries if lower_right else 0)
    key = torch.arange(keys, device=device)[None]
    before = key >= at - left if left >= 0 else torch.ones_like(key >= at)
    return before & (key <= at + right) if right >= 0 else before


def _scores(q: Tensor, k: Tensor, scale: float, softcap: float) -> Tensor:
    """Capped scores [B, key heads, group, queries, keys]."""
    grouped = wide(q).unflatten(2, (k.shape[2], -1))
    s = torch.einsum("bqhgd,bkhd->bhgqk", grouped, wide(k)) * scale
    return softcap * torch.tanh(s / softcap) if softcap else s


def _hidden(s: Tensor, keep: Tensor | None) -> Tensor:
    return s if keep is None else s.masked_fill(~keep, float("-inf"))


def _keep(
    q: Tensor, k: Tensor, mask: Tensor | None, left: int, right: int, lower_right: bool
) -> Tensor | None:
    """What each query sees, broadcastable to the scores."""
    band = visible(q.shape[1], k.shape[1], left, right, lower_right, q.device)
    if mask is None:
        return band
    mask = mask[:, :, None] if mask.shape[1] == 1 else mask.unflatten(1, (k.shape[2], -1))
    return mask if band is None else mask & band


def dense_forward(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, scale: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """Output [B, queries, heads, value dim] in ``q``'s dtype, log-sum-exp [B, heads, queries]."""
    s = _hidden(_scores(q, k, scale, softcap), keep)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.masked_fill(lse == float("-inf"), 0)[..., None])
    out = torch.einsum("bhgqk,bkhd->bqhgd", p, wide(v)).flatten(2, 3)
    return out.to(q.dtype).contiguous(), lse.flatten(1, 2).contiguous()


def dense_backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, out: Tensor, lse: Tensor, scale: float,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of ``q``, ``k`` and ``v``."""
    heads = k.shape[2]
    capped = _scores(q, k, scale, softcap)
    base = lse.masked_fill(lse == float("-inf"), 0).unflatten(1, (heads, -1))[..., None]
    p = torch.exp(_hidden(capped, keep) - base)
    g = wide(g_out).unflatten(2, (heads, -1))
    d_v = torch.einsum("bhgqk,bqhgd->bkhd", p, g)
    d_p = torch.einsum("bqhgd,bkhd->bhgqk", g, wide(v))
    rows = (g * wide(out).unflatten(2, (heads, -1))).sum(-1).permute(0, 2, 3, 1)
    d_s = p * (d_p - rows[..., None]) * scale
    if softcap:
        d_s = d_s * (1 - (capped / softcap).square())
    d_q = torch.einsum("bhgqk,bkhd->bqhgd", d_s, wide(k)).flatten(2, 3)
    d_k = torch.einsum("bhgqk,bqhgd->bkhd", d_s, wide(q).unflatten(2, (heads, -1)))
    return d_q.to(q.dtype).contiguous(), d_k.to(k.dtype).contiguous(), d_v.to(v.dtype).contiguous()


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, left: int, right: int, lower_right: bool,
    softcap: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return dense_forward(q, k, v, _keep(q, k, mask, left, right, lower_right), scale, softcap)


def _backward(
    g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor, scale: float,
    left: int, right: int, lower_right: bool, softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return dense_backward(
        g_out, q, k, v, _keep(q, k, mask, left, right, lower_right), out, lse, scale, softcap
    )


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    batch, tokens, heads, _dim = q.shape
    lse = q.new_empty((batch, heads, tokens), dtype=wide_dtype(q.dtype))
    return q.new_empty((batch, tokens, heads, v.shape[-1])), lse


def fake_backward(g_out: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients are shaped as what they belong to."""
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def check_heads(name: str, q: Tensor, k: Tensor, v: Tensor, tokens: int, heads: int) -> None:
    """Refuse tensors that do not fit; ``tokens`` and ``heads`` are the dimensions with these meanings.

    Raises:
        OpError: shapes, dtypes or devices that do not fit.
    """
    shown = f"q {q.dtype} {tuple(q.shape)}, k {k.dtype} {tuple(k.shape)}, v {v.dtype} {tuple(v.shape)}"
    if not (q.is_floating_point() and q.dtype == k.dtype == v.dtype):
        raise OpError(f"{name}: q, k and v must have one floating dtype: {shown}")
    fits = (
        k.shape[:-1] == v.shape[:-1]
        and q.shape[-1] == k.shape[-1]
        and (q.dim() == 3 or q.shape[0] == k.shape[0])
        and k.shape[heads] > 0
        and q.shape[heads] % k.shape[heads] == 0
    )
    if not fits:
        raise OpError(
            f"{name}: {shown} do not fit: batch and dim must agree, k and v have the same tokens and heads, and "
            "the heads of q must be a multiple of theirs"
        )
    one_device(name, q, k=k, v=v)


def band(
    name: str, causal: bool, window_size: tuple[int, int], softcap: float | None
) -> tuple[int, int, float]:
    """``(left, right, softcap)`` as the schemas take them.

    Raises:
        OpError: a value without a meaning.
    """
    left, right = window_size
    if left < -1 or right < -1 or (softcap is not None and softcap < 0):
        raise OpError(f"{name}: window_size={window_size} (-1 is no limit) and softcap={softcap} (0 is off)")
    return left, 0 if causal else right, float(softcap or 0.0)


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    align: str = "lower_right",
    window_size: tuple[int, int] = (-1, -1),
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> tuple[Any, ...]:
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise OpError(
            f"attention: q, k and v must be [batch, heads, tokens, dim], got {tuple(q.shape)}, {tuple(k.shape)}, "
            f"{tuple(v.shape)}"
        )
    check_heads("attention", q, k, v, tokens=2, heads=1)
    if align not in ALIGNMENTS:
        raise OpError(f"attention: align={align!r} is not one of {ALIGNMENTS}")
    left, right, cap = band("attention", causal, window_size, softcap)
    if mask is not None:
        full = (*q.shape[:3], k.shape[2])
        fits = mask.dim() <= 4 and all(m in (1, f) for m, f in zip(mask.shape[::-1], full[::-1]))
        if mask.dtype != torch.bool or not fits:
            raise OpError(
                f"attention: mask must be bool (True: the query sees the key) and broadcast to {full}, got "
                f"{mask.dtype} {tuple(mask.shape)}"
            )
        one_device("attention", q, mask=mask)
        mask = mask[(None,) * (4 - mask.dim())]
    moved = (t.transpose(1, 2) for t in (q, k, v))
    return *moved, mask, float(scale), left, right, align == "lower_right", cap


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(
        name: str, b: int, sq: int, sk: int, hq: int, hk: int, d: int, *rest: Any, dv: int | None = None,
        mask: Tensor | None = None, scale: float = 1.0, softcap: float = 0.0,
    ) -> Sample:  # fmt: skip
        def draw(tokens: int, heads: int, dim: int, size: float = 1.0) -> Tensor:
            return shapes.normal((b, tokens, heads, dim), device, dtype, generator, size)

        tensors = draw(sq, hq, d, scale), draw(sk, hk, d), draw(sk, hk, d if dv is None else dv)
        left, right, lower_right = rest or (-1, -1, True)
        at = None if mask is None else mask.to(device)
        return Sample(name, (*tensors, at, d**-0.5, left, right, lower_right, softcap))

    padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    some = torch.rand((1, 1, 6, 7), generator=generator) < 0.5
    yield case("causal, grouped heads", 2, 5, 5, 4, 2, 8, -1, 0, True)
    yield case("lower right, 3 of 7", 1, 3, 7, 2, 1, 8, -1, 0, True)
    yield case("upper left, 3 of 7", 1, 3, 7, 2, 2, 8, -1, 0, False)
    yield case("padded keys, one row with none", 3, 5, 5, 2, 2, 4, mask=padding[:, None, None, :])
    yield case("window, soft-capped", 1, 9, 9, 2, 1, 8, 2, 0, True, softcap=5.0)
    yield case("lower right, more queries than keys", 1, 7, 4, 2, 1, 8, -1, 0, True)
    yield case("window to both sides", 1, 9, 9, 2, 2, 8, 1, 2, True)
    yield case("window, upper left, 5 of 9", 2, 5, 9, 2, 2, 8, 2, 0, False)
    yield case("one token", 1, 1, 1, 1, 1, 2)
    yield case("no queries", 2, 0, 4, 2, 2, 8)
    yield case("every pair", 2, 6, 7, 4, 4, 16, dv=8)
    yield case("mask of pairs, causal", 1, 6, 7, 2, 2, 8, -1, 0, True, mask=some)
    yield case("mask of heads", 1, 6, 7, 4, 2, 8, mask=torch.rand((1, 4, 6, 7), generator=generator) < 0.5)
    yield case("huge scores", 1, 9, 9, 2, 1, 16, -1, 0, True, scale=100.0)
    yield case("longer", 2, 67, 67, 4, 2, 64, -1, 0, True)
    q, k, v, *rest = case("", 2, 9, 9, 4, 2, 16, -1, 0, True).args
    heads_first = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    yield Sample("heads first in memory", (*heads_first, *rest))


_SIZES = {"heads": ("q", 2), "kv_heads": ("k", 2), "value_dim": ("v", 3)}
_FLAGS = ("left", "right", "lower_right", "softcap")
_OPTIONS = "float scale, int left, int right, bool lower_right, float softcap"


def _cost(q: Tensor, k: Tensor, v: Tensor, *_: Any, times: int = 1) -> Cost:
    products = q.shape[0] * q.shape[2] * q.shape[1] * k.shape[1] * (q.shape[3] + v.shape[3])
    return Cost(2 * products * times, times * (q.nbytes + k.nbytes + v.nbytes) + q.nbytes)


OP = declare(
    Op(
        name="attention",
        forward=Pass(
            f"(Tensor q, Tensor k, Tensor v, Tensor? mask, {_OPTIONS}) -> (Tensor out, Tensor lse)",
            _forward,
            _fake_forward,
            operands=("q", "k", "v"),
            flags=_FLAGS,
            sizes=_SIZES,
        ),
        backward=Pass(
            f"(Tensor g_out, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor out, Tensor lse, {_OPTIONS})"
            " -> (Tensor d_q, Tensor d_k, Tensor d_v)",
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


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    align: str = "lower_right",
    window_size: tuple[int, int] = (-1, -1),
    mask: Tensor | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention over all keys, or those that ``causal``, ``window_size`` and ``mask`` leave.

    Args:
        q: ``[batch, heads, queries, dim]``; k: ``[batch, kv_heads, keys, dim]``; v: the same with its own dim. The
            heads of ``q`` are a multiple of ``kv_heads`` (grouped-query attention).
        scale: multiplies the scores; always given, since libraries differ in what they leave out.
        causal: no query sees a later key.
        align: which query and key stand at the same place when there are more of one: the last of each
            (``"lower_right"``, as flash-attn and a KV cache need it), or the first (``"upper_left"``, as ``is_causal``
            of torch's ``scaled_dot_product_attention``).
        window_size: keys before and after its own place that a query sees, as flash-attn; -1 is no limit.
        mask: bool, broadcastable to ``[batch, heads, queries, keys]``; True: the query sees the key, as in torch
            (a padding mask is ``keep[:, None, None, :]``).
        softcap: scores are capped to ``softcap tanh(scores / softcap)``; None or 0 is off.
        return_lse: also give the log-sum-exp of each query's scores, float32 ``[batch, heads, queries]``, without a
            gradient.

    Returns:
        ``[batch, heads, queries, value_dim]`` in ``q``'s dtype, in memory ``[batch, queries, heads, value_dim]``. A
        query that sees no key gives 0.

    Raises:
        OpError: shapes or options that do not fit.
    """
    out, lse = OP.apply(
        *_prepare(
            q,
            k,
            v,
            scale=scale,
            causal=causal,
            align=align,
            window_size=window_size,
            mask=mask,
            softcap=softcap,
        )
    )
    out = out.transpose(1, 2)
    return (out, lse) if return_lse else out
