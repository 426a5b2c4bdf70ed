"""Rotary position embedding of queries and keys.

Each pair of features is rotated by its position's angle: ``(x1 c - x2 s, x2 c + x1 s)``. *half* pairs feature
``i`` with ``i + R/2`` (Llama, Qwen, NeoX), *interleaved* pairs ``2i`` with ``2i + 1`` (GPT-J); of a head's ``D``
features the first ``R`` (``rotary_dim``) turn and the rest are copied. The gradient is the rotation by the
opposite angle. Scaling (linear, NTK, YaRN, llama3) only changes the tables. Source: Su et al. 2021,
arXiv:2104.09864.
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


def _turn(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """``x`` [B, T, H, D] by tables [B or 1, T, R/2]."""
    half = cos.shape[-1]
    c, s = cos[:, :, None, :], sin[:, :, None, :]
    turning = wide(x[..., : 2 * half])
    if interleaved:
        x1, x2 = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack((x1 * c - x2 * s, x2 * c + x1 * s), -1).flatten(-2)
    else:
        x1, x2 = turning[..., :half], turning[..., half:]
        turned = torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1)
    return torch.cat((turned.to(x.dtype), x[..., 2 * half :]), -1)


def _rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    c, s = (cos, sin) if positions is None else (cos[positions], sin[positions])
    c, s = wide(c), wide(s)
    if inverse:
        s = -s
    return _turn(q, c, s, interleaved).contiguous(), _turn(k, c, s, interleaved).contiguous()


def _fake(q: Tensor, k: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _rope_backward(
    g_q: Tensor,
    g_k: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    return _rope(g_q, g_k, cos, sin, positions, interleaved, not inverse)


def _fail(message: str) -> None:
    raise OpError(f"rope: {message}")


def _prepare(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    unsqueeze_dim: int = 1,
) -> tuple[Any, ...]:
    if unsqueeze_dim not in (1, 2):
        _fail(
            f"unsqueeze_dim={unsqueeze_dim}: 1 is [batch, heads, tokens, dim], 2 is [batch, tokens, heads, dim]"
        )
    if q.dim() != 4 or k.dim() != 4:
        _fail(f"q and k must have four dimensions, got {tuple(q.shape)} and {tuple(k.shape)}")
    if unsqueeze_dim == 1:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    batch, tokens, _, dim = q.shape
    if k.shape[:2] != q.shape[:2] or k.shape[-1] != dim or k.dtype != q.dtype or not q.is_floating_point():
        _fail(
            f"q {q.dtype} {tuple(q.shape)} and k {k.dtype} {tuple(k.shape)} (batch, tokens, heads, dim) do not fit"
        )
    one_device("rope", q, k=k, cos=cos, sin=sin, positions=positions)
    width = cos.shape[-1]
    turning = width if rotary_dim is None else rotary_dim
    if cos.shape != sin.shape or turning not in (width, 2 * width) or turning % 2 or turning > dim:
        _fail(
            f"cos {tuple(cos.shape)} and sin {tuple(sin.shape)} do not fit rotary_dim={turning} of head size {dim}: "
            "their last dimension is rotary_dim (each angle twice) or rotary_dim/2"
        )
    if turning == width:  # each angle stands twice: keep one
        cos, sin = (t[..., 0::2] if interleaved else t[..., : width // 2] for t in (cos, sin))
    if positions is not None:
        if positions.dtype != torch.int64:
            _fail(f"positions must be int64, got {positions.dtype}")
        if positions.dim() == 1:
            positions = positions[None]
        if cos.dim() != 2 or positions.shape not in ((batch, tokens), (1, tokens)):
            _fail(
                f"with positions {tuple(positions.shape)} the tables must be [max_position, {turning // 2}] "
                f"and positions [{batch}, {tokens}]; cos is {tuple(cos.shape)}"
            )
        positions = positions.expand(batch, tokens)
    else:
        if cos.dim() == 2:
            cos, sin = cos[None], sin[None]
        if cos.dim() != 3 or cos.shape[0] not in (1, batch) or cos.shape[1] != tokens:
            _fail(
                f"without positions the tables must be [{batch} or 1, {tokens}, …]; cos is {tuple(cos.shape)}"
            )
    return q, k, cos, sin, positions, interleaved, False


def _tables(positions: int, half: int, device: torch.device) -> tuple[Tensor, Tensor]:
    angle = torch.arange(positions)[:, None] * 10000.0 ** (-torch.arange(half) / max(half, 1))
    return angle.cos().to(device), angle.sin().to(device)


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return shapes.normal(shape, device, dtype, generator, scale)

    for interleaved in (False, True):
        style = "interleaved" if interleaved else "half"
        for b, t, hq, hk, d, r in (
            (1, 1, 1, 1, 2, 2),
            (2, 5, 3, 1, 16, 16),
            (1, 7, 4, 2, 20, 10),
            (2, 0, 2, 2, 8, 8),
        ):
            cos, sin = _tables(32, r // 2, device)
            at = torch.randint(0, 32, (b, t), generator=generator).to(device)
            yield Sample(
                f"{style} {b}x{t}x{hq}/{hk}x{d} turning {r}",
                (draw(b, t, hq, d), draw(b, t, hk, d), cos, sin, at, interleaved, False),
            )
        cos, sin = (t.to(dtype)[None] for t in _tables(9, 32, device))
        heads_first = draw(2, 4, 9, 64).transpose(1, 2), draw(2, 2, 9, 64).transpose(1, 2)
        yield Sample(
            f"{style} heads first, tables per token", (*heads_first, cos, sin, None, interleaved, False)
        )
        yield Sample(
            f"{style} tables per row",
            (draw(2, 9, 4, 64, scale=1e3), draw(2, 9, 4, 64), *(t.repeat(2, 1, 1) for t in (cos, sin)), None,
             interleaved, False),
        )  # fmt: skip


_FLAGS = ("interleaved", "inverse")

OP = declare(
    Op(
        name="rope",
        forward=Pass(
            "(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? positions, bool interleaved, bool inverse)"
            " -> (Tensor q_out, Tensor k_out)",
            _rope,
            _fake,
            operands=("q", "k"),
            flags=_FLAGS,
            sizes={"batch": ("q", 0), "heads": ("q", 2)},
        ),
        backward=Pass(
            "(Tensor g_q_out, Tensor g_k_out, Tensor cos, Tensor sin, Tensor? positions, bool interleaved,"
            " bool inverse) -> (Tensor d_q, Tensor d_k)",
            _rope_backward,
            _fake,
            operands=("g_q_out", "g_k_out"),
            flags=_FLAGS,
            sizes={"batch": ("g_q_out", 0), "heads": ("g_q_out", 2)},
        ),
        grads={"q": "d_q", "k": "d_k"},
        public=2,
        prepare=_prepare,
        samples=_samples,
        cost=lambda q, k, *_: Cost(3 * (q.numel() + k.numel()), 2 * (q.nbytes + k.nbytes)),
        backward_cost=lambda q, k, *_: Cost(3 * (q.numel() + k.numel()), 2 * (q.nbytes + k.nbytes)),
    )
)


def rope(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    unsqueeze_dim: int = 1,
) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys by position.

    Args:
        q, k: ``[batch, heads, tokens, dim]`` (``unsqueeze_dim=1``, as Transformers) or ``[batch, tokens, heads, dim]``
            (``unsqueeze_dim=2``); the numbers of heads may differ.
        cos, sin: without ``positions``, tables per token ``[batch or 1, tokens, W]`` or ``[tokens, W]``; with them,
            tables by position ``[max_position, W]``. ``W`` is ``rotary_dim`` (each angle twice, as Transformers makes
            them) or ``rotary_dim / 2``. No gradient flows to them.
        positions: int64 ``[batch, tokens]`` or ``[tokens]``; packed documents restart at 0.
        interleaved: pair neighbouring features instead of the two halves.
        rotary_dim: how many features turn; by default ``W``.

    Returns:
        ``(q, k)`` rotated, in their shapes and dtypes; the maths is float32.

    Raises:
        OpError: shapes that do not fit.
    """
    q_out, k_out = OP.apply(
        *_prepare(
            q,
            k,
            cos,
            sin,
            positions,
            interleaved=interleaved,
            rotary_dim=rotary_dim,
            unsqueeze_dim=unsqueeze_dim,
        )
    )
    return (q_out.transpose(1, 2), k_out.transpose(1, 2)) if unsqueeze_dim == 1 else (q_out, k_out)
