"""Cross entropy of ``hidden weight^T + bias`` without ever holding all logits.

Tokens are taken in chunks: matmul, loss, and (when wanted) the chunk's gradient are done before the next chunk. With a
scalar reduction the weight of each row's loss is known up to one factor, so the gradients are made in the forward
pass (three matmuls, as an ordinary linear layer) and scaled in the backward pass. With ``reduction="none"`` the
upstream gradient is unknown until then: the backward pass makes the logits again (four matmuls), which is right
for any upstream gradient. The loss is that of :mod:`hetero.ops.cross_entropy`. Source of the chunking: Hsu et al. 2024,
arXiv:2410.10989.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hetero.ops.definitions import cross_entropy as ce
from hetero.ops.definitions import linear_head, shapes
from hetero.ops.definitions.precision import wide_dtype
from hetero.ops.library import declare
from hetero.ops.spec import Cost, Op, Pass, Sample


def _forward(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, token_scale: Tensor | None,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    ce.check_labels("fused_linear_cross_entropy", labels, weight.shape[0], ignore_index)
    rows, dtype = hidden.shape[0], wide_dtype(hidden.dtype)
    loss, lse = hidden.new_empty(rows, dtype=dtype), hidden.new_empty(rows, dtype=dtype)
    want = token_scale is not None
    gradients = linear_head.Gradients(hidden, weight, bias, want and need_hidden, want and need_weight)
    for part in linear_head.chunks(rows, weight.shape[0]):
        z = ce.capped(linear_head.logits_of(hidden[part], weight, bias), softcap)
        loss[part], lse[part] = ce.row_losses(z, labels[part], ignore_index, label_smoothing, z_loss)
        if token_scale is not None:
            gradients.add(
                part,
                ce.row_gradients(
                    token_scale[part],
                    z,
                    labels[part],
                    lse[part],
                    ignore_index,
                    label_smoothing,
                    z_loss,
                    softcap,
                ),
            )
    return loss, lse, *gradients.take()


def _backward(
    g_loss: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    gradients = linear_head.Gradients(hidden, weight, bias, need_hidden, need_weight)
    for part in linear_head.chunks(hidden.shape[0], weight.shape[0]):
        z = ce.capped(linear_head.logits_of(hidden[part], weight, bias), softcap)
        gradients.add(
            part,
            ce.row_gradients(
                g_loss[part], z, labels[part], lse[part], ignore_index, label_smoothing, z_loss, softcap
            ),
        )
    return gradients.take()


def _fake_forward(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, token_scale: Tensor | None,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    want, dtype = token_scale is not None, wide_dtype(hidden.dtype)
    stats = hidden.new_empty(labels.shape, dtype=dtype), hidden.new_empty(labels.shape, dtype=dtype)
    return *stats, *linear_head.fake_gradients(
        hidden, weight, bias, want and need_hidden, want and need_weight
    )


def _fake_backward(
    g_loss: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, lse: Tensor,
    ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, need_hidden: bool, need_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return linear_head.fake_gradients(hidden, weight, bias, need_hidden, need_weight)


def _prepare(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
) -> tuple[Any, ...]:
    ce.check_loss_options("fused_linear_cross_entropy", label_smoothing, reduction)
    rows, flat = linear_head.prepare("fused_linear_cross_entropy", hidden, weight, labels, bias)
    return rows, weight, bias, flat, None, ignore_index, label_smoothing, z_loss, softcap or 0.0, True, True


def _samples(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    def case(
        name: str, n: int, h: int, v: int, *options: float, bias: bool = False, scale: bool = False
    ) -> Sample:
        hidden = shapes.normal((n, h), device, dtype, generator)
        weight = shapes.normal((v, h), device, dtype, generator, scale=h**-0.5 * 2)
        b = shapes.normal((v,), device, dtype, generator) if bias else None
        labels = shapes.labels_for(n, v, device, generator, -100)
        weights = torch.rand(n, generator=generator).to(device) if scale else None
        return Sample(
            name, (hidden, weight, b, labels, weights, -100, *(options or (0.0, 0.0, 0.0)), True, True)
        )

    yield case("1x1x2", 1, 1, 2)
    yield case("7x17x33", 7, 17, 33)
    yield case("gradients in forward", 7, 17, 33, scale=True)
    yield case("bias", 9, 8, 101, bias=True, scale=True)
    yield case("bias, gradients later", 9, 8, 101, bias=True)
    yield case("everything", 9, 8, 101, 0.1, 1e-3, 5.0, bias=True, scale=True)
    yield case("no tokens", 0, 8, 11)
    hidden, weight, b, labels, *rest = case("", 5, 8, 11).args
    yield Sample("all ignored", (hidden, weight, b, torch.full_like(labels, -100), *rest))


_SCHEMA = (
    "int ignore_index, float label_smoothing, float z_loss, float softcap, bool need_hidden, bool need_weight"
)
_OPERANDS = ("hidden", "weight", "bias")

OP = declare(
    Op(
        name="fused_linear_cross_entropy",
        forward=Pass(
            f"(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels, Tensor? token_scale, {_SCHEMA})"
            " -> (Tensor loss, Tensor lse, Tensor d_hidden, Tensor d_weight, Tensor d_bias)",
            _forward,
            _fake_forward,
            operands=_OPERANDS,
        ),
        backward=Pass(
            f"(Tensor g_loss, Tensor hidden, Tensor weight, Tensor? bias, Tensor labels, Tensor lse, {_SCHEMA})"
            " -> (Tensor d_hidden, Tensor d_weight, Tensor d_bias)",
            _backward,
            _fake_backward,
            operands=_OPERANDS,
        ),
        grads={"hidden": "d_hidden", "weight": "d_weight", "bias": "d_bias"},
        needs={"need_weight": ("weight", "bias")},
        prepare=_prepare,
        samples=_samples,
        cost=lambda hidden, weight, *_: Cost(
            2 * hidden.shape[0] * weight.numel(), hidden.nbytes + weight.nbytes
        ),
        backward_cost=lambda g, hidden, weight, *_: Cost(
            6 * hidden.shape[0] * weight.numel(), 2 * hidden.nbytes + 3 * weight.nbytes
        ),
    )
)


class _WithGradients(torch.autograd.Function):
    """``sum(token_scale * loss)``: gradients are made in the forward pass and scaled in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        scale: Tensor,
        *options: Any,
    ) -> Tensor:
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        loss, _, *gradients = OP.forward(
            hidden, weight, bias, labels, scale, *options, need_hidden, need_weight or ctx.needs_input_grad[2]
        )
        ctx.save_for_backward(*gradients)
        return (loss * scale).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        gradients = [
            (g * upstream).to(g.dtype) if need else None
            for g, need in zip(ctx.saved_tensors, ctx.needs_input_grad)
        ]
        return *gradients, None, None, None, None, None, None


def fused_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of ``hidden @ weight.T + bias`` against ``labels``; the logits are never materialised.

    Args:
        hidden: ``[..., hidden]``.
        weight: ``[classes, hidden]``, the output embedding, in ``hidden``'s dtype.
        labels: int64 ``[...]``; not shifted here.
        bias: ``[classes]`` or None.
        ignore_index, label_smoothing, z_loss, softcap, reduction: as in :func:`hetero.ops.cross_entropy`.

    Returns:
        float32 scalar, or ``[...]`` for ``"none"``. Gradients are right for any upstream gradient in each case.

    Raises:
        OpError: shapes, dtypes or options that do not fit.
        IndexError: a label outside ``[0, classes)`` (on the CPU).
    """
    args = _prepare(
        hidden, weight, labels, bias, ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss,
        softcap=softcap, reduction=reduction,
    )  # fmt: skip
    if reduction == "none":
        return OP.apply(*args).reshape(labels.shape)
    rows, _, _, flat, _, *options, _, _ = args
    kept = (flat != ignore_index).to(wide_dtype(hidden.dtype))
    scale = kept if reduction == "sum" else kept / kept.sum().clamp(min=1)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias)):
        return _WithGradients.apply(rows, weight, bias, flat, scale, *options)
    loss, *_ = OP.forward(rows, weight, bias, flat, None, *options, False, False)
    return (loss * scale).sum()
